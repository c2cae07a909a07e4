/**
 * The one file that knows how pg shapes its errors, and Prisma 7 with the pg adapter, which services use. The
 * SQLSTATE of a failed statement is at `meta.driverAdapterError.cause.originalCode`, whatever the
 * Prisma code; pg has it in `code`, beside a `severity`.
 */
import { LeaseError, messageOf } from '../kernel/errors.ts';

interface DriverCause {
  readonly originalCode?: string;
  readonly kind?: string;
}

/** The SQLSTATE of a database error, or undefined when the error has none. */
export function sqlStateOf(error: unknown): string | undefined {
  try {
    const code = driverCauseOf(error)?.originalCode ?? codeOfPg(error);
    return typeof code === 'string' && /^[0-9A-Z]{5}$/u.test(code) ? code : undefined;
  } catch {
    // It cannot be read, so it is not the database's: other people's code throws anything.
    return undefined;
  }
}

function codeOfPg(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, severity } = error as { code?: string; severity?: string };
  return severity === undefined ? undefined : code;
}

function driverCauseOf(error: unknown): DriverCause | undefined {
  if (!(error instanceof Error)) return undefined;
  const { meta, cause } = error as { meta?: unknown; cause?: unknown };
  return (
    (meta as { driverAdapterError?: { cause?: DriverCause } } | undefined)?.driverAdapterError
      ?.cause ?? (cause as DriverCause | undefined)
  );
}

/**
 * What to do about a failed statement.
 *
 * - `contention`: it lost against another one and may be sent again (deadlock, serialization, lock
 *   timeout).
 * - `data`: a value in it cannot be stored; the other items of its batch are innocent.
 * - `timeout`: the server cancelled it; nothing was changed.
 * - `unavailable`: it never reached the database, or the database could not carry it out and changed
 *   nothing: it is starting, stopping, or out of disk, memory or connections.
 * - `lost`: the connection broke while it ran; its outcome is unknown.
 * - `other`: a defect.
 */
export type DatabaseFailure = 'contention' | 'data' | 'timeout' | 'unavailable' | 'lost' | 'other';

const FAILURE_OF_SQLSTATE: Record<string, DatabaseFailure> = {
  '40P01': 'contention', // deadlock_detected
  '40001': 'contention', // serialization_failure
  '55P03': 'contention', // lock_not_available
  '23505': 'contention', // unique_violation: somebody else was first with this id or key
  '57014': 'timeout', // query_canceled
  '25P04': 'timeout', // transaction_timeout: rolled back, and the connection is gone
  '25P03': 'timeout', // idle_in_transaction_session_timeout: likewise
  '21000': 'data', // cardinality_violation
  '54001': 'data', // statement_too_complex
  '23514': 'data', // check_violation
  '57P01': 'lost', // admin_shutdown
  '57P02': 'lost', // crash_shutdown
  '57P03': 'unavailable', // cannot_connect_now
  '25006': 'unavailable', // read_only_sql_transaction: a demoted primary
  '28000': 'unavailable', // invalid_authorization_specification
  '28P01': 'unavailable', // invalid_password: changed under a running controller
  '3D000': 'unavailable', // invalid_catalog_name: the database was dropped or renamed
};

/**
 * Classes of SQLSTATE, by their first two characters. Damaged data (`XX001`, `XX002`) is in none of
 * them: sending a request again does not help, and an operator must be told.
 */
const FAILURE_OF_CLASS: Record<string, DatabaseFailure> = {
  '08': 'lost', // connection exception
  '22': 'data', // data exception
  '53': 'unavailable', // insufficient resources: disk_full, out_of_memory, too_many_connections
  '58': 'unavailable', // system error: io_error, undefined_file
};

/** Messages of errors that carry no SQLSTATE: the statement was in flight, or was never sent. */
const LOST_MESSAGE =
  /connection terminated(?! due to connection timeout)|query read timeout|ECONNRESET|EPIPE|(?:read|write) E(?:TIMEDOUT|HOSTUNREACH|NETUNREACH)|server closed the connection|ConnectionClosed|socket hang up|is not queryable/iu;
const UNAVAILABLE_MESSAGE =
  /ECONNREFUSED|ENOENT|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|timeout exceeded when trying to connect|^timeout expired\b|terminated due to connection timeout|can't reach database|DatabaseNotReachable|starting a transaction|P2024|P2028/iu;

/** @see DatabaseFailure */
export function databaseFailureOf(error: unknown): DatabaseFailure {
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined) {
    return FAILURE_OF_SQLSTATE[sqlState] ?? FAILURE_OF_CLASS[sqlState.slice(0, 2)] ?? 'other';
  }
  const text = failureText(error);
  if (LOST_MESSAGE.test(text)) return 'lost';
  if (UNAVAILABLE_MESSAGE.test(text)) return 'unavailable';
  return 'other';
}

/**
 * Whether the session in which a statement has failed is as good as before. One that can only read stays so, and one whose
 * plan does not fit any more fails again.
 */
export function mayGoOn(error: unknown): boolean {
  return ['contention', 'data', 'timeout'].includes(databaseFailureOf(error));
}

function failureText(error: unknown): string {
  try {
    if (!(error instanceof Error)) return messageOf(error);
    const cause = driverCauseOf(error);
    const code = (error as { code?: string }).code ?? '';
    return `${error.message} ${code} ${cause?.kind ?? ''} ${cause?.originalCode ?? ''}`;
  } catch {
    return '';
  }
}

// What keeps a database from working, found in an error or in what caused it.

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
