/** Apart from the command, because it loads the database's part, which most commands need not. */
import { databaseFailureOf, openStore, sqlStateOf } from '@leasehold/keys-core/postgres';
import { makeAdmin, newPassword, PASSWORD_LENGTH, PEOPLE_TOPIC } from '@leasehold/keys-core/access';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { refusal, unreachable, usageFailure } from '../../failures/failure.ts';

const UNDEFINED_TABLE = '42P01';

/** An administrator who can sign in from now on. */
export interface MadeAdmin {
  readonly email: string;
  readonly personId: string;
  readonly isNew: boolean;
  /** Only one that was made here. */
  readonly password?: string;
}

/**
 * Makes an administrator, or lets one in again.
 * @throws {CliFailure} when the password is of no good length, or the database does not do it.
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
  const store = openStore({
    databaseUrl,
    datacenter: 'cli',
    clock: createBootClock(),
    ids: systemIds(),
  });
  try {
    const made = await makeAdmin(store, { email, name, password });
    store.hints.notify(PEOPLE_TOPIC);
    return { email, ...made, ...(wanted.password === undefined ? { password } : {}) };
  } catch (error) {
    throw explained(error);
  } finally {
    await store.close();
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

/** What the database said, as what to do about it. */
function explained(error: unknown): unknown {
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
