/** H-orphan-grant: a waiter confirms its grant before its caller gets it. */
import { describe, expect, test } from 'vitest';
import { settled, type ManualClock } from '../double/index.ts';
import { Ending } from '../signals.ts';
import { setUpLeases } from '../testing/lease-setup.ts';
import { EnvironmentSupersededError } from '../transport/errors.ts';
import { requestOf } from './acquire.ts';

const TTL_MS = 30_000;
const DEPLOYMENT = {
  scope: { face: 'environment', namespace: ['user'], key: 'prod' },
  ttlMs: TTL_MS,
  holder: 'v1',
  action: 'deploy',
  waitMs: 20_000,
  renews: true,
  signal: undefined,
} as const;

/** Lets time pass in pieces: a piece ends early if the clock jumps during it. */
async function advance(clock: ManualClock, pieces: number): Promise<void> {
  for (let piece = 0; piece < pieces; piece += 1) await clock.advance(300);
}

/** Alice holds the key until a caller waits in line for it: then her grant ends. */
async function setUpLine() {
  const set = setUpLeases();
  const { wire, define } = set;
  await define({}, 'alice').acquire('k');
  wire.isWaitedFor = true;
  const acquire = wire.acquire.bind(wire);
  const waits: { readonly confirms: boolean; readonly idempotencyKey: string }[] = [];
  wire.acquire = (request, waitMs, signal) => {
    if (waitMs > 0) {
      wire.revoke('k');
      const { confirms = false, idempotencyKey } = request;
      waits.push({ confirms, idempotencyKey });
    }
    return acquire(request, waitMs, signal);
  };
  const bob = define({ ttlMs: TTL_MS }, 'bob');
  return { ...set, waits, wait: () => bob.acquire('k', { waitMs: 20_000 }) };
}

describe('a lease that was waited for', () => {
  test('is short until its first renewal, and is handed out with its whole TTL', async () => {
    const { clock, wire, waits, wait } = await setUpLine();
    wire.beforeHeartbeat = () => {
      expect(wire.expiresAtMs('k') - clock.nowMs()).toBeLessThan(1_000);
    };

    const lease = await wait();

    expect(waits).toMatchObject([{ confirms: true }]);
    expect(wire.heartbeats).toHaveLength(1);
    expect(wire.expiresAtMs('k')).toBe(clock.nowMs() + TTL_MS);
    expect(lease.remainingMs()).toBe(TTL_MS - 5_000);
  });

  test('has its confirmation retried while no answer comes and the grant lasts', async () => {
    const { clock, wire, wait } = await setUpLine();
    wire.beforeHeartbeat = (count) => {
      wire.weather = count < 3 ? 'lose_request' : 'fine';
    };
    const acquired = wait();
    await clock.advance(600);

    const lease = await acquired;

    expect(wire.heartbeats).toHaveLength(3);
    expect(lease.isHeld).toBe(true);
    expect(wire.grantsCount).toBe(2);
  });

  test('is waited for again, with another ticket, if it was confirmed too late', async () => {
    const { clock, wire, waits, wait } = await setUpLine();
    wire.beforeHeartbeat = (count) => {
      if (count === 1) clock.jump(1_000);
    };
    const acquired = wait();
    await advance(clock, 3);

    const lease = await acquired;

    expect(new Set(waits.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(2);
    expect(wire.acquires.map(({ again }) => again)).toEqual([undefined, undefined, undefined]);
    expect(lease.isHeld).toBe(true);
    expect(wire.holderOf('k')).toBe('bob');
  });

  test('is given up and waited for again if its confirmation has no answer', async () => {
    const { clock, wire, waits, wait } = await setUpLine();
    wire.beforeHeartbeat = () => {
      wire.weather = 'lose_reply';
    };
    const acquired = wait();
    await clock.advance(400);
    const leftMs = wire.expiresAtMs('k') - clock.nowMs();
    await clock.advance(1_200);
    wire.beforeHeartbeat = () => undefined;
    wire.weather = 'fine';
    await clock.advance(3_000);

    const lease = await acquired;

    expect(leftMs).toBeGreaterThan(20_000);
    expect(new Set(waits.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(2);
    expect(lease.isHeld).toBe(true);
    // Alice's, and the one that was handed out.
    expect(wire.grantsCount).toBe(2);
  });

  test('is not waited for again if it was revoked before it was confirmed', async () => {
    const { wire, waits, wait } = await setUpLine();
    wire.beforeHeartbeat = () => {
      wire.blockRenewal('k');
    };

    await expect(wait()).rejects.toMatchObject({
      code: 'lease.not_held',
      details: { reason: 'renewal_blocked' },
    });

    expect(waits).toHaveLength(1);
  });

  test('tells by whom an environment was superseded before it was confirmed', async () => {
    const { wire, taker } = setUpLeases();
    wire.isWaitedFor = true;
    const acquire = wire.acquire.bind(wire);
    wire.acquire = (...args) =>
      wire.heartbeats.length === 0
        ? acquire(...args)
        : Promise.reject(new EnvironmentSupersededError({ details: { by: 'v2' } }));
    wire.beforeHeartbeat = () => {
      wire.blockRenewal('prod');
    };

    const acquired = taker.acquire(DEPLOYMENT);

    await expect(acquired).rejects.toMatchObject({
      code: 'environment.superseded',
      details: { by: 'v2' },
    });
  });

  test('names the last request that was lost if it is an environment, and waits to the end', async () => {
    const { clock, wire, taker } = setUpLeases();
    wire.isWaitedFor = true;
    const waits: number[] = [];
    const acquire = wire.acquire.bind(wire);
    wire.acquire = (request, waitMs, ending) => {
      waits.push(waitMs);
      return acquire(request, waitMs, ending);
    };
    wire.beforeHeartbeat = (count) => {
      if (count < 3) clock.jump(1_000);
    };
    const acquired = taker.acquire({ ...DEPLOYMENT, supersede: 'waiting', waitMs: 2_050 });
    await advance(clock, 5);

    expect((await acquired).isHeld).toBe(true);
    expect(wire.acquires.map(({ again, supersede }) => [again, supersede])).toEqual([
      [undefined, 'waiting'],
      [wire.acquires[0]?.idempotencyKey, undefined],
      [wire.acquires[1]?.idempotencyKey, undefined],
    ]);
    expect(Math.min(...waits)).toBe(1);
  });

  test('does not come after a newer request for an environment that has superseded it before it was confirmed', async () => {
    const { clock, wire, taker } = setUpLeases();
    wire.isWaitedFor = true;
    const newer = { ...requestOf({ clock, uuid: () => 'v2', random: () => 0 }, DEPLOYMENT) };
    wire.beforeHeartbeat = () => {
      clock.jump(1_000);
      void wire.acquire({ ...newer, holder: 'v2', supersede: 'waiting' }, 1_000, new Ending());
    };
    const acquired = taker.acquire(DEPLOYMENT);
    const refused = expect(acquired).rejects.toMatchObject({
      code: 'environment.superseded',
      details: { by: 'v2' },
    });
    await advance(clock, 3);

    await refused;
    expect(wire.holderOf('prod')).toBe('v2');
  });

  test('is requested without confirmation after three confirmations were too late', async () => {
    const { clock, wire, waits, wait } = await setUpLine();
    wire.beforeHeartbeat = () => {
      clock.jump(1_000);
    };
    const acquired = wait();
    await advance(clock, 10);

    const lease = await acquired;

    expect(waits.map(({ confirms }) => confirms)).toEqual([true, true, true, false]);
    expect(lease.isHeld).toBe(true);
  });

  test('is given back if its caller gives up during the confirmation', async () => {
    const { clock, wire, define } = await setUpLine();
    const giveUp = new AbortController();
    const waiting = define({ ttlMs: TTL_MS }, 'bob').acquire('k', {
      waitMs: 20_000,
      signal: giveUp.signal,
    });
    wire.beforeHeartbeat = () => {
      wire.weather = 'lose_reply';
      giveUp.abort(new Error('enough'));
    };

    await expect(waiting).rejects.toThrow('enough');
    await settled();
    wire.weather = 'fine';
    await clock.advance(3_000);

    expect(wire.holderOf('k')).toBeUndefined();
  });
});
