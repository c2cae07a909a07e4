import { LeaseError } from '../../kernel/errors.ts';
import { isDiskFull } from '../database-errors.ts';

const MOVE =
  'or put LEASEHOLD_HOME somewhere else, or point DATABASE_URL at a PostgreSQL 15 or newer';

const REASONS: readonly { pattern: RegExp; say: (dir: string) => string }[] = [
  {
    pattern: /EROFS|Read-only file system/,
    say: (dir) => `${dir} is on a read-only file system. Make it writable, ${MOVE}.`,
  },
  {
    pattern: /EACCES|EPERM|Permission denied|Operation not permitted|has wrong ownership/,
    say: (dir) => `${dir} may not be read and written by this user. Give it to this user, ${MOVE}.`,
  },
  {
    pattern: /ENOTDIR|EEXIST|Not a directory/,
    say: (dir) => `${dir} cannot be a folder: a file is in the way. Move it, ${MOVE}.`,
  },
  {
    pattern: /database files are incompatible with server/,
    say: (dir) =>
      `${dir} was written by another major version of PostgreSQL. Dump it with that version and load it into a new folder, ${MOVE}.`,
  },
];

/**
 * The error for the folder `dir`, with a message that says what to do. `output` is what
 * the program printed, or the text of the failed call.
 */
export function startFailure(dir: string, output: string, given?: unknown): LeaseError {
  const cause = given ?? new Error(output);
  if (isDiskFull(cause)) {
    const message = `The disk that holds ${dir} is full. Free some space, ${MOVE}.`;
    return new LeaseError('store.unavailable', message, { cause });
  }
  const reason = REASONS.find(({ pattern }) => pattern.test(output));
  const message = reason
    ? reason.say(dir)
    : `The embedded PostgreSQL in ${dir} did not start: ${lastLines(output)}`;
  return new LeaseError('config.invalid', message, { cause });
}

function lastLines(output: string): string {
  const lines = output.trim().split('\n').slice(-3);
  return lines.join(' ') || 'it printed nothing.';
}
