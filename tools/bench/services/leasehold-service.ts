import { createLeasehold } from '@leasehold/client';
import { invariant } from '@leasehold/keys-core';
import { startControllers } from '../controllers.ts';
import { HOLD_TTL_MS, type Held, type LockService } from './lock-service.ts';
import type { Rig } from '../rig/rig.ts';

/** Ours offers more than what all have. */
export interface LeaseholdService extends LockService {
  /** Takes what is free. @returns undefined for what is held. */
  takeIfFree(key: string): Promise<Held | undefined>;
  wait(key: string, signal?: AbortSignal): Promise<Held>;
}

/** The longest that anybody may wait in line. */
const WAIT_MS = 120_000;

/** Ours on a controller of its own. */
export async function startLeasehold(rig: Rig, databaseName: string): Promise<LeaseholdService> {
  const { urls, token } = await startControllers(rig, await rig.database(databaseName), 1);
  const [url] = urls;
  invariant(url !== undefined, 'a controller was started');
  return connectLeasehold(rig, url, token);
}

/** Ours on a controller that runs, through one client, as a service has it. */
export function connectLeasehold(rig: Rig, url: string, token: string): LeaseholdService {
  const leasehold = createLeasehold({ url, token, clientName: 'bench' });
  rig.onClose(() => leasehold.close());
  const lease = leasehold.defineLease(['bench'], { ttlMs: HOLD_TTL_MS });
  return {
    name: 'leasehold',
    take: (key) => lease.acquire(key, { waitMs: 0 }),
    wait: (key, signal) => lease.acquire(key, { waitMs: WAIT_MS, signal }),
    async takeIfFree(key) {
      const attempt = await lease.tryAcquire(key);
      return attempt.outcome === 'granted' ? attempt.lease : undefined;
    },
  };
}
