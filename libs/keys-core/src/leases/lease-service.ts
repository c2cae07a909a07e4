import type { RenewOutcome } from '../kernel/lease/outcomes.ts';
import { type LeaseStore, cancelRequest } from '../grants/index.ts';
import type { Store } from '../postgres/open-store.ts';
import { createAcquire } from './acquire/acquiring.ts';
import { leaseDeadlines } from './acquire/deadlines.ts';
import type { LeaseRenewResult, LeaseService } from './lease-types.ts';
import { createWaitingRoom } from './acquire/waiting.ts';

export interface LeaseServiceDeps {
  readonly store: Store;
  readonly leases: LeaseStore;
  readonly face: 'lease' | 'environment';
  /** How long an environment is leased when its caller does not say, in milliseconds. */
  readonly ttlMsDefault?: number | undefined;
}

/** What services do with leases, or with environments, over the kernel. */
export function createLeaseService(deps: LeaseServiceDeps): LeaseService {
  const { store, leases, face } = deps;
  return {
    acquire: createAcquire({ ...deps, room: createWaitingRoom(store) }),

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

    cancel: ({ idempotencyKey }, caller) =>
      cancelRequest(store, face, {
        principal: caller.principal,
        actor: caller.actor,
        idempotencyKey,
        result: 'ok',
        detail: 'given up',
      }),
  };
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
