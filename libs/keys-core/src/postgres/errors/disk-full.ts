import { LeaseError } from '../../kernel/errors/index.ts';
import { databaseFailureOf, sqlStateOf } from './database-errors.ts';

/** SQLSTATE of a database whose disk is full. */
const DISK_FULL = '53100';
const CODES: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', DISK_FULL]);
/** What programs print when their errors have no code. */
const TEXT = /ENOSPC|EDQUOT|No space left on device|Disk quota exceeded/u;

/**
 * Whether something failed because a disk is full, the database's or one of this machine: it can be
 * retried when there is space, and nothing else helps. Checks the causes of the error too.
 */
export function isDiskFull(error: unknown): boolean {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const { code } = cause as { code?: unknown };
    if (CODES.has(code) || sqlStateOf(cause) === DISK_FULL || TEXT.test(cause.message)) return true;
  }
  return false;
}

/** How long to wait before the next check whether there is space. */
const SPACE_RETRY_MS = 2_000;
/** A full disk is reported at once, and then about once a minute. */
const TRIES_PER_WORD = 30;

/**
 * Retries `work` until no full disk prevents it: without a limit, because nothing but
 * space helps, and a process that gives up has to be restarted when there is some. A database
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
      if (!isDiskFull(error) && (tries === 0 || !isAway(error))) throw error;
      if (tries % TRIES_PER_WORD === 0) waiting.onFull(error);
    }
    await waiting.pause(SPACE_RETRY_MS);
  }
}

function isAway(error: unknown): boolean {
  if (error instanceof LeaseError) return error.code === 'store.unavailable';
  return ['unavailable', 'lost'].includes(databaseFailureOf(error));
}
