import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { HEARTBEAT_MS, KEY_LADDERS } from '../kernel/ladder.ts';
import { createKeyService } from '../keys/index.ts';
import { SILENT_OBSERVER, type StoreObserver } from '../postgres/kernel-store.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { openKernel } from '../testing/kernel-fixture.ts';
import { CLIENT, connectInput, reportOf } from '../testing/keys-fixture.ts';
import { acquire, acquired, lineOf, openLeases, released } from '../testing/lease-fixture.ts';

/** An observer, and what it was told of handovers and joins. */
function listening(): { observer: StoreObserver; handovers: number[]; joins: string[] } {
  const handovers: number[] = [];
  const joins: string[] = [];
  const observer = {
    ...SILENT_OBSERVER,
    handedOver: (_face: string, durationMs: number) => handovers.push(durationMs),
    joined: (face: string) => joins.push(face),
  };
  return { observer, handovers, joins };
}

describe('handovers', () => {
  test('include a lease that passes from its release to a waiting caller, however long the wait was', async () => {
    const { observer, handovers } = listening();
    const on = await openLeases({ observer });
    const first = await acquired(on);
    const waiting = acquire(on, { holder: 'bob', waitMs: 20_000 });
    await waitUntil(async () => (await lineOf(on)).length === 1);
    await released(on, first);
    await waiting;

    expect(handovers).toHaveLength(1);
    expect(handovers[0]).toBeGreaterThanOrEqual(0);
    expect(handovers[0]).toBeLessThan(5_000);
  });

  test('do not include a lease that was free before anybody asked for it', async () => {
    const { observer, handovers } = listening();
    const on = await openLeases({ observer });
    const first = await acquired(on);
    await released(on, first);
    await acquired(on, { holder: 'bob', waitMs: 20_000 });

    expect(handovers).toEqual([]);
  });

  test('include a key whose backend ended while a connect waited for that', async () => {
    const { observer, handovers, joins } = listening();
    const { store, leases } = await openKernel({ observer });
    const drone = await aDrone(store.general);
    const keys = createKeyService({
      store,
      leases,
      ladder: KEY_LADDERS.standard,
      heartbeatMs: HEARTBEAT_MS.standard,
      chooseDrone: () => Promise.resolve({ droneId: drone.droneId }),
    });
    const connect = (waitMs: number): ReturnType<typeof keys.connect> =>
      keys.connect(connectInput({ waitMs }), CLIENT, new AbortController().signal);
    const old = await connect(0);
    await connect(0);
    await keys.report(reportOf(drone, old.backendId, 'terminating'));
    const waiting = connect(20_000);
    await waitUntil(async () => {
      const rows = await store.general.$queryRaw<{ waiter: string }[]>`
        select waiter from lease_waiter`;
      return rows.length === 1;
    });
    await keys.report(reportOf(drone, old.backendId, 'terminated'));
    await waiting;

    expect(joins).toEqual(['key']);
    expect(handovers).toHaveLength(1);
    expect(handovers[0]).toBeLessThan(5_000);
  });
});
