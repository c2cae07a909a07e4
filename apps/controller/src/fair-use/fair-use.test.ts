import { FAIR_USE_DEFAULTS } from '@leasehold/keys-core';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { accessOf, openUse } from '../testing/test-fair-use.ts';
import type { FairUse, PrincipalUse } from './fair-use.ts';
import { createRates } from './pacing.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('calls per second', () => {
  test('more than the limit are refused until the window is over, and the refusal says when that is', () => {
    const { use, refusals } = openUse();
    const mine = use({ callsPerSecond: 10 });
    mine.countCalls(10, false);
    vi.advanceTimersByTime(400);

    expect(() => mine.countCalls(1, false)).toThrow(
      expect.objectContaining({
        code: 'request.rate_limited',
        retryable: true,
        details: { limit: 'callsPerSecond', max: 10, retryAfterMs: 600 },
      }),
    );
    vi.advanceTimersByTime(601);
    mine.countCalls(10, false);

    expect(refusals).toEqual(['callsPerSecond client']);
  });

  test('a caller that goes on after twice its limit is not answered until the window is over', () => {
    const mine = openUse().use({ callsPerSecond: 10 });

    expect(() => mine.countCalls(20, false)).toThrow(
      expect.objectContaining({
        code: 'request.rate_limited',
      }),
    );
    const isShutBefore = mine.isShut;
    expect(() => mine.countCalls(1, false)).toThrow(
      expect.objectContaining({ code: 'request.rate_limited' }),
    );

    expect([isShutBefore, mine.isShut]).toEqual([false, true]);
    vi.advanceTimersByTime(1_001);
    expect(mine.isShut).toBe(false);
  });

  test('renewals and releases are counted separately: other calls leave them their share', () => {
    const mine = openUse().use({ callsPerSecond: 10 });
    mine.countCalls(10, false);

    mine.countCalls(10, true);
    expect(() => mine.countCalls(1, true)).toThrow(
      expect.objectContaining({ code: 'request.rate_limited' }),
    );
  });

  test('the items of a call count, and a call of more items than a batch may have is refused', () => {
    const mine = openUse().use({ callsPerSecond: 100, batchSize: 50 });
    mine.countCalls(1, false);
    mine.countItems(50);

    expect(() => mine.countItems(51)).toThrow(
      expect.objectContaining({
        code: 'quota.exceeded',
        retryable: false,
        details: { limit: 'batchSize', max: 50, used: 51 },
      }),
    );
    mine.countItems(50);
    expect(() => mine.countItems(3)).toThrow(
      expect.objectContaining({ code: 'request.rate_limited' }),
    );
    // A renewal of many is not a batch that could be smaller.
    mine.countItems(90, 'urgent');
  });

  test('each principal has its own limit, and all of its connections share it', () => {
    const { fairUse } = openUse();
    const one = fairUse.of(accessOf('client', { callsPerSecond: 1 }, 'a'));
    one.countCalls(1, false);

    expect(fairUse.of(accessOf('client', { callsPerSecond: 1 }, 'a'))).toBe(one);
    fairUse.of(accessOf('client', { callsPerSecond: 1 }, 'b')).countCalls(1, false);
  });
});

describe('what is open', () => {
  test.each([
    ['connections', (use: PrincipalUse) => use.openConnection()],
    ['streams', (use: PrincipalUse) => use.openStream()],
    ['waiters', (use: PrincipalUse) => use.startWaiting()],
  ] as const)('more %s than the limit are refused, until one is closed', (limit, open) => {
    const { use, fairUse } = openUse();
    const mine = use({ [limit]: 2 });
    const closeFirst = open(mine);
    open(mine);

    expect(() => open(mine)).toThrow(
      expect.objectContaining({ code: 'quota.exceeded', details: { limit, max: 2, used: 3 } }),
    );
    expect(fairUse.greatestUseOf(limit)).toBe(1);
    closeFirst();
    closeFirst();
    open(mine);
    expect(() => open(mine)).toThrow();
  });

  test('a caller that waits for several leases counts for each of them', () => {
    const { use, fairUse } = openUse();
    const mine = use({ waiters: 4 });
    const stop = mine.startWaiting(3);

    expect(() => mine.startWaiting(2)).toThrow(
      expect.objectContaining({
        code: 'quota.exceeded',
        details: { limit: 'waiters', max: 4, used: 5 },
      }),
    );
    stop();
    expect(fairUse.greatestUseOf('waiters')).toBe(0);
  });

  test('by default a viewer may neither wait for a lease nor hold one', async () => {
    const viewer = openUse().use({}, 'viewer');

    expect(() => viewer.startWaiting()).toThrow();
    await expect(viewer.mayHold(1)).rejects.toMatchObject({ code: 'quota.exceeded' });
  });
});

describe('answers', () => {
  test('when they exceed the bytes per second, reads are refused and streams wait until the second is over', async () => {
    const mine = openUse().use({ responseBytesPerSecond: 1_000 });
    mine.sent(1_001)();

    expect(mine.isBehind()).toBe(true);
    await expect(mine.read(() => Promise.resolve(1))).rejects.toMatchObject({
      code: 'request.rate_limited',
      details: { limit: 'responseBytesPerSecond' },
    });
    vi.advanceTimersByTime(1_000);
    expect(mine.isBehind()).toBe(false);
    expect(await mine.read(() => Promise.resolve(1))).toBe(1);
  });

  test('a caller with more unread bytes than the limit is behind until it has read them', () => {
    const mine = openUse().use({ unreadBytes: 1_000 });
    const read = mine.sent(600);
    mine.sent(600);

    expect(mine.isBehind()).toBe(true);
    read();
    expect(mine.isBehind()).toBe(false);
  });
});

/** The held leases that `tokens show` reports. */
function heldOf(fairUse: FairUse): number | null | undefined {
  return fairUse
    .report({ principal: 'token-a', role: 'client', overrides: null })
    .find(({ limit }) => limit === 'heldLeases')?.used;
}

describe('held leases', () => {
  test('far from its limit a principal is counted by its grants and releases at this controller', () => {
    const { fairUse, use } = openUse();
    const mine = use({ heldLeases: 1_000 });
    mine.noteHeld(40);
    mine.noteHeld(-10);

    expect(mine.mayHold(1)).toBeUndefined();
    expect(heldOf(fairUse)).toBe(30);
  });

  test('near its limit the database is queried, and more than the limit is refused', async () => {
    let inDatabase = 900;
    const { fairUse, use } = openUse(() => new Map([['token-a', inDatabase]]));
    const mine = use({ heldLeases: 1_000 });
    mine.noteHeld(901);

    await mine.mayHold(1);
    mine.noteHeld(100);
    await expect(mine.mayHold(1)).rejects.toMatchObject({
      code: 'quota.exceeded',
      details: { limit: 'heldLeases', max: 1_000, used: 1_001 },
    });
    inDatabase = 10;
    vi.advanceTimersByTime(2_001);
    await mine.mayHold(1);
    expect(heldOf(fairUse)).toBe(10);
  });

  test('a caller of another datacenter is held to the limit of its role, by what it holds here itself', async () => {
    const { heldLeases: max } = FAIR_USE_DEFAULTS.client;
    const { fairUse } = openUse(() => new Map([['dc1/busy', max]]));
    const peer = fairUse.of(accessOf('peer', {}, 'peer:dc1'));
    const [busy, idle] = ['dc1/busy', 'dc1/idle'].map((name) => peer.heldBy(name, 'client'));
    busy?.noteHeld(max);

    await expect(busy?.mayHold(1)).rejects.toMatchObject({
      code: 'quota.exceeded',
      details: { limit: 'heldLeases', max },
    });
    expect(idle?.mayHold(1)).toBeUndefined();
  });

  test('a grant that is made while the database counts is neither lost nor counted twice', async () => {
    const { fairUse, use } = openUse(() => new Map([['token-a', 950]]));
    const mine = use({ heldLeases: 1_000 });
    mine.noteHeld(950);
    const asked = mine.mayHold(1);
    mine.noteHeld(30);
    await asked;

    expect(heldOf(fairUse)).toBe(980);
  });
});

describe('reservations', () => {
  test('more than the limit are refused until the hour is over', () => {
    const { use, fairUse } = openUse();
    const mine = use({ reservationsPerHour: 2 });
    mine.startReserving();
    mine.startReserving();
    vi.advanceTimersByTime(3_599_000);

    expect(() => mine.startReserving()).toThrow(
      expect.objectContaining({
        code: 'request.rate_limited',
        details: { limit: 'reservationsPerHour', max: 2, retryAfterMs: 1_000 },
      }),
    );
    expect(fairUse.greatestUseOf('reservationsPerHour')).toBe(1);
    vi.advanceTimersByTime(1_000);
    mine.startReserving();
  });

  test('a key that already had a reservation is not counted: its count is taken back from its own hour', () => {
    const mine = openUse().use({ reservationsPerHour: 1 });
    const takeBack = mine.startReserving();
    takeBack();
    const takeBackLate = mine.startReserving();
    vi.advanceTimersByTime(3_600_000);
    mine.startReserving();
    takeBackLate();

    expect(() => mine.startReserving()).toThrow();
  });
});

test('a caller that leaves too much unread is refused until it has read', () => {
  const mine = openUse().use({ unreadBytes: 100 });
  mine.assertHasRead();
  const read = mine.sent(101);

  expect(() => mine.assertHasRead()).toThrow(
    expect.objectContaining({ code: 'quota.exceeded' }) as Error,
  );
  read();
  mine.assertHasRead();
});

describe('what a principal sends', () => {
  test('may arrive a little sooner than its limit has it, and is read on at its rate then', () => {
    const mine = openUse().use({ requestBytesPerSecond: 1_000 });

    const waits = [100, 100, 500].map((bytes) => mine.received(bytes));
    vi.advanceTimersByTime(600);

    expect(waits).toEqual([0, 100, 600]);
    expect(mine.received(100)).toBe(100);
  });

  test('makes nobody wait for longer than ten seconds', () => {
    expect(openUse().use({ requestBytesPerSecond: 0 }).received(1_000_000)).toBe(10_000);
  });
});

describe('callers without a known token', () => {
  test('are counted by address, and an IPv6 network counts as one address', async () => {
    const refused: string[] = [];
    const rates = createRates({
      nowMs: () => Date.now(),
      anonymousPerSecondMax: 2,
      newSecretsPerSecondMax: 1,
      onRefusal: (limit) => refused.push(limit),
    });
    await rates.anonymous('2001:db8::1');
    await rates.anonymous('2001:db8::2');

    await expect(rates.anonymous('2001:db8::3')).rejects.toMatchObject({
      code: 'request.rate_limited',
      details: { limit: 'requestsWithoutToken', max: 2 },
    });
    await rates.anonymous('2001:db8:0:1::1');
    await rates.newSecret('10.0.0.1');
    await expect(rates.newSecret('10.0.0.1')).rejects.toMatchObject({
      code: 'request.rate_limited',
    });
    await rates.newSecret('10.0.0.2');
    for (let count = 0; count < 10; count += 1) await rates.signIn('10.0.0.1');
    await expect(rates.signIn('10.0.0.1')).rejects.toMatchObject({
      code: 'request.rate_limited',
      details: { limit: 'signIns', max: 10 },
    });
    expect(refused).toEqual(['requestsWithoutToken', 'newTokens', 'signIns']);
  });
});
