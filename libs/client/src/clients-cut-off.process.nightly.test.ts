import { randomUUID } from 'node:crypto';
import { createBootClock } from '@leasehold/service-kit/boot-clock';
import { expect, test } from 'vitest';
import { LeaseLost } from './lease/lease.ts';
import { useController } from './testing/controller-fixture.ts';
import { deadlineOf } from './testing/outcomes.ts';

const { aClient, aProxy } = useController();

test('I4 makes each of 50 cut-off clients abort its signal by its own deadline', async () => {
  const clock = createBootClock();
  const proxy = await aProxy();
  const cutOff = await Promise.all(
    Array.from({ length: 50 }, async (_, nth) => {
      const client = aClient({ url: proxy.url, clock });
      // On a busy machine, fifty connections take seconds.
      const ttlMs = 8_000 + 20 * nth;
      const lease = await client.defineLease(['cut', 'off'], { ttlMs }).acquire(randomUUID());
      return { lease, ended: deadlineOf(lease, clock) };
    }),
  );
  expect(cutOff.every(({ lease }) => lease.isHeld)).toBe(true);

  proxy.drop();
  const ends = await Promise.all(cutOff.map(({ ended }) => ended));

  expect(ends.filter(({ lateMs }) => lateMs > 0)).toEqual([]);
  expect(ends.every(({ reason }) => reason instanceof LeaseLost)).toBe(true);
  // A release by a client that is cut off never hangs.
  const reports = await Promise.all(cutOff.map(({ lease }) => lease.release()));
  expect(new Set(reports)).toEqual(new Set(['unknown']));
});
