/** The answers of an acquire, as callers get them. */
import { type CancelRequest, type KeyedRequest, refusalIn } from '../grants/index.ts';
import { invariant, LeaseError } from '../kernel/errors.ts';
import { deadlinesFrom, type Ladder } from '../kernel/ladder.ts';
import { type Grant, type GrantRequest, type PoolUse } from '../kernel/lease.ts';
import type { RecordedRequest } from '../kernel/requests.ts';
import { LIMITS } from '../kernel/limits.ts';
import type { Face, Named } from '../kernel/resource.ts';
import { isoOf } from '../postgres/sql.ts';
import type {
  CallerLife,
  GrantedLease,
  HeldAnswer,
  LeaseDeadlines,
  PoolView,
  WaitingAnswer,
} from './lease-types.ts';
import type { Refused } from './line.ts';

/** See {@link deadlinesFrom}; a service has one stop, not two. */
export function leaseDeadlines(
  ladder: Ladder,
  localTimeMs: number,
  remainingMs: number,
): LeaseDeadlines {
  const { renewAtMs, hardTerminateAtMs } = deadlinesFrom(ladder, localTimeMs, remainingMs);
  return { renewAtMs, loseAtMs: hardTerminateAtMs };
}

/** @throws {LeaseError} `lease.ttl_out_of_range`. */
export function assertTtl(ttlMs: number | undefined): asserts ttlMs is number {
  const isInRange =
    Number.isInteger(ttlMs) &&
    ttlMs !== undefined &&
    ttlMs >= LIMITS.ttlMsMin &&
    ttlMs <= LIMITS.ttlMsMax;
  if (!isInRange) throw new LeaseError('lease.ttl_out_of_range', undefined, { details: { ttlMs } });
}

/**
 * The least time that passed between the caller's message and its grant: since it joined the line by
 * the database's clock, and at most the time by this controller's clock, in case the other was stepped. That one
 * was read before the grant was asked for: what its answer takes is no part of it.
 * 0 for a grant that is over: when it ended is not known, so its deadline is before its request.
 */
export function sinceSentMs(
  { startedAtMs, askedAtMs }: { readonly startedAtMs: number; readonly askedAtMs: number },
  grant: Pick<Grant, 'remainingMs'> & { readonly asOf: number },
  joinedAsOf: number | undefined,
): number {
  if (joinedAsOf === undefined || grant.remainingMs <= 0) return 0;
  return Math.max(0, Math.min(grant.asOf - joinedAsOf, askedAtMs - startedAtMs));
}

/** A grant that a caller is given. */
export type GivenGrant = Named & Pick<Grant, 'leaseId' | 'fencingToken' | 'ladder' | 'remainingMs'>;

/** A lease as its new holder gets it, which had sent its call at `localTimeMs` or later by its own clock. */
export function grantedLease(grant: GivenGrant, localTimeMs: number): GrantedLease {
  return {
    leaseId: grant.leaseId,
    fencingToken: grant.fencingToken,
    namespace: grant.namespace === '' ? [] : grant.namespace.split('.'),
    key: grant.name,
    deadlines: leaseDeadlines(grant.ladder, localTimeMs, grant.remainingMs),
  };
}

/** A refusal as callers get it. */
export function heldAnswer(face: Face, refused: Refused | undefined, waitedMs: number): HeldAnswer {
  const common = { outcome: 'held', waitedMs: Math.round(waitedMs) } as const;
  if (refused === undefined || refused.outcome === 'queued') {
    return {
      ...common,
      by: refused?.head.waiter ?? 'unknown',
      since: isoOf(refused?.head.createdAt ?? 0),
      remainingMs: 0,
      comment: null,
      action: null,
      waiters: refused?.waiterCount ?? 0,
    };
  }
  const { by, doubtMs } = refused;
  return {
    ...common,
    by: by.holder,
    since: isoOf(by.grantedAt),
    remainingMs: Math.max(0, Math.round(by.expiresAt - by.asOf), Math.ceil(doubtMs)),
    comment: by.comment,
    action: face === 'environment' ? by.tag : null,
    waiters: refused.waiterCount,
    ...(refused.pool === undefined ? {} : { pool: poolView(refused.pool, by.asOf) }),
    ...(doubtMs > 0 ? { isExpiryUnconfirmed: true } : {}),
  };
}

/** What a caller is told that waits on by its next call. `place` is undefined if its ticket has just gone. */
export function waitingAnswer(
  held: HeldAnswer,
  place: number | undefined,
  frozen: LeaseError | undefined,
): WaitingAnswer {
  const details = frozen?.details as { until: string; reason: string } | undefined;
  return {
    ...held,
    outcome: 'waiting',
    place: place ?? 1,
    frozen: details === undefined ? null : { until: details.until, reason: details.reason },
  };
}

/** What is held of a pool, as of a moment of the database's clock, as callers get it. */
export function poolView({ holders, ...use }: PoolUse, asOf: number): PoolView {
  return {
    ...use,
    holders: holders.map(({ grantedAt, expiresAt, ...holder }) => ({
      ...holder,
      since: isoOf(grantedAt),
      remainingMs: Math.max(0, Math.round(expiresAt - asOf)),
    })),
  };
}

/**
 * The refusal that a request got before.
 * @throws {LeaseError} what it was refused with; `lease.wait_cancelled` when it was given up.
 */
export function refusalAgain(record: RecordedRequest): HeldAnswer {
  const refusal = refusalIn(record.answer);
  if (refusal !== undefined) throw refusal;
  const recorded = record.answer as Partial<HeldAnswer> | null;
  if (recorded?.outcome !== 'held') throw new LeaseError('lease.wait_cancelled');
  return recorded as HeldAnswer;
}

/** Whether what becomes of a request is recorded, so that it may be sent again. */
export function isKeyed(request: GrantRequest): request is GrantRequest & KeyedRequest {
  return request.idempotencyKey !== undefined && request.fingerprint !== undefined;
}

/**
 * Gives back what a request was granted whose caller fell silent just before its turn, or was gone by then, so that the
 * waiters behind it do not wait for the TTL. A caller that comes back learns that its wait is over, and
 * asks again with another key; a caller that has already come back and received the grant keeps it.
 * @throws {LeaseError} `lease.wait_cancelled`.
 */
export async function assertHeard(
  cancel: CancelRequest,
  life: CallerLife,
  { principal, idempotencyKey, actor }: GrantRequest,
): Promise<void> {
  if (life.isAlive() && !life.signal.aborted) return;
  invariant(idempotencyKey !== undefined, 'a place in line has a key');
  await cancel({
    principal,
    idempotencyKey,
    actor,
    result: 'failed',
    detail: 'its caller did not answer when its turn came',
    onlyUnrepeated: true,
  });
  throw new LeaseError('lease.wait_cancelled');
}
