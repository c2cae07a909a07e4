import type { LeaseFace } from '@leasehold/api';
import {
  createLeaseOperations,
  createLeaseService,
  createRevocationWatch,
} from '@leasehold/keys-core/leases';
import type { LeaseStore } from '@leasehold/keys-core/grants';
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import type { ControllerMetrics } from '../metrics.ts';

/** The two faces of services over one store, and the one watch that tells the holders of both of revocations. */
export function createLeaseFaces(deps: {
  readonly store: Store;
  readonly leases: LeaseStore;
  readonly metrics: ControllerMetrics;
  readonly log: Logger;
  /** How long an environment is leased if its holder names no duration, in milliseconds. */
  readonly environmentLeaseMs: number;
}) {
  const { store, leases, metrics, log, environmentLeaseMs } = deps;
  const revocations = createRevocationWatch(store, (error) =>
    log.warn({ err: error }, 'revocations could not be read; trying again'),
  );
  const face = (name: 'lease' | 'environment'): LeaseFace => ({
    ...createLeaseService({
      ...{ store, leases, face: name },
      ttlMsDefault: name === 'environment' ? environmentLeaseMs : undefined,
    }),
    ...createLeaseOperations({ store, face: name, revocations }),
  });
  return {
    leases: face('lease'),
    environments: countingRefusals(face('environment'), metrics),
    revocations,
  };
}

/** An environments face whose refusals are timed; the store reports how long grants are held. */
function countingRefusals(environments: LeaseFace, metrics: ControllerMetrics): LeaseFace {
  return {
    ...environments,
    async acquire(input, caller, life) {
      const startedAtMs = performance.now();
      const answer = await environments.acquire(input, caller, life);
      if (answer.outcome === 'held') {
        metrics.environmentDenied(input.action ?? '', performance.now() - startedAtMs);
      }
      return answer;
    },
  };
}
