import { createCancelRequest, renewHeld } from '../grants/index.ts';
import { type AcquiringDeps, createAcquire } from './acquire/acquiring.ts';
import { leaseDeadlines } from './acquire/deadlines.ts';
import type { LeaseService } from './lease-types.ts';
import { createWaitingRoom } from './acquire/waiting.ts';

export type LeaseServiceDeps = Omit<AcquiringDeps, 'room' | 'cancel'>;

/** What services do with leases, or with environments, over the kernel. */
export function createLeaseService(deps: LeaseServiceDeps): LeaseService {
  const { store, leases, face } = deps;
  const cancel = createCancelRequest(store, face);
  return {
    ...createAcquire({ ...deps, cancel, room: createWaitingRoom(store) }),

    heartbeat: ({ localTimeMs, renewals }, { principal }) =>
      renewHeld(leases, { face, principal }, renewals, (ladder, remainingMs) =>
        leaseDeadlines(ladder, localTimeMs, remainingMs),
      ),

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
      cancel({
        principal: caller.principal,
        actor: caller.actor,
        idempotencyKey,
        result: 'ok',
        detail: 'given up',
      }),
  };
}
