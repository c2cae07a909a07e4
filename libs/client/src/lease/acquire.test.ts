import { describe, expect, test } from 'vitest';
import { settled } from '../double/index.ts';
import { declaredAtOnce, setUpLeases } from '../testing/lease-setup.ts';
import { LeaseholdCallError, OutcomeUnknownError, UnreachableError } from '../transport/errors.ts';
import { createLeaseDefinition } from './lease-definition.ts';
import { LeaseHeldError, LeaseSelfDeadlockError, LeaseWaitTimeoutError } from './lease.ts';

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );

/** A controller that grants nothing new for so much longer, so long after its begin. */
function setUpHeldOff(remainingMsAfter: (passedMs: number) => number) {
  const set = setUpLeases();
  const { clock, wire } = set;
  const beganAtMs = clock.nowMs();
  const acquire = wire.acquire.bind(wire);
  const refused: { readonly atMs: number; readonly idempotencyKey: string }[] = [];
  wire.acquire = (request, waitMs, ending) => {
    const atMs = clock.nowMs() - beganAtMs;
    const remainingMs = remainingMsAfter(atMs);
    if (remainingMs <= 0) return acquire(request, waitMs, ending);
    refused.push({ atMs, idempotencyKey: request.idempotencyKey });
    const details = { reason: 'restored', remainingMs };
    return Promise.reject(new LeaseholdCallError('grant.hold_off', { details }));
  };
  return { ...set, refused };
}

describe('acquire', () => {
  test('C30 a refused caller learns the holder', async () => {
    const { define } = setUpLeases();
    await define({}, 'alice').acquire('k');

    const error = await failureOf(define({}, 'bob').acquire('k'));

    expect(error).toBeInstanceOf(LeaseHeldError);
    expect(error).toMatchObject({ code: 'lease.held', by: 'alice', remainingMs: 30_000 });
  });

  test('a wait without success ends with an error of its own', async () => {
    const { define } = setUpLeases();
    await define({}, 'alice').acquire('k');

    expect(await failureOf(define({}, 'bob').acquire('k', { waitMs: 10 }))).toBeInstanceOf(
      LeaseWaitTimeoutError,
    );
  });

  test('tryAcquire returns its outcome as a value', async () => {
    const { define } = setUpLeases();
    await using granted = await define({}, 'alice').tryAcquire('k');
    await using refused = await define({}, 'bob').tryAcquire('k');

    expect(granted.outcome).toBe('granted');
    expect(refused).toMatchObject({ outcome: 'held', by: 'alice' });
  });

  test('F18 a lost reply neither leaks nor doubles a grant', async () => {
    const { clock, wire, define } = setUpLeases();
    wire.weather = 'lose_reply';
    const acquired = define().acquire('k');
    await clock.advance(200);
    wire.weather = 'fine';
    await clock.advance(1_000);

    const lease = await acquired;

    expect(wire.grantsCount).toBe(1);
    expect(new Set(wire.acquires.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    expect(wire.acquires.length).toBeGreaterThan(1);
    await lease.release();
    expect(wire.holderOf('k')).toBeUndefined();
  });

  test("C48 the deadlines of a replayed answer are never later than the grant's", async () => {
    const { clock, wire, define } = setUpLeases();
    wire.weather = 'lose_reply';
    const acquired = define({ ttlMs: 12_000 }).acquire('k');
    await clock.advance(5_000);
    wire.weather = 'fine';
    await clock.advance(2_500);

    const lease = await acquired;

    expect(clock.nowMs() + lease.remainingMs()).toBeLessThan(wire.expiresAtMs('k'));
  });

  test('F18 a caller that gives up although it was granted leaves no grant behind', async () => {
    const { clock, wire, define } = setUpLeases();
    wire.weather = 'lose_reply';
    const giveUp = new AbortController();
    const failure = failureOf(define().acquire('k', { signal: giveUp.signal }));
    await settled();
    wire.weather = 'silent';
    giveUp.abort(new Error('enough'));

    expect(await failure).toMatchObject({ message: 'enough' });
    expect(wire.holderOf('k')).toBe('me');
    wire.weather = 'fine';
    await clock.advance(3_000);
    expect(wire.holderOf('k')).toBeUndefined();
  });

  test('without an answer in time the outcome is unknown, and the attempt is given up', async () => {
    const { clock, wire, define } = setUpLeases();
    wire.weather = 'lose_reply';
    const failure = failureOf(define().acquire('k'));
    await clock.advance(13_000);

    expect(await failure).toBeInstanceOf(OutcomeUnknownError);
    wire.weather = 'fine';
    await clock.advance(3_000);
    expect(wire.holderOf('k')).toBeUndefined();
  });

  test('fails as unreachable, and not with an unknown outcome, if there never was a connection', async () => {
    const { clock, wire, define, background } = setUpLeases();
    wire.weather = 'silent';
    wire.isReachable = false;
    const failure = failureOf(define().acquire('k'));
    await clock.advance(16_000);

    expect(await failure).toBeInstanceOf(UnreachableError);
    // The call still waits for a connection somewhere, so it is given up as soon as there is one.
    wire.weather = 'fine';
    await clock.advance(5_000);
    await background.idle();
    expect(wire.holderOf('k')).toBeUndefined();
    expect(clock.waitingCount).toBe(0);
  });

  test('a hold-off that ends within the wait is outwaited by the same request, which is sent again now and then', async () => {
    const { clock, wire, define, refused } = setUpHeldOff((passedMs) => 30_000 - passedMs);
    const acquired = define().acquire('k', { waitMs: 3_600_000 });
    await clock.advance(33_000);

    const lease = await acquired;

    const keys = [...refused, ...wire.acquires].map(({ idempotencyKey }) => idempotencyKey);
    expect(lease.isHeld).toBe(true);
    expect(new Set(keys).size).toBe(1);
    expect(refused.length).toBeLessThan(50);
  });

  test('those who ask together wait until a hold-off is over, too', async () => {
    const { clock, define } = setUpHeldOff((passedMs) => 30_000 - passedMs);
    const leases = define();
    const acquired = ['a', 'b', 'c'].map((key) => leases.acquire(key, { waitMs: 3_600_000 }));
    const short = failureOf(leases.acquire('d', { waitMs: 10_000 }));
    await clock.advance(33_000);

    expect((await Promise.all(acquired)).map(({ isHeld }) => isHeld)).toEqual([true, true, true]);
    expect(await short).toMatchObject({ code: 'grant.hold_off' });
  });

  test('a hold-off that outlasts the wait is reported as soon as that is known', async () => {
    const { clock, define, refused } = setUpHeldOff(() => 30_000);

    const atOnce = await failureOf(define().acquire('short', { waitMs: 30_000 }));
    const withoutWait = await failureOf(define().acquire('now'));
    const atOnceMs = refused.map(({ atMs }) => atMs);
    const later = failureOf(define().acquire('long', { waitMs: 40_000 }));
    await clock.advance(12_000);

    const told = { code: 'grant.hold_off', details: { remainingMs: 30_000 } };
    expect([atOnce, withoutWait, await later]).toMatchObject([told, told, told]);
    expect(atOnceMs).toEqual([0, 0]);
    expect(refused.at(-1)?.atMs).toBeGreaterThanOrEqual(10_000);
    expect(clock.waitingCount).toBe(0);
  });

  test('a lease that is held is asked for and waited for in one call; one that is free needs no other call', async () => {
    const { wire, define } = setUpLeases();
    await define({}, 'alice').acquire('held');
    wire.acquires.length = 0;

    await failureOf(define({}, 'bob').acquire('held', { waitMs: 5_000 }));
    await define({}, 'bob').acquire('free', { waitMs: 5_000 });

    expect(wire.acquires.map(({ key }) => key)).toEqual(['held', 'free']);
    expect(wire.heartbeats).toEqual([]);
  });

  test('a place in line is kept by calls that wait, also at the end, and given up if its caller fails', async () => {
    const { clock, wire, taker, define, background } = setUpLeases();
    await define({}, 'alice').acquire('k');
    const waits: number[] = [];
    const acquire = wire.acquire.bind(wire);
    wire.acquire = async (request, waitMs, ending) => {
      const answer = await acquire(request, waitMs, ending);
      waits.push(waitMs);
      if (waits.length % 2 === 0 || answer.outcome !== 'held') return answer;
      clock.jump(6_000);
      return { ...answer, outcome: 'waiting', place: 1, frozen: null };
    };
    const givenUp: string[] = [];
    wire.giveUp = ({ idempotencyKey }) => Promise.resolve(void givenUp.push(idempotencyKey));
    const intent = {
      scope: { face: 'lease', namespace: ['user', 'update'], key: 'k' },
      ttlMs: 30_000,
      holder: 'bob',
      waitMs: 5_000,
      renews: true,
      signal: undefined,
    } as const;

    const timeout = await failureOf(taker.acquire(intent));
    const onWaiting = (): void => {
      throw new Error('cannot show it');
    };
    const failure = await failureOf(taker.acquire({ ...intent, onWaiting }));
    await background.idle();

    expect(timeout).toBeInstanceOf(LeaseWaitTimeoutError);
    // By all its calls together.
    expect(timeout).toMatchObject({ heldBy: { waitedMs: 6_000 } });
    expect(failure).toMatchObject({ message: 'cannot show it' });
    expect(waits).toEqual([5_000, 1, 5_000]);
    expect(givenUp).toEqual([wire.acquires.at(-1)?.idempotencyKey]);
  });

  test('many that are asked for at once are asked for together before their callers wait', async () => {
    const { wire, define } = setUpLeases();
    const waits: number[] = [];
    const acquire = wire.acquire.bind(wire);
    wire.acquire = (request, waitMs, ending) => {
      waits.push(waitMs);
      return acquire(request, waitMs, ending);
    };

    await Promise.all(['a', 'b', 'c'].map((key) => define().acquire(key, { waitMs: 5_000 })));

    expect(waits).toEqual([5_000, 0, 0]);
  });

  test('a lease whose answer took long is renewed once before it is handed out', async () => {
    const { clock, wire, define } = setUpLeases();
    const acquire = wire.acquire.bind(wire);
    let answer = (): void => undefined;
    wire.acquire = async (...args) => {
      const granted = await acquire(...args);
      await new Promise<void>((resolve) => (answer = resolve));
      return granted;
    };
    const acquired = define({ ttlMs: 12_000 }).acquire('k', { waitMs: 5_000 });
    await clock.advance(2_500);
    answer();
    await clock.advance(100);
    const lease = await acquired;

    expect(wire.heartbeats).toHaveLength(1);
    expect(lease.isHeld).toBe(true);
  });

  test('C10 an invalid name is refused before anything is sent', async () => {
    const { wire, define } = setUpLeases();

    expect(await failureOf(define().acquire(''))).toMatchObject({ code: 'request.invalid' });
    expect(await failureOf(define().acquire('\0'))).toMatchObject({ code: 'request.invalid' });
    expect(wire.acquires).toEqual([]);
  });
});

describe('work in the context of a lease', () => {
  test('fails at once with lease.self_deadlock if it would wait for its own lease', async () => {
    const { define } = setUpLeases();
    const definition = define({ waitMs: 5_000 });

    const error = await definition.run('k', () => failureOf(definition.acquire('k')));

    expect(error).toBeInstanceOf(LeaseSelfDeadlockError);
    expect(error).toMatchObject({ code: 'lease.self_deadlock' });
  });

  test('does not confuse two leases whose joined namespace and key are the same text', async () => {
    const { taker, wire } = setUpLeases();
    const waits = { waitMs: 5_000 };
    const outer = createLeaseDefinition(
      taker,
      'me',
      { namespace: ['user', 'a/b'], ...waits },
      declaredAtOnce,
    );
    const inner = createLeaseDefinition(
      taker,
      'me',
      { namespace: ['user', 'a'], ...waits },
      declaredAtOnce,
    );

    const lease = await outer.run('k', () => inner.acquire('b/k'));

    expect(wire.acquires.map(({ key }) => key)).toEqual(['k', 'b/k']);
    expect(lease.isHeld).toBe(true);
  });

  test('may acquire another key, and try the same key without waiting', async () => {
    const { define } = setUpLeases();
    const definition = define({ waitMs: 5_000 });

    await definition.run('k', async () => {
      await using other = await definition.acquire('other');
      expect(other.isHeld).toBe(true);
      await using same = await definition.tryAcquire('k');
      expect(same.outcome).toBe('held');
    });
  });

  test('run releases the lease with the outcome of the work, and throws its error', async () => {
    const { wire, define } = setUpLeases();
    const released: unknown[] = [];
    const release = wire.release.bind(wire);
    wire.release = (request, signal) => {
      released.push([request.result, request.detail]);
      return release(request, signal);
    };
    const failed = define().run('k', () => Promise.reject(new Error('broken')));

    await expect(failed).rejects.toThrow('broken');
    expect(await define().run('k', (lease) => lease.key)).toBe('k');
    expect(released).toEqual([
      ['failed', 'broken'],
      ['ok', undefined],
    ]);
  });

  test('run fails with lease.lost if the lease was lost before the work was done', async () => {
    const { clock, wire, define } = setUpLeases();
    let finish = (): void => undefined;
    const done = failureOf(
      define({ ttlMs: 12_000 }).run('k', () => new Promise<void>((resolve) => (finish = resolve))),
    );
    await settled();
    wire.weather = 'silent';
    await clock.advance(12_000);
    wire.weather = 'fine';
    finish();
    await clock.advance(100);

    expect(await done).toMatchObject({ code: 'lease.lost', reason: 'unreachable' });
  });

  test('a nested lease is cancelled when the outer one is lost', async () => {
    const { holdings, define } = setUpLeases();
    const outer = await define().acquire('outer');
    const inner = await outer.run(() => define().acquire('inner'));
    holdings.revoked({ leaseId: outer.leaseId, kind: 'revoked', reason: null, stopsByMs: 0 });

    expect(inner.signal.reason).toBe(outer.signal.reason);
    expect(inner.isHeld).toBe(false);
    expect(() => inner.assertHeld()).toThrow(outer.signal.reason as Error);
    expect(await inner.release()).toBe('released');
  });

  test('a nested lease that nobody releases is renewed no more once the outer one is lost', async () => {
    const { clock, wire, holdings, define } = setUpLeases();
    const ttlMs = 12_000;
    const outer = await define({ ttlMs }).acquire('outer');
    const inner = await outer.run(() => define({ ttlMs }).acquire('inner'));
    holdings.revoked({ leaseId: outer.leaseId, kind: 'revoked', reason: null, stopsByMs: 0 });

    holdings.recheck();
    await clock.advance(2 * ttlMs);

    expect(wire.heartbeats).toEqual([]);
    expect(wire.holderOf('inner')).toBeUndefined();
    expect(inner.signal.reason).toBe(outer.signal.reason);
    expect(clock.waitingCount).toBe(0);
  });

  test('a nested wait is given up when the outer lease is lost', async () => {
    const { wire, holdings, define } = setUpLeases();
    const outer = await define().acquire('outer');
    wire.weather = 'silent';
    const waiting = outer.run(() => failureOf(define().acquire('inner', { waitMs: 60_000 })));
    await settled();

    holdings.revoked({ leaseId: outer.leaseId, kind: 'revoked', reason: null, stopsByMs: 0 });

    expect(await waiting).toBe(outer.signal.reason);
  });

  test('C45 a release of the outer lease leaves the nested one alone', async () => {
    const { clock, define } = setUpLeases();
    const outer = await define().acquire('outer');
    const inner = await outer.run(() => define().acquire('inner'));
    await outer.release();
    await clock.advance(60_000);

    expect(inner.isHeld).toBe(true);
  });
});
