/** The service of this slice, and what apps and other slices may use of it. */
import { hash } from 'node:crypto';
import { ERROR_CODES, type ErrorCode, LeaseError } from '../kernel/errors.ts';
import { type IdempotentRequest, resourceText } from '../kernel/requests.ts';
import { type Face, leaseTopic, poolTopic, type Resource } from '../kernel/resource.ts';
import { type KernelStore, pause } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import { rangesFrom } from '../postgres/retention-pass.ts';
import { createCoalescer } from './coalesce.ts';
import { wakeWaiters } from './releasing.ts';
import {
  type CancelOutcome,
  cancelRequests,
  type Ended,
  type GivingUp,
  keyText,
} from './sql/requests.ts';
import { readLeasePages } from './sql/reap.ts';
import { deleteFreeRows } from './sql/retention.ts';

export { createCoalescer } from './coalesce.ts';
export { inFence, isLeaseId, notHeld } from './fenced-transaction.ts';
export { assertRecurrence, windowsFrom } from './freeze-windows.ts';
export { instant, readStoppingFreezes } from './sql/freezes.ts';
export { lookAtRefusals, observeHandover, prepareGrants, refusedOutcome } from './granting.ts';
export { grantWithin, type LastTry } from './pooling.ts';
export {
  createGroupGranter,
  type GrantAllOutcome,
  grantAllWithin,
  type GrantRequests,
  type GroupGranter,
  preparePools,
  refusalAtLast,
  type RefusedAll,
} from './granting-all.ts';
export {
  createPastRequestReader,
  type PastRequest,
  readEndedGrants,
  readGrant,
  readGrants,
} from './sql/past-grants.ts';
export {
  createOldRequestRemover,
  firstLeaseId,
  type KeyedRequest,
  keyText,
  leaseIdsFrom,
  OLD_REQUESTS_EVERY_MS,
  readRequest,
  recordAnswers,
  type RequestAnswer,
  type RequestKey,
} from './sql/requests.ts';
export { createLeaseStore, type LeaseStore } from './lease-store.ts';
export {
  createTickets,
  dropGrantedTickets,
  joinLine,
  type Departure,
  leaveLine,
  type Leaving,
  prolongTickets,
  type Ticket,
  type TicketRequest,
  type Tickets,
} from './sql/line.ts';
export { joinLines, leaveLines, type Place, type TicketsRequest } from './sql/grant-all.ts';
export {
  countPlaces,
  type EnvironmentPlace,
  type EnvironmentTicketRequest,
  joinEnvironmentLine,
  type QueuedRow,
  readPlace,
  readQueue,
  readRunning,
  readSuperseded,
  readSupersededGrant,
  recordSuperseding,
  refuseIfSuperseded,
  type Supersede,
  type SupersededRow,
  supersedeWaiting,
  takeTurnsInLine,
  waitForGrant,
} from './sql/environment-line.ts';
export { observeHeld, releaseAlone, wakeWaiters } from './releasing.ts';
export {
  type AcquiredOrRenewed,
  acquireOrRenew,
  noteKeyLadder,
  readKeyLadders,
  renew,
} from './sql/renew.ts';
export {
  assertNoHoldOff,
  boundTransaction,
  closeBefore,
  guardNow,
  limitLockWait,
  readClock,
} from './sql/guard.ts';
export { assertReadBack, ensureLeaseRow, grant, grantReleasedKey, isAtHome } from './sql/grant.ts';
export { grantedColumns, type GrantedRow, grantsOf } from './sql/grant-rows.ts';
export { CALLBACK_KEPT_MS, removeOldLeaseRows } from './sql/retention.ts';
export {
  claimReapRow,
  deleteReapRow,
  endStale,
  type LeasePlace,
  listReapRows,
  type NamespaceRange,
  readLeasePages,
  reap,
  type ReapedGrant,
  recordReapFailure,
  type StalePage,
} from './sql/reap.ts';
export type { ReleaseRequest } from './sql/release.ts';
export {
  abandon,
  actOnGrant,
  type RecordGrantAct,
  revoke,
  type RevokeRequest,
} from './sql/revoke.ts';
export { changeRenewable, downgradeHeld, renewHeld, updateHeld } from './renewing.ts';

/** As many as the reaper reads: under 100 ms of database time where nothing is to be deleted. */
const PAGES_PER_PASS_MAX = 4_096;
/** One statement deletes at most this many rows, so that none holds locks for long. */
const ROWS_PER_STATEMENT_MAX = 1_000;
const STATEMENTS_PER_PASS_MAX = 20;

/**
 * Deletes the rows of resources that have long been free, beginning at a random page, and skips rows
 * that others have locked. Only the size of the table depends on it.
 */
export function createFreeRowRemover(
  store: Pick<Store, 'general' | 'ids' | 'datacenter' | 'clock' | 'clockWatch'>,
) {
  let nextPage: number | undefined;
  return {
    /**
     * Deletes free rows in the next part of the table, and their names. Calls `onMore` if there are more of
     * them there. @returns how many it deleted.
     */
    async runOnce(signal?: AbortSignal, onMore?: () => void): Promise<number> {
      const { pages } = await readLeasePages(store.general);
      nextPage ??= Math.floor(store.ids.random() * pages);
      if (nextPage >= pages) nextPage = 0;
      let deletedCount = 0;
      let statementsLeft = STATEMENTS_PER_PASS_MAX;
      for (const { fromPage, toPage } of rangesFrom(nextPage, pages, PAGES_PER_PASS_MAX)) {
        let deleted: number;
        do {
          if (signal?.aborted === true) return deletedCount;
          // The rest of this range is for the next pass.
          if (statementsLeft === 0) {
            onMore?.();
            return deletedCount;
          }
          statementsLeft -= 1;
          deleted = await deleteFreeRows(store.general, {
            fromPage,
            toPage,
            limit: ROWS_PER_STATEMENT_MAX,
            datacenter: store.datacenter,
            belief: store.clockWatch.belief(store.clock.nowMs()),
          });
          deletedCount += deleted;
        } while (deleted === ROWS_PER_STATEMENT_MAX);
        nextPage = toPage;
      }
      return deletedCount;
    },
  };
}

/** Idempotency keys: what tells requests apart, what is recorded of a refusal, and giving up by key. */

/** 132 bits of SHA-256: two requests never share a fingerprint by accident. */
const FINGERPRINT_LENGTH = 22;

/**
 * A request as the record of its idempotency key tells it from others. `asked` is everything that is
 * asked for besides the resource, absent parts as null, without what a retry may change, such as how
 * long it waits. Its contents must never change: a retry may reach a controller of another version.
 */
export function idempotentRequest(
  { face, namespace, name }: Resource,
  asked: Readonly<Record<string, unknown>>,
): IdempotentRequest {
  const resource = { face, namespace, name };
  const digest = hash('sha256', canonicalJson([resourceText(resource), asked]), 'base64url');
  return { ...resource, fingerprint: digest.slice(0, FINGERPRINT_LENGTH) };
}

/** The same text for equal values, whatever the order of their fields. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(sorted(value));
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(sorted);
  if (isSorted(value)) return value;
  // Without a prototype, `__proto__` is a field like any other.
  const fields = Object.create(null) as Record<string, unknown>;
  for (const name of Object.keys(value).sort()) {
    fields[name] = sorted((value as Record<string, unknown>)[name]);
  }
  return fields;
}

/** Whether nothing has to be sorted: what most requests consist of need not be copied. Only plain objects are. */
function isSorted(fields: object): boolean {
  if (Object.getPrototypeOf(fields) !== Object.prototype) return false;
  let last = '';
  for (const [name, value] of Object.entries(fields)) {
    if (name < last || (typeof value === 'object' && value !== null)) return false;
    last = name;
  }
  return true;
}

/** A refusal as the record of an idempotency key has it, on every face. */
export interface RecordedRefusal {
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly details: Record<string, unknown>;
  };
}

/**
 * Not answers to a request: its key is another request's, its caller has gone and may come back, or
 * something broke.
 */
const NO_ANSWERS: readonly ErrorCode[] = [
  'request.idempotency_reused',
  'lease.wait_cancelled',
  'internal.error',
];

/** Errors that were made of a record: what they say is recorded. */
const FROM_RECORDS = new WeakSet<LeaseError>();

/**
 * What is to be recorded of an error that ends a request; undefined when nothing is, because the caller is meant to
 * send the same request again, or because it comes from the request's record.
 */
export function refusalOf(error: unknown): RecordedRefusal | undefined {
  if (!(error instanceof LeaseError) || error.retryable || NO_ANSWERS.includes(error.code)) {
    return undefined;
  }
  if (FROM_RECORDS.has(error)) return undefined;
  const { code, message, details } = error;
  return { error: { code, message, details: { ...details } } };
}

/** The error of a refusal that was recorded, if that is what an answer is. */
export function refusalIn(answer: unknown): LeaseError | undefined {
  if (typeof answer !== 'object' || answer === null || !('error' in answer)) return undefined;
  const { code, message, details } = (answer as RecordedRefusal).error;
  const known = code in ERROR_CODES ? (code as ErrorCode) : 'internal.error';
  const error = new LeaseError(known, message, { details });
  FROM_RECORDS.add(error);
  return error;
}

const REQUESTS_PER_TRANSACTION_MAX = 500;
const TRANSACTIONS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;
/**
 * How often a request that another transaction has locked is tried together with others, and how long after
 * each other: tickets that are prolonged are locked for the time of one statement.
 */
const TRIES_TOGETHER = 5;
const RETRY_MS = 20;

export type CancelRequest = (request: GivingUp) => Promise<CancelOutcome>;

/**
 * Gives up requests of a face by their idempotency keys, many in one transaction: see {@link cancelRequests}.
 * One that stays locked is given up alone, where it delays no other.
 * @throws {LeaseError} `request.idempotency_reused` when the key was used on another face;
 * `grant.contended` when it stays locked.
 */
export function createCancelRequest(store: KernelStore, face: Face): CancelRequest {
  const cancels = createCoalescer<GivingUp, Ended>({
    run: (requests) => cancelRequests(store.general, face, requests, 'skip'),
    keysOf: (request) => [keyText(request)],
    batchSizeMax: REQUESTS_PER_TRANSACTION_MAX,
    inFlightMax: TRANSACTIONS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
  });
  return async (request) => {
    for (let triesCount = 0; triesCount < TRIES_TOGETHER; triesCount += 1) {
      if (triesCount > 0) await pause(store, RETRY_MS);
      const { outcome, ...end } = await cancels.submit(request);
      if (outcome !== 'locked') return answerOf(store, face, { outcome, ...end });
    }
    const [end] = await cancelRequests(store.general, face, [request], 'wait');
    return answerOf(store, face, end ?? { outcome: 'locked' });
  };
}

function answerOf(
  store: KernelStore,
  face: Face,
  { outcome, released = [], lines = [] }: Ended,
): CancelOutcome {
  if (outcome === 'reused') throw new LeaseError('request.idempotency_reused');
  if (outcome === 'locked') throw new LeaseError('grant.contended');
  for (const one of released) {
    store.observer.release(face, 'released');
    wakeWaiters(store, one);
  }
  // The next caller in line may be first now.
  for (const line of lines) {
    store.hints.notify(leaseTopic(line), ...(line.isOfTotal ? [poolTopic(line)] : []));
  }
  return outcome;
}
