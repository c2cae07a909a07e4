import type { Logger } from '@leasehold/service-kit';
import { createLeaseStore } from '../grants/index.ts';
import { SYSTEM_ACTOR } from '../kernel/access.ts';
import { LeaseError } from '../kernel/errors.ts';
import { RESERVED_NAMESPACE } from '../kernel/resource.ts';
import { pause, SILENT_OBSERVER } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import type { LeaseUseCase } from './coordinator-types.ts';
import { createLeaseCoordinator } from './coordinator.ts';

/**
 * Does work in one controller at a time, under a lease of this name in Leasehold's own namespace. The
 * lease is renewed meanwhile, and released when the work ends. `signal` aborts with `stopping`, and
 * when the lease is lost: a sixth of its duration before it expires, and after a revocation by force at
 * the next renewal, when another controller may have it already.
 *
 * If another controller has the lease, this waits until it is released or expires, and returns: the
 * caller tries again. After a revocation it returns late, so that another controller comes first.
 * @throws {LeaseError} `grant.hold_off`; what `work` throws.
 */
export type WhileLeader = (
  name: string,
  work: (signal: AbortSignal) => Promise<void>,
  stopping: AbortSignal,
) => Promise<void>;

export interface WhileLeaderDeps {
  readonly store: Store;
  /** The name of this controller for people who look at its leases. */
  readonly holder: string;
  /** How long after a controller has died another one takes over. */
  readonly ttlMs: number;
  readonly log: Logger;
}

export function createWhileLeader({ store, holder, ttlMs, log }: WhileLeaderDeps): WhileLeader {
  const { clock, hints, ids } = store;
  // Metrics and statistics are about callers.
  const quiet = { ...store, observer: SILENT_OBSERVER };
  const coordinator = createLeaseCoordinator({
    store: quiet,
    leases: createLeaseStore(quiet),
    holder,
    principal: SYSTEM_ACTOR,
    actor: SYSTEM_ACTOR,
  });
  return async (name, work, stopping) => {
    const topic = `leader:${name}`;
    const leaseId = ids.uuid();
    const lease: LeaseUseCase = {
      key: () => leaseId,
      scope: () => ({ namespace: [RESERVED_NAMESPACE], key: name }),
      durationMs: () => ttlMs,
    };
    // Listens before it asks for the lease, so that no hint in between is missed.
    const seen = { isOver: false };
    const closeHint = hints.on(topic, () => {
      seen.isOver = true;
    });
    const answer = await coordinator.acquire(lease, 0).finally(closeHint);
    if (answer.outcome === 'held') {
      if (!seen.isOver) await hints.next(topic, clock.nowMs() + answer.remainingMs, stopping);
      return;
    }
    let working = Promise.resolve();
    const held = coordinator.whileHeld(lease, async (lost) => {
      working = work(AbortSignal.any([lost, stopping]));
      await working;
      lost.throwIfAborted();
    });
    try {
      await held.finally(() => hints.notify(topic));
    } catch (error) {
      // Waits for the work that was under way when the lease was lost.
      await working.catch(() => undefined);
      if (!(error instanceof LeaseError && error.code === 'lease.lost')) throw error;
      log.warn(
        { err: error, lease: name },
        'a lease of this controller was lost; its work ends here',
      );
      if (error.details['reason'] === 'revoked') await pause(store, ttlMs, stopping);
    }
  };
}
