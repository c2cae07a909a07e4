/**
 * Transactions in which other people's code runs: hooks of use cases, fenced work, callbacks.
 *
 * They have connections of their own, so that nothing of Leasehold waits behind them, and all of them
 * end: the server ends one whose process is paused or dead, by the timeouts that are set in it, and
 * this side rolls back one that takes longer than its bound, even while its code still runs.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock } from '../kernel/clock.ts';
import { LeaseError } from '../kernel/errors.ts';
import { databaseFailureOf, sqlStateOf } from './database-errors.ts';
import { type KernelStore, pause } from './kernel-store.ts';
import type { Sql } from './sql.ts';

/** A transaction in which both Leasehold and other people's code write. */
export interface GuestTransaction<Tx> {
  /** For Leasehold's own statements. */
  readonly sql: Sql<'guests'>;
  /** Calls other people's code with the transaction as they know it. */
  call<Result>(code: (tx: Tx) => Result | Promise<Result>): Promise<Result>;
}

/** Where such transactions begin; `Tx` is the form in which other people's code gets one. */
export interface GuestDatabase<Tx> {
  /** Runs `work` in one READ COMMITTED transaction, which is rolled back when it throws. */
  transaction<Result>(work: (guest: GuestTransaction<Tx>) => Promise<Result>): Promise<Result>;
}

/** What these transactions need of a store. */
export interface GuestStore<Tx> {
  readonly guestDatabase: GuestDatabase<Tx>;
  readonly clock: Clock;
}

/** What leases need whose transitions run in other people's transactions. */
export type CoordinatorStore<Tx> = KernelStore & GuestStore<Tx>;

/** The longest that such a transaction may take, in milliseconds, whatever its lease allows. */
export const GUEST_MS_MAX = 10_000;
/** How often a transaction is begun when its first statement meets a broken connection. */
const BEGIN_TRIES_MAX = 3;

/** A hook that is running; it counts as over once it has returned, even if it left work behind. */
interface HookCall {
  isOpen: boolean;
}

const hookCalls = new AsyncLocalStorage<HookCall>();

/**
 * Runs a hook or a callback, from within which no other transaction can be begun: it would wait for
 * a row that the hook's own transaction has locked, or for a connection that hooks keep.
 */
export async function callHook<Result>(hook: () => Result | Promise<Result>): Promise<Result> {
  const call = { isOpen: true };
  try {
    return await hookCalls.run(call, async () => hook());
  } finally {
    call.isOpen = false;
  }
}

/** @throws {LeaseError} `lease.in_hook` when it is called from within a hook. */
export function assertNotInHook(): void {
  if (hookCalls.getStore()?.isOpen === true) throw new LeaseError('lease.in_hook');
}

/**
 * Runs `work` in one READ COMMITTED transaction on the connections of guests. An error that `work`
 * throws rolls everything back and is rethrown unchanged.
 * @throws {LeaseError} `lease.in_hook`; `request.outcome_unknown` when the connection broke in the
 * commit itself.
 */
export async function guestTransaction<Tx, Result>(
  store: GuestStore<Tx>,
  work: (guest: GuestTransaction<Tx>) => Promise<Result>,
): Promise<Result> {
  assertNotInHook();
  for (let tries = 1; ; tries += 1) {
    const progress: Progress = { stage: 'beginning' };
    try {
      return await begin(store, work, progress);
    } catch (cause) {
      const isLost = databaseFailureOf(cause) === 'lost';
      // The server had ended this connection earlier, with paused work; nothing was sent on it.
      if (progress.stage === 'beginning' && isLost && tries < BEGIN_TRIES_MAX) continue;
      // A refused commit has a SQLSTATE. Without one the outcome is unknown.
      const isUnknown = isLost || sqlStateOf(cause) === undefined;
      if (progress.stage === 'committing' && isUnknown) {
        throw new LeaseError('request.outcome_unknown', undefined, { cause });
      }
      throw cause;
    }
  }
}

/** How far a transaction has come. */
interface Progress {
  stage: 'beginning' | 'working' | 'committing';
}

function begin<Tx, Result>(
  store: GuestStore<Tx>,
  work: (guest: GuestTransaction<Tx>) => Promise<Result>,
  progress: Progress,
): Promise<Result> {
  return store.guestDatabase.transaction(async (guest) => {
    progress.stage = 'working';
    const result = await work(guest);
    progress.stage = 'committing';
    return result;
  });
}

/**
 * Runs `work`, a part of a transaction, and gives it up after `boundMs`: the transaction is rolled
 * back then, and statements that `work` still sends fail.
 * @throws {LeaseError} `request.deadline` when it took longer, here or according to the server.
 */
export async function withinBound<Result>(
  store: Pick<KernelStore, 'clock'>,
  boundMs: number,
  work: () => Promise<Result>,
): Promise<Result> {
  const endMs = store.clock.nowMs() + boundMs;
  const overran = (cause?: unknown): LeaseError =>
    new LeaseError(
      'request.deadline',
      `The transaction was not done within ${String(boundMs)} ms and was rolled back.`,
      { details: { boundMs }, cause },
    );
  let cancel = (): void => undefined;
  const overrun = new Promise<never>((_resolve, reject) => {
    cancel = store.clock.at(endMs, () => reject(overran()));
  });
  try {
    return await Promise.race([work(), overrun]);
  } catch (error) {
    if (isOverrun(error, endMs - store.clock.nowMs())) throw overran(error);
    // The server has ended the session of a process that was paused in its transaction.
    if (!(error instanceof LeaseError) && store.clock.nowMs() >= endMs) throw overran(error);
    throw error;
  } finally {
    cancel();
  }
}

/** SQLSTATE of a statement that was cancelled: by its timeout, by an operator, or by a bound of the work itself. */
const QUERY_CANCELED = '57014';
/** The server and this process measure the same bound, each by its own clock. */
const APART_MS_MAX = 50;

/** Whether the server has ended a statement because of the bound, which is over in `leftMs`. */
function isOverrun(error: unknown, leftMs: number): boolean {
  if (databaseFailureOf(error) !== 'timeout') return false;
  return sqlStateOf(error) !== QUERY_CANCELED || leftMs <= APART_MS_MAX;
}

/** A transaction that loses against others is tried this often, about this long apart. */
const TRIES_MAX = 4;
const PAUSE_MS = 30;
/** serialization_failure, deadlock_detected, lock_not_available. */
const CONTENTION = new Set(['40001', '40P01', '55P03']);

/**
 * Retries a transaction that lost against another one, together with the hooks in it.
 * @throws {LeaseError} `grant.contended` when every try lost.
 */
export async function retryContention<Result>(
  store: KernelStore,
  run: () => Promise<Result>,
): Promise<Result> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await run();
    } catch (error) {
      if (!isContention(error)) throw error;
      if (tries === TRIES_MAX) {
        throw error instanceof LeaseError
          ? error
          : new LeaseError('grant.contended', undefined, { cause: error });
      }
    }
    await pause(store, PAUSE_MS * tries * (0.5 + store.ids.random()));
  }
}

function isContention(error: unknown): boolean {
  if (error instanceof LeaseError) return error.code === 'grant.contended';
  return CONTENTION.has(sqlStateOf(error) ?? '');
}
