/** What keeps a database from working, found in an error or in what caused it. */
import { LeaseError } from '../../kernel/errors.ts';
import { databaseFailureOf, sqlStateOf } from './database-errors.ts';

/** SQLSTATE of a database whose disk is full. */
const DISK_FULL = '53100';
const CODES: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', DISK_FULL]);
/** What programs print when their errors have no code. */
const TEXT = /ENOSPC|EDQUOT|No space left on device|Disk quota exceeded/u;

/**
 * Whether something failed because a disk is full, the database's or one of this machine: it can be
 * retried when there is space, and nothing else helps.
 */
export function isDiskFull(error: unknown): boolean {
  return causesOf(error).some((cause) => {
    const { code } = cause as { code?: unknown };
    return CODES.has(code) || sqlStateOf(cause) === DISK_FULL || TEXT.test(cause.message);
  });
}

/** SQLSTATE of a database that accepts no more connections. */
const TOO_MANY_CONNECTIONS = '53300';
/** What PgBouncer says then. */
const NO_MORE_CONNECTIONS = /no more connections allowed/u;

/** Whether something failed because others have all connections of the database. */
export function isOutOfConnections(error: unknown): boolean {
  return causesOf(error).some(
    (cause) =>
      sqlStateOf(cause) === TOO_MANY_CONNECTIONS || NO_MORE_CONNECTIONS.test(cause.message),
  );
}

/** SQLSTATE of a write that the database does not accept from anybody. */
const READ_ONLY = '25006';

/** Whether something failed because the database is read-only. */
export function isReadOnly(error: unknown): boolean {
  return causesOf(error).some((cause) => sqlStateOf(cause) === READ_ONLY);
}

/** A chain of causes is followed this far: one may lead back to its beginning. */
const CAUSES_MAX = 16;

/** An error, and what caused it. */
function causesOf(error: unknown): Error[] {
  const causes: Error[] = [];
  let cause = error;
  while (cause instanceof Error && causes.length < CAUSES_MAX) {
    causes.push(cause);
    cause = cause.cause;
  }
  return causes;
}

/** How long to wait before the next check whether there is space, or a connection. */
const SPACE_RETRY_MS = 2_000;
/** A full disk is reported at once, and then about once a minute. */
const TRIES_PER_WORD = 30;

/**
 * Retries `work` until neither a full disk nor a lack of connections prevents it: without a limit, because
 * nothing else helps, and a process that gives up has to be restarted when there is some. A database
 * whose disk is full may end and come back: after a full disk, it is waited for as well.
 * @param waiting `pause` rejects to end the wait; `onFull` reports why it takes so long.
 * @throws what `work` throws for other reasons, and what `pause` rejects with.
 */
export async function onceThereIsSpace<Result>(
  work: () => Result | Promise<Result>,
  waiting: {
    readonly pause: (ms: number) => Promise<void>;
    readonly onFull: (error: unknown) => void;
  },
): Promise<Result> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      const isFull = isDiskFull(error) || isOutOfConnections(error);
      if (!isFull && (tries === 0 || !isAway(error))) throw error;
      if (tries % TRIES_PER_WORD === 0) waiting.onFull(error);
    }
    await waiting.pause(SPACE_RETRY_MS);
  }
}

function isAway(error: unknown): boolean {
  if (error instanceof LeaseError) return error.code === 'store.unavailable';
  return ['unavailable', 'lost'].includes(databaseFailureOf(error));
}
