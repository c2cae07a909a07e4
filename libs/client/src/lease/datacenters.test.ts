import { describe, expect, test } from 'vitest';
import { setUpLeases } from '../testing/lease-setup.ts';
import { DatacenterUnreachableError } from '../transport/errors.ts';
import { LeaseRevoked } from './lease.ts';

const TTL_MS = 12_000;

describe('leases in other datacenters', () => {
  test('are renewed with their datacenter named, in one call for each datacenter', async () => {
    const { clock, wire, define } = setUpLeases();
    const definition = define({ ttlMs: TTL_MS });
    await definition.acquire('here');
    await definition.acquire('a', { datacenter: 'dc2' });
    await definition.acquire('b', { datacenter: 'dc2' });
    await definition.acquire('c', { datacenter: 'dc3' });

    await clock.advance(TTL_MS / 3 + 50);

    const calls = wire.heartbeats.map((renewals, place) => [
      wire.heartbeatDatacenters[place] ?? 'here',
      renewals.length,
    ]);
    expect(Object.fromEntries(calls)).toEqual({ here: 1, dc2: 2, dc3: 1 });
    expect(calls).toHaveLength(3);
  });

  test('are released where they are', async () => {
    const { wire, define } = setUpLeases();
    const lease = await define().acquire('k', { datacenter: 'dc2' });

    await lease.release();

    expect(lease.datacenter).toBe('dc2');
    expect(wire.releases).toMatchObject([{ leaseId: lease.leaseId, datacenter: 'dc2' }]);
  });

  test('have their release retried while their datacenter is out of reach', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k', { datacenter: 'dc2' });
    wire.weather = 'out_of_reach';
    const released = lease.release();
    await clock.advance(4_000);
    wire.weather = 'fine';

    await clock.advance(2_000);

    expect(await released).toBe('unknown');
    expect(wire.holderOf('k')).toBeUndefined();
  });

  test('are waited for while their datacenter is out of reach, for as long as the wait lasts', async () => {
    const { clock, wire, define } = setUpLeases();
    wire.weather = 'out_of_reach';
    const definition = define();
    // The second is asked for beside the first.
    const waits = ['a', 'b'].map((key) =>
      definition.acquire(key, { datacenter: 'dc2', waitMs: 3_600_000 }),
    );
    await clock.advance(60_000);
    wire.weather = 'fine';
    await clock.advance(3_000);
    const [one, two] = await Promise.all(waits);

    expect([one?.isHeld, two?.isHeld]).toEqual([true, true]);
    expect(wire.grantsCount).toBe(2);
    const first = wire.acquires.filter(({ key }) => key === 'a');
    expect(new Set(first.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
  });

  test('are refused with that when the wait is over, also for one that is asked for beside others', async () => {
    const { clock, wire, define, background } = setUpLeases();
    wire.weather = 'out_of_reach';
    const definition = define();
    const refused = Promise.all(
      ['a', 'b'].map((key) =>
        expect(
          definition.acquire(key, { datacenter: 'dc2', waitMs: 30_000 }),
        ).rejects.toBeInstanceOf(DatacenterUnreachableError),
      ),
    );
    await clock.advance(33_000);

    await refused;
    wire.weather = 'fine';
    await clock.advance(3_000);
    await background.idle();
    expect([wire.holderOf('a'), clock.waitingCount]).toEqual([undefined, 0]);
  });

  test('whose grant cannot be confirmed because their datacenter is out of reach are waited for again', async () => {
    const { clock, wire, define } = setUpLeases();
    wire.isWaitedFor = true;
    wire.beforeHeartbeat = () => {
      wire.weather = 'out_of_reach';
    };
    const acquired = define().acquire('k', { datacenter: 'dc2', waitMs: 3_600_000 });
    await clock.advance(30_000);
    wire.beforeHeartbeat = () => undefined;
    wire.weather = 'fine';
    await clock.advance(5_000);

    expect((await acquired).isHeld).toBe(true);
  });

  test('whose datacenter is back before their first term is over are confirmed, and not asked for again', async () => {
    const { clock, wire, define } = setUpLeases();
    wire.isWaitedFor = true;
    wire.beforeHeartbeat = (count) => {
      wire.weather = count === 1 ? 'out_of_reach' : 'fine';
    };
    const acquired = define().acquire('k', { datacenter: 'dc2', waitMs: 3_600_000 });
    await clock.advance(500);

    expect((await acquired).isHeld).toBe(true);
    expect(wire.acquires).toHaveLength(1);
  });

  test('are refused at once while their datacenter is out of reach, without a wait', async () => {
    const { clock, wire, define } = setUpLeases();
    wire.weather = 'out_of_reach';
    const beganAtMs = clock.nowMs();

    const refused = define().acquire('k', { datacenter: 'dc2' });

    await expect(refused).rejects.toBeInstanceOf(DatacenterUnreachableError);
    expect(wire.acquires).toHaveLength(1);
    expect(clock.nowMs()).toBe(beganAtMs);
  });

  test('learn of a revocation at their next renewal, at most a third of the TTL later', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k', { datacenter: 'dc2' });
    wire.revoke('k');

    await clock.advance(TTL_MS / 3 + 50);

    expect(lease.signal.reason).toBeInstanceOf(LeaseRevoked);
  });

  test('are lost by their own deadline while their datacenter is out of reach', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k', { datacenter: 'dc2' });
    wire.weather = 'out_of_reach';

    await clock.advance(TTL_MS / 2);
    const before = lease.signal.aborted;
    await clock.advance(TTL_MS / 3);

    expect([before, lease.signal.aborted]).toEqual([false, true]);
    expect(clock.nowMs()).toBeLessThan(wire.expiresAtMs('k'));
  });

  test('are separate even for the same scope: waiting for the other one is no deadlock', async () => {
    const { define } = setUpLeases();
    const definition = define({ ttlMs: TTL_MS });
    const here = await definition.acquire('k');

    const there = here.run(() => definition.acquire('k', { datacenter: 'dc2', waitMs: 1 }));

    await expect(there).rejects.not.toMatchObject({ code: 'lease.self_deadlock' });
  });
});
