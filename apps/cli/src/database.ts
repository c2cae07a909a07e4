/**
 * What commands do on the database itself. Loaded only when one of them does: it loads the database client, which
 * most commands do not need.
 */
import { makeAdmin, newPassword, PASSWORD_LENGTH, PEOPLE_TOPIC } from '@leasehold/keys-core/access';
import {
  databaseFailureOf,
  openStore,
  sqlStateOf,
  type Store,
} from '@leasehold/keys-core/postgres';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { refusal, unreachable, usageFailure } from './failures.ts';

const UNDEFINED_TABLE = '42P01';

/** Works on the database itself, by connections that are closed afterwards. */
export async function withStore<Result>(
  databaseUrl: string,
  datacenter: string,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  const store = openStore({ databaseUrl, datacenter, clock: createBootClock(), ids: systemIds() });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** An administrator who can sign in from now on. */
export interface MadeAdmin {
  readonly email: string;
  readonly personId: string;
  readonly isNew: boolean;
  /** Only if it was generated here. */
  readonly password?: string;
}

/**
 * Makes an administrator, or restores one.
 * @throws {CliFailure} when the password is too short or too long, or the database fails.
 */
export async function makeAdminOn(
  databaseUrl: string,
  wanted: {
    readonly email: string;
    readonly name: string | undefined;
    readonly password: string | undefined;
  },
): Promise<MadeAdmin> {
  const { email, name } = wanted;
  if (wanted.password !== undefined) checkPassword(wanted.password);
  const password = wanted.password ?? newPassword();
  try {
    return await withStore(databaseUrl, 'cli', async (store) => {
      const made = await makeAdmin(store, { email, name, password });
      store.hints.notify(PEOPLE_TOPIC);
      return { email, ...made, ...(wanted.password === undefined ? { password } : {}) };
    });
  } catch (error) {
    throw explainFailure(error);
  }
}

function checkPassword(password: string): void {
  const { min, max } = PASSWORD_LENGTH;
  if (password.length >= min && password.length <= max) return;
  throw usageFailure(
    `The password must have ${String(min)} to ${String(max)} characters.`,
    'It is read from standard input, without the end of the line.',
  );
}

/** A database error, as a failure that says what to do about it. */
function explainFailure(error: unknown): unknown {
  if (sqlStateOf(error) === UNDEFINED_TABLE) {
    return refusal(
      'store.outdated',
      'The database has no tables for people.',
      '`leasehold migrate` makes them.',
    );
  }
  return databaseFailureOf(error) === 'unavailable'
    ? unreachable('The database cannot be reached.', 'Check DATABASE_URL.', error)
    : error;
}
