import { createControllerClient, type ControllerClient } from '@leasehold/client';
import { createCoalescer, invariant } from '@leasehold/keys-core';
import { startControllers } from './controllers.ts';
import { HOLD_TTL_MS, type Held, type LockService } from './lock-service.ts';
import type { Rig } from './rig.ts';

/** Ours offers more than what all have. */
export interface LeaseholdService extends LockService {
  /** Takes what is free. @returns undefined for what is held. */
  takeIfFree(key: string): Promise<Held | undefined>;
  wait(key: string, signal?: AbortSignal): Promise<Held>;
}

/** Ours on a controller of its own. */
export async function startLeasehold(rig: Rig): Promise<LockService> {
  const { urls, token } = await startControllers(rig, await rig.database('bench_leases'), 1);
  const [url] = urls;
  invariant(url !== undefined, 'a controller was started');
  return connectLeasehold(rig, url, token);
}

/** Ours on a controller that runs, through one client. */
export function connectLeasehold(rig: Rig, url: string, token: string): LeaseholdService {
  const client = createControllerClient({ url, token, transport: 'ws' });
  rig.onClose(() => client.close());
  return bare(client.api);
}
function bare(api: ControllerClient['api']): LeaseholdService {
  const acq = createCoalescer({
    run: async (items: readonly string[]) =>
      (
        await api.leases.acquireMany.mutate({
          localTimeMs: 0,
          items: items.map((key) => ({
            namespace: ['bench'],
            key,
            ttlMs: HOLD_TTL_MS,
            holder: 'bench',
            idempotencyKey: crypto.randomUUID(),
          })),
        })
      ).results,
    keysOf: () => [],
    failureOf: () => undefined,
    batchSizeMax: 500,
    inFlightMax: 2,
    queueMax: 10000,
  });
  const rel = createCoalescer({
    run: async (items: readonly { leaseId: string; fencingToken: string }[]) =>
      (
        await api.leases.releaseMany.mutate({
          items: items.map((i) => ({ ...i, result: 'ok' as const })),
        })
      ).results,
    keysOf: () => [],
    failureOf: () => undefined,
    batchSizeMax: 500,
    inFlightMax: 2,
    queueMax: 10000,
  });
  const held = (a: any) => {
    if (a.outcome !== 'granted') throw new Error(JSON.stringify(a));
    const { leaseId, fencingToken } = a.lease;
    return {
      leaseId,
      release: async () => {
        const r: any = await rel.submit({ leaseId, fencingToken });
        if (r.outcome !== 'released') throw new Error(JSON.stringify(r));
      },
    };
  };
  return {
    name: 'leasehold',
    takeIfFree: async (key) => {
      const a: any = await acq.submit(key);
      return a.outcome === 'granted' ? held(a) : undefined;
    },
    take: async (key) => held(await acq.submit(key)),
    wait: async (key) =>
      held(
        await api.leases.acquire.mutate({
          namespace: ['bench'],
          key,
          ttlMs: HOLD_TTL_MS,
          holder: 'bench',
          waitMs: 60_000,
          localTimeMs: 0,
          idempotencyKey: crypto.randomUUID(),
        }),
      ),
  };
}
