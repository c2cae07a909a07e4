import pg from 'pg';
import { LeaseError, messageOf } from '../../kernel/errors.ts';

const LOCK_NOT_AVAILABLE = '55P03';
const INSUFFICIENT_PRIVILEGE = '42501';
/** Of connections that broke, and of a server that stops. */
const UNAVAILABLE = /^(?:08|57P0)/u;

export function isLockTimeout(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE;
}

/** What a failed statement of a migration means to an operator. A `LeaseError` stays as it is. */
export function migrationFailure(cause: unknown, name?: string): LeaseError {
  if (cause instanceof LeaseError) return cause;
  // If it is not an error of the database, the connection has failed.
  if (!(cause instanceof pg.DatabaseError)) return unreachable(cause);
  const { message, code = '' } = cause;
  if (code === INSUFFICIENT_PRIVILEGE) {
    return new LeaseError(
      'store.not_permitted',
      `The role of DATABASE_URL may not migrate the database (${message}). Run \`leasehold migrate\` as the owner of the schema, or see "Database roles" in docs/operate/postgresql.md.`,
      { cause },
    );
  }
  if (UNAVAILABLE.test(code)) return unreachable(cause);
  const which = name === undefined ? 'A migration' : `The migration ${name}`;
  return new LeaseError('internal.error', `${which} could not be applied: ${message}`, { cause });
}

export function unreachable(cause: unknown): LeaseError {
  const reason = messageOf(cause);
  return new LeaseError('store.unavailable', `The database cannot be reached: ${reason}`, {
    cause,
  });
}

export function stillLocked(cause: unknown): LeaseError {
  return new LeaseError(
    'store.unavailable',
    'The migrations could not be applied: a table stayed locked by another transaction. Try again when it has ended; what was applied before stays.',
    { cause },
  );
}
