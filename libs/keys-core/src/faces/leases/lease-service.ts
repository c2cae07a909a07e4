import { deadlinesFrom, serviceLadder } from '../../kernel/ladder.ts';
import { LeaseError } from '../../kernel/errors.ts';
import { LIMITS } from '../../kernel/limits.ts';
import type { Ladder } from '../../kernel/ladder.ts';
import type { Grant, RenewOutcome } from '../../kernel/outcomes.ts';
import type { LeaseStore } from '../../store/lease-store.ts';
import type { Store } from '../../store/open-store.ts';
import { isoOf } from '../../store/rows.ts';
import type {
  AcquireAnswer,
  GrantedLease,
  LeaseDeadlines,
  LeaseRenewResult,
  LeaseService,
} from './lease-types.ts';

export interface LeaseServiceDeps {
  readonly store: Store;
  readonly leases: LeaseStore;
  readonly face: 'lease' | 'environment';
}

/** The leases or the environments face over the kernel. */
export function createLeaseService({ store, leases, face }: LeaseServiceDeps): LeaseService {
  return {
    async acquire(input, caller): Promise<AcquireAnswer> {
      assertTtl(input.ttlMs);
      const outcome = await leases.grant({
        face,
        namespace: input.namespace,
        name: input.name,
        leaseId: store.ids.uuid(),
        holder: input.holder,
        principal: caller.principal,
        tag: input.action ?? '',
        comment: input.comment ?? null,
        metadata: input.metadata ?? null,
        ladder: serviceLadder(input.ttlMs),
        actor: caller.actor,
        idempotencyKey: input.idempotencyKey,
      });
      if (outcome.outcome === 'granted') {
        return {
          outcome: 'granted',
          lease: grantedLease(outcome.grant, input.localTimeMs),
          waitedMs: 0,
        };
      }
      if (outcome.outcome !== 'held') throw new LeaseError('grant.contended');
      const { by } = outcome;
      return {
        outcome: 'held',
        by: by.holder,
        since: isoOf(by.grantedAt),
        remainingMs: Math.max(0, Math.round(by.expiresAt - by.asOf)),
        waitedMs: 0,
        comment: by.comment,
        action: face === 'environment' ? by.tag : null,
        waiters: outcome.waiterCount,
      };
    },

    async heartbeat({ localTimeMs, renewals }, caller) {
      const outcomes = await leases.renewAll(
        face,
        renewals.map((ref) => ({ ...ref, principal: caller.principal })),
      );
      return outcomes.flatMap((outcome) =>
        outcome === undefined ? [] : renewResult(outcome, localTimeMs),
      );
    },

    release: (input, caller) =>
      leases.release(face, {
        leaseId: input.leaseId,
        fencingToken: input.fencingToken,
        principal: caller.principal,
        actor: caller.actor,
        result: input.result,
        detail: input.detail ?? null,
      }),

    cancel: () => Promise.resolve('not_found'),
  };
}

/** @throws {LeaseError} `lease.ttl_out_of_range`. */
export function assertTtl(ttlMs: number): void {
  if (!Number.isInteger(ttlMs) || ttlMs < LIMITS.ttlMsMin || ttlMs > LIMITS.ttlMsMax) {
    throw new LeaseError('lease.ttl_out_of_range', undefined, { details: { ttlMs } });
  }
}

function grantedLease(grant: Grant, localTimeMs: number): GrantedLease {
  return {
    leaseId: grant.leaseId,
    fencingToken: grant.fencingToken,
    namespace: grant.namespace === '' ? [] : grant.namespace.split('.'),
    key: grant.name,
    deadlines: leaseDeadlines(grant.ladder, localTimeMs, grant.remainingMs),
  };
}

/** See {@link deadlinesFrom}; a service has one stop, not two. */
export function leaseDeadlines(
  ladder: Ladder,
  localTimeMs: number,
  remainingMs: number,
): LeaseDeadlines {
  const { renewAtMs, hardTerminateAtMs } = deadlinesFrom(ladder, localTimeMs, remainingMs);
  return { renewAtMs, loseAtMs: hardTerminateAtMs };
}

function renewResult(outcome: RenewOutcome, localTimeMs: number): LeaseRenewResult {
  if (outcome.outcome === 'refused') return outcome;
  const { leaseId, ladder, remainingMs } = outcome;
  return {
    leaseId,
    outcome: 'renewed',
    deadlines: leaseDeadlines(ladder, localTimeMs, remainingMs),
  };
}
