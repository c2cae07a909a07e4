import { randomUUID } from 'node:crypto';
import { startEtcd, waitUntil, type TestEtcd } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { lockTables, openTwoDatacenters } from '../testing/test-datacenters.ts';
import { mutate, query } from '../testing/wire.ts';

let etcd: TestEtcd;

beforeAll(async () => {
  etcd = await startEtcd();
});

afterAll(async () => {
  await etcd.stop();
});

describe('a datacenter that is unreachable', () => {
  test('but accepts connections without answering delays only the first list, until its deadline', async () => {
    const { world, here, there, secret } = await openTwoDatacenters(etcd);
    const input = { datacenter: 'all' };
    const tookMs = async (): Promise<number> => {
      const startedAtMs = performance.now();
      expect(await query(world.of(here), 'leases.list', { secret, input })).toMatchObject({
        unreachable: [{ datacenter: there }],
      });
      return performance.now() - startedAtMs;
    };

    world.lineTo(there).drop();

    // The deadline is two seconds; the rest is for a busy machine.
    expect(await tookMs()).toBeLessThan(10_000);
    await world.sees(here, there, false);
    expect(await tookMs()).toBeLessThan(1_900);
  });
});

describe('a datacenter that is slow at one thing', () => {
  test('is given the time that the reservation store may need to look up a reservation', async () => {
    const { world, here, there, secret } = await openTwoDatacenters(etcd);
    const on = world.of(here);
    const key = ['', randomUUID()];
    await mutate(on, 'reservations.reserve', { secret, input: { key, datacenter: there } });

    const stateAfterFourSeconds = async (): Promise<unknown> => {
      const unlock = await lockTables(world, there);
      const startedAtMs = performance.now();
      const asking = query(on, 'reservations.get', { secret, input: { key } });
      await waitUntil(() => performance.now() - startedAtMs > 4_000, { what: 'four seconds' });
      await unlock();
      return ((await asking) as { links: { state: string }[] }).links[0]?.state;
    };

    // A probe that a busy machine answers too late ends what is under way: such a round does not count.
    let state: unknown;
    for (let rounds = 0; rounds < 3 && state !== 'active'; rounds += 1) {
      await world.sees(here, there, true);
      state = await stateAfterFourSeconds();
    }

    expect(state).toBe('active');
  });
});
