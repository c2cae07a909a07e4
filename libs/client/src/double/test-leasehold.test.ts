import { inspect } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { LeaseHeldError, LeaseLost, LeaseRevoking, LeaseWaitTimeoutError } from '../index.ts';
import { createTestLeasehold, type TestLeasehold } from './index.ts';

const NIGHTLY = { namespace: ['jobs'], key: 'nightly' };

function setUp() {
  const test = createTestLeasehold();
  onTestFinished(() => test.close());
  const [one, other] = ['one', 'other'].map((holder) => test.client({ holder }));
  if (one === undefined || other === undefined) throw new Error('there are two clients');
  const define = { ttlMs: 30_000, waitMs: 10_000 };
  return {
    test,
    one,
    other,
    jobs: one.defineLease(['jobs'], define),
    othersJobs: other.defineLease(['jobs'], define),
  };
}

const kindsOf = (leasehold: TestLeasehold) => leasehold.historyOf(NIGHTLY).map(({ kind }) => kind);

describe('leases in memory', () => {
  test('exclude each other, and fencing tokens grow', async () => {
    const { test, jobs, othersJobs } = setUp();
    const lease = await jobs.acquire('nightly');

    await expect(othersJobs.acquire('nightly', { waitMs: 0 })).rejects.toThrow(LeaseHeldError);
    expect(await othersJobs.tryAcquire('nightly')).toMatchObject({ outcome: 'held', by: 'one' });
    expect(test.holdingOf(lease)).toMatchObject({ holder: 'one', remainingMs: 30_000 });

    expect(await lease.release()).toBe('released');
    const next = await othersJobs.acquire('nightly');
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(lease.fencingToken));
    expect(kindsOf(test)).toEqual(['granted', 'released', 'granted']);
  });

  test('are renewed while time passes', async () => {
    const { test, jobs } = setUp();
    const lease = await jobs.acquire('nightly');

    await test.advance(3_600_000);

    expect(lease.isHeld).toBe(true);
    expect(test.holdingOf(lease)).toMatchObject({ holder: 'one' });
  });

  test('go to callers in line, in their order, as soon as they are released', async () => {
    const { test, jobs, othersJobs } = setUp();
    const third = test.client({ holder: 'third' }).defineLease(['jobs'], { waitMs: 10_000 });
    const lease = await jobs.acquire('nightly');
    const second = othersJobs.acquire('nightly');
    await test.advance(50);
    const last = third.acquire('nightly');
    await test.advance(50);
    expect(test.waitersOf(NIGHTLY)).toEqual(['other', 'third']);

    await lease.release();
    const next = await second;
    expect(test.holdingOf(NIGHTLY)?.holder).toBe('other');
    expect(test.waitersOf(NIGHTLY)).toEqual(['third']);

    await next.release();
    await last;
    expect(test.holdingOf(NIGHTLY)?.holder).toBe('third');
  });

  test('refuse a caller when its time in line is over', async () => {
    const { test, jobs, othersJobs } = setUp();
    await jobs.acquire('nightly');
    const refused = expect(othersJobs.acquire('nightly')).rejects.toThrow(LeaseWaitTimeoutError);

    await test.advance(10_100);

    await refused;
    expect(test.waitersOf(NIGHTLY)).toEqual([]);
  });

  test('are granted to nobody who has given up', async () => {
    const { test, jobs, othersJobs } = setUp();
    const lease = await jobs.acquire('nightly');
    const giveUp = new AbortController();
    const waiting = othersJobs.acquire('nightly', { signal: giveUp.signal });
    const refused = expect(waiting).rejects.toThrow('not any more');
    await test.advance(50);

    giveUp.abort(new Error('not any more'));
    await refused;
    await test.advance(50);
    await lease.release();

    expect(test.holdingOf(NIGHTLY)).toBeUndefined();
  });

  test('of an environment are not renewed unless the caller wants it', async () => {
    const { test, one } = setUp();
    const production = { face: 'environment', namespace: ['eu'], key: 'production' } as const;
    const attempt = await one.environments.tryAcquire(['eu', 'production'], { action: 'deploy' });
    expect(attempt.outcome).toBe('granted');
    expect(test.holdingOf(production)).toMatchObject({ holder: 'one', remainingMs: 60_000 });

    await test.advance(60_000);

    expect(test.holdingOf(production)).toBeUndefined();
  });
});

test('who has an override passes those who wait out a freeze, and they are told of it', async () => {
  const test = createTestLeasehold();
  const scope = { namespace: ['shop'], key: 'prod' };
  test.freeze(scope, { reason: 'audit', forMs: 60_000 });
  const told: unknown[] = [];
  const waiting = test.client({ holder: 'waits' }).environments.acquire(['shop', 'prod'], {
    action: 'deploy',
    waitMs: 120_000,
    onWaiting: ({ frozen }) => void told.push(frozen),
  });
  await test.advance(70_000 / 2);

  const passing = await test
    .client({ holder: 'passes' })
    .environments.acquire(['shop', 'prod'], { action: 'deploy', override: { reason: 'outage' } });
  await passing.release();
  await test.advance(60_000);

  await (await waiting).release();
  expect(told).toContainEqual({ until: expect.any(String) as string, reason: 'audit' });
});

describe('what goes wrong', () => {
  test('a client that is cut off loses its lease before anybody else can have it', async () => {
    const { test, one, jobs, othersJobs } = setUp();
    const lease = await jobs.acquire('nightly');
    test.cutOff(one);

    await test.advance(25_000);

    expect(lease.signal.reason).toBeInstanceOf(LeaseLost);
    expect((lease.signal.reason as LeaseLost).reason).toBe('unreachable');
    expect(test.holdingOf(NIGHTLY)?.holder).toBe('one');
    await test.advance(5_000);
    await othersJobs.acquire('nightly');
    expect(test.holdingOf(NIGHTLY)?.holder).toBe('other');
  });

  test('a client that is healed in time keeps its lease', async () => {
    const { test, one, jobs } = setUp();
    const lease = await jobs.acquire('nightly');
    test.cutOff(one);
    await test.advance(20_000);

    test.heal(one);
    await test.advance(60_000);

    expect(lease.isHeld).toBe(true);
  });

  test.each([
    ['within a minute is told of the revocations that it has missed', 59_000, true],
    ['later is not', 61_000, false],
  ])('a client that is healed %s', async (_what, cutMs, isTold) => {
    const { test, one } = setUp();
    // Nothing asks about it, because it is not renewed.
    const durationMs = 300_000;
    const attempt = await one.environments.tryAcquire('prod', { action: 'deploy', durationMs });
    if (attempt.outcome !== 'granted') throw new Error('it is free');
    const { lease } = attempt;
    test.cutOff(one);
    const prod = { face: 'environment', namespace: [], key: 'prod' } as const;
    await test.revoke(prod, { reason: 'an incident' });
    await test.advance(cutMs);
    expect(lease.signal.aborted).toBe(false);

    test.heal(one);

    expect(lease.signal.aborted).toBe(isTold);
    if (isTold) expect(lease.signal.reason).toMatchObject({ note: 'an incident' });
  });

  test('after a stall past the deadline work may not act, although no signal has arrived yet', async () => {
    const { test, jobs } = setUp();
    const lease = await jobs.acquire('nightly');

    test.stall(40_000);

    expect(lease.signal.aborted).toBe(false);
    expect(() => lease.assertHeld()).toThrow(LeaseLost);
    await test.advance(50);
    expect(lease.signal.aborted).toBe(true);
  });

  test('an operator revokes: at once by force, and otherwise when the lease runs out', async () => {
    const { test, jobs } = setUp();
    const first = await jobs.acquire('nightly');
    await test.revoke(first, { reason: 'wrong week' });
    expect(first.signal.reason).toMatchObject({ reason: 'revoked', note: 'wrong week' });

    const second = await jobs.acquire('nightly');
    await test.revoke(second, { mode: 'graceful' });
    expect(second.revoking.reason).toBeInstanceOf(LeaseRevoking);
    expect(second.isHeld).toBe(true);
    await test.advance(30_000);
    expect(second.signal.aborted).toBe(true);
    expect(kindsOf(test)).toEqual(['granted', 'revoked', 'granted', 'revoked', 'expired']);
  });

  test('a renewal that is blocked is noticed at the next one, and may be allowed again', async () => {
    const { test, jobs } = setUp();
    const lease = await jobs.acquire('nightly');
    test.blockRenewal(lease);
    await test.advance(10_100);
    expect(lease.revoking.aborted).toBe(true);
    expect(test.holdingOf(lease)?.isRenewable).toBe(false);

    test.allowRenewal(lease);
    expect(test.holdingOf(lease)?.isRenewable).toBe(true);
  });

  test('what nobody holds cannot be revoked', async () => {
    const { test } = setUp();

    await expect(test.revoke(NIGHTLY)).rejects.toThrow('Nobody holds the lease jobs.nightly.');
  });

  test('a TTL that a controller refuses is refused here too', async () => {
    const { one } = setUp();

    await expect(one.defineLease(['jobs']).acquire('a', { ttlMs: 10 })).rejects.toMatchObject({
      code: 'lease.ttl_out_of_range',
    });
  });

  test('what needs a controller throws an error', () => {
    const { one } = setUp();

    expect(() => one.keys).toThrow('`keys` needs a controller');
  });

  test('a datacenter throws an error, because it may make another lease of a key, or not', async () => {
    const { test, one, jobs } = setUp();
    const error = '`datacenter` needs a controller';

    await expect(jobs.acquire('nightly', { datacenter: 'dc1' })).rejects.toThrow(error);
    await expect(
      one.environments.tryAcquire('prod', { action: 'deploy', datacenter: 'dc1' }),
    ).rejects.toThrow(error);
    expect(test.historyOf(NIGHTLY)).toEqual([]);
  });

  test('an environment is not shared, which names the field and what is allowed', async () => {
    const { one } = setUp();
    const attempt = await one.environments.tryAcquire('prod', { action: 'deploy' });
    if (attempt.outcome !== 'granted') throw new Error('it is free');

    await expect(attempt.lease.downgrade()).rejects.toMatchObject({
      code: 'request.invalid',
      message: expect.stringMatching(/^mode must be exclusive: an environment has one/u) as string,
      details: { field: 'mode' },
    });
  });

  test('everything that a test is given can be printed, copied and compared', async () => {
    const { test, one, jobs, othersJobs } = setUp();
    const print = (value: unknown): void => {
      const given = value as object;
      expect(() => {
        inspect(given, { getters: true, depth: 9 });
        return JSON.stringify({ ...given });
      }).not.toThrow();
    };
    const lease = await jobs.acquire('nightly');
    for (const value of [test, one, jobs, lease]) print(value);
    expect(JSON.parse(JSON.stringify(lease))).toMatchObject({ leaseId: lease.leaseId });
    const attempt = await othersJobs.tryAcquire('nightly');
    const refusal = await othersJobs
      .acquire('nightly', { waitMs: 0 })
      .catch((error: unknown) => error);
    await test.revoke(lease);
    const { reason: lost } = lease.signal as { reason: unknown };

    for (const value of [attempt, refusal, lost]) print(value);
    expect({ ...one, keys: 'replaced' }.keys).toBe('replaced');
  });
});
