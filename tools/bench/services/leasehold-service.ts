import { createLeasehold } from '@leasehold/client';
import { invariant } from '@leasehold/keys-core';
import { startControllers } from '../controllers.ts';
import type { Pairs } from './floors.ts';
import { HOLD_TTL_MS, type Held, type LockService } from './lock-service.ts';
import type { Rig } from '../rig/rig.ts';

/** Leasehold offers more than what all services have in common. */
export interface LeaseholdService extends LockService {
  /** Takes a lease that is free. @returns undefined when it is held. */
  takeIfFree(key: string): Promise<Held | undefined>;
  wait(key: string, signal?: AbortSignal): Promise<Held>;
}

/** The longest that a caller may wait in line. */
const WAIT_MS = 120_000;

/** Leasehold on a controller of its own. */
export async function startLeasehold(rig: Rig, databaseName: string) {
  const { urls, pids, token } = await startControllers(rig, await rig.database(databaseName), 1);
  const [url] = urls;
  invariant(url !== undefined, 'a controller was started');
  return { ours: connectLeasehold(rig, url, token), controllerPids: pids };
}

/** How callers hold one lease together, by the same client. */
export async function startPools(rig: Rig, databaseName: string, permits: number) {
  const { urls, pids, token } = await startControllers(rig, await rig.database(databaseName), 1);
  const [url] = urls;
  invariant(url !== undefined, 'a controller was started');
  const leasehold = createLeasehold({ url, token, clientName: 'bench' });
  rig.onClose(() => leasehold.close());
  const permitted = leasehold.defineLease(['permits'], {
    ttlMs: HOLD_TTL_MS,
    permits: { perKey: permits },
  });
  const limited = leasehold.defineLease(['total'], {
    ttlMs: HOLD_TTL_MS,
    permits: { perKey: permits, total: permits },
  });
  const shared = leasehold.defineLease(['shared'], { ttlMs: HOLD_TTL_MS });
  const alone = leasehold.defineLease(['alone'], { ttlMs: HOLD_TTL_MS });
  const ways: readonly Pairs[] = [
    { name: 'permits', take: (key) => permitted.acquire(key, { waitMs: 0 }) },
    { name: 'permits with a total', take: (key) => limited.acquire(key, { waitMs: 0 }) },
    { name: 'shared', take: (key) => shared.acquire(key, { waitMs: 0, mode: 'shared' }) },
    { name: 'exclusive', take: (key) => alone.acquire(key, { waitMs: 0 }) },
  ];
  return { ways, controllerPids: pids };
}

/** Leasehold on a running controller, through one client, as a service uses it. */
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
