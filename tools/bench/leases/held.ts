import { setTimeout as pause } from 'node:timers/promises';
import { createLeasehold, type Lease } from '@leasehold/client';
import { invariant } from '@leasehold/keys-core';
import { startControllers } from '../controllers.ts';
import type { Figure } from '../rig/figures.ts';
import { atMost, bytes } from '../rig/quantities.ts';
import type { Rig } from '../rig/rig.ts';

/** So long that no renewal falls into the measurement. */
const TTL_MS = 3_600_000;
const AT_ONCE = 1_000;
const SETTLE_MS = 3_000;
const SHARE_MAX = 2;

/** What a process pays for leases that it holds, while none of them is due. */
export async function measureHeld(rig: Rig): Promise<Figure[]> {
  const leaseCount = rig.isQuick ? 2_000 : 100_000;
  const { urls, token } = await startControllers(rig, await rig.database('bench_held'), 1);
  const leasehold = createLeasehold({ url: urls, token, clientName: 'bench' });
  rig.onClose(() => leasehold.close());
  const definition = leasehold.defineLease(['held'], { ttlMs: TTL_MS, waitMs: 0 });
  const bare = process.memoryUsage().rss;
  const held: Lease[] = [];
  while (held.length < leaseCount) {
    const names = Array.from({ length: AT_ONCE }, (_, place) => String(held.length + place));
    held.push(...(await Promise.all(names.map((name) => definition.acquire(name)))));
  }
  await pause(SETTLE_MS);
  const watchedMs = rig.isQuick ? 1_000 : 10_000;
  const before = process.cpuUsage();
  await pause(watchedMs);
  const { user, system } = process.cpuUsage(before);
  invariant(
    held.every((lease) => !lease.signal.aborted),
    'all leases are held',
  );
  const what = `${String(held.length)} leases held by one process, none of them due`;
  return [
    {
      what: `processor time of ${what}, of one core`,
      result: { value: (user + system) / (watchedMs * 10), unit: '%' },
      required: atMost(SHARE_MAX),
    },
    {
      what: `memory of ${what}, each`,
      result: bytes((process.memoryUsage().rss - bare) / held.length),
    },
  ];
}
