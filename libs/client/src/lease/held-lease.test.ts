import { LeaseError } from '@leasehold/keys-core';
import { describe, expect, test } from 'vitest';
import { settled } from '../double/index.ts';
import { setUpLeases } from '../testing/lease-setup.ts';
import { failureOf } from '../testing/outcomes.ts';
import { LeaseholdCallError, UnreachableError } from '../transport/errors.ts';
import { LeaseLost, LeaseRevoked, LeaseRevoking } from './lease.ts';

const TTL_MS = 12_000;
/** The holder's own deadline: the TTL less a sixth of it. */
const LOSE_AFTER_MS = 10_000;

const reasonOf = (signal: AbortSignal): unknown =>
  signal.reason instanceof LeaseLost ? signal.reason.reason : signal.reason;

function thrownBy(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  return 'nothing was thrown';
}

describe('a held lease', () => {
  test('is renewed for as long as it is held, with its token unchanged', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');

    await clock.advance(10 * TTL_MS);

    expect(lease.isHeld).toBe(true);
    expect(lease.signal.aborted).toBe(false);
    expect(wire.holderOf('k')).toBe('me');
    expect(new Set(wire.heartbeats.flat().map(({ fencingToken }) => fencingToken))).toEqual(
      new Set([lease.fencingToken]),
    );
  });

  test('is renewed in one call with all others that are due', async () => {
    const { clock, wire, define } = setUpLeases();
    const definition = define({ ttlMs: TTL_MS });
    await Promise.all(Array.from({ length: 50 }, (_, nth) => definition.acquire(String(nth))));

    await clock.advance(TTL_MS / 3);

    expect(wire.heartbeats.map((renewals) => renewals.length)).toEqual([50]);
  });

  test('has its own answer to a renewal, whatever the order of the answers, and is asked about again without one', async () => {
    const { clock, wire, define } = setUpLeases();
    const definition = define({ ttlMs: TTL_MS });
    const leases = [];
    for (const key of ['a', 'b', 'c']) leases.push(await definition.acquire(key));
    const heartbeat = wire.heartbeat.bind(wire);
    wire.heartbeat = async (renewals, ending) =>
      (await heartbeat(renewals, ending)).slice(1).reverse();
    wire.revoke('c');

    await clock.advance(TTL_MS / 3 + 100);
    const askedAgain = wire.heartbeats.slice(1).flat();

    expect(leases.map(({ signal }) => signal.aborted)).toEqual([false, false, true]);
    expect(leases.map((lease) => lease.remainingMs() > LOSE_AFTER_MS - 1_000)).toEqual([
      false,
      true,
      false,
    ]);
    expect(new Set(askedAgain.map(({ leaseId }) => leaseId))).toEqual(
      new Set([leases[0]?.leaseId]),
    );
  });

  test('I4 aborts its signal by its own deadline when no answers come any more', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    const deadlineMs = clock.nowMs() + LOSE_AFTER_MS;
    let abortedAtMs = Infinity;
    lease.signal.addEventListener('abort', () => (abortedAtMs = clock.nowMs()));
    wire.weather = 'silent';

    await clock.advance(TTL_MS);

    expect(abortedAtMs).toBeLessThanOrEqual(deadlineMs);
    expect(abortedAtMs).toBeGreaterThan(deadlineMs - 200);
    expect(reasonOf(lease.signal)).toBe('unreachable');
    expect(thrownBy(() => lease.assertHeld())).toBe(lease.signal.reason);
  });

  test('tells why it could not be renewed, where a controller has answered', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    const refusal = new LeaseholdCallError('auth.required', { message: 'The token was revoked.' });
    wire.heartbeat = () => Promise.reject(refusal);

    await clock.advance(TTL_MS);

    expect(lease.signal.reason).toMatchObject({
      reason: 'unreachable',
      message: expect.stringContaining('The token was revoked.') as string,
      cause: refusal,
    });
  });

  test('C16 has two more renewal tries before its deadline after a lost reply', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    wire.weather = 'silent';

    await clock.advance(LOSE_AFTER_MS - 200);

    expect(lease.isHeld).toBe(true);
    expect(wire.heartbeats.length).toBeGreaterThanOrEqual(3);
  });

  test('C16 survives a lost reply: the next try renews it', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    wire.weather = 'lose_reply';
    await clock.advance(TTL_MS / 3 + 50);
    wire.weather = 'fine';

    await clock.advance(3 * TTL_MS);

    expect(lease.isHeld).toBe(true);
  });

  test('C17b I8 is not changed by a late reply to an older renewal', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    const replies = holdReplies(wire);
    await clock.advance(TTL_MS / 3 + 2_000);
    expect(replies.length).toBeGreaterThanOrEqual(2);
    replies[1]?.();
    await settled();
    const remainingMs = lease.remainingMs();

    replies[0]?.();
    await settled();

    expect(lease.remainingMs()).toBe(remainingMs);
  });

  test('does not accept a deadline beyond its TTL, which must come from another clock', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    const heartbeat = wire.heartbeat.bind(wire);
    wire.heartbeat = async (renewals, signal) =>
      (await heartbeat(renewals, signal)).map((answer) =>
        answer.outcome === 'renewed'
          ? { ...answer, deadlines: { renewAtMs: 864_000_000, loseAtMs: 864_006_000 } }
          : answer,
      );

    await clock.advance(TTL_MS);

    expect(lease.signal.aborted).toBe(true);
  });

  test('C23 allows no guarded work when its holder wakes up after the deadline', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');

    clock.jump(2 * TTL_MS);

    // Before any timer has had its turn.
    expect(lease.isHeld).toBe(false);
    expect(thrownBy(() => lease.assertHeld())).toMatchObject({ code: 'lease.lost' });
    expect(reasonOf(lease.signal)).toBe('expired');
    expect(wire.holderOf('k')).toBeUndefined();
  });

  test('is unconfirmed after a gap, until the controller has answered again', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    clock.jump(3_000);
    expect(thrownBy(() => lease.assertHeld())).toMatchObject({ code: 'lease.unconfirmed' });
    expect(lease.signal.aborted).toBe(false);

    await lease.confirm();

    expect(wire.heartbeats).toHaveLength(1);
    expect(lease.isHeld).toBe(true);
  });

  test.each([
    ['10 % fast', 1.1],
    ['10 % slow', 1 / 1.1],
  ])('C24 is lost before the grant ends when the clock runs %s', async (_text, rate) => {
    const { clock, wire, define } = setUpLeases({
      // Also an hour apart: only differences between readings of one clock count.
      databaseNowMs: (localMs) => 3_600_000 + localMs / rate,
    });
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    await clock.advance(2 * TTL_MS);
    expect(lease.isHeld).toBe(true);
    wire.weather = 'silent';
    let holderAtAbort: string | undefined;
    lease.signal.addEventListener('abort', () => (holderAtAbort = wire.holderOf('k')));

    await clock.advance(TTL_MS);

    expect(lease.signal.aborted).toBe(true);
    expect(holderAtAbort).toBe('me');
  });

  test('C15 announces a blocked renewal, and ends at its deadline', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    wire.blockRenewal('k');

    await clock.advance(TTL_MS / 3 + 100);

    expect(lease.revoking.aborted).toBe(true);
    expect(lease.revoking.reason).toBeInstanceOf(LeaseRevoking);
    expect(lease.isHeld).toBe(true);
    await clock.advance(TTL_MS);
    expect(lease.signal.reason).toBeInstanceOf(LeaseRevoked);
  });

  test('goes on if its renewal is allowed again', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    wire.blockRenewal('k');
    await clock.advance(TTL_MS / 3 + 100);
    wire.blockRenewal('k', false);

    await clock.advance(3 * TTL_MS);

    expect(lease.isHeld).toBe(true);
  });

  test('aborts its signal at once when it is revoked, with the note of the operator', async () => {
    const { holdings, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');

    holdings.revoked({
      leaseId: lease.leaseId,
      kind: 'revoked',
      reason: 'maintenance',
      stopsByMs: 0,
    });

    expect(lease.signal.reason).toBeInstanceOf(LeaseRevoked);
    expect(lease.signal.reason).toMatchObject({ reason: 'revoked', note: 'maintenance' });
    expect(await lease.release()).toBe('revoked');
  });

  test.each([
    ['revoked', LeaseRevoked],
    ['revoking', LeaseRevoking],
  ] as const)('is %s also by a notice that comes before its grant does', async (kind, Told) => {
    const { wire, holdings, define } = setUpLeases();
    const acquire = wire.acquire.bind(wire);
    wire.acquire = async (...args) => {
      const answer = await acquire(...args);
      if (answer.outcome === 'granted') {
        const { leaseId } = answer.lease;
        holdings.revoked({ leaseId: 'of another process', kind, reason: null, stopsByMs: 0 });
        holdings.revoked({ leaseId, kind, reason: 'maintenance', stopsByMs: 0 });
      }
      return answer;
    };

    const told = await define({ ttlMs: TTL_MS })
      .acquire('k')
      .then(
        (lease) => lease.revoking.reason as unknown,
        (error: unknown) => error,
      );

    expect(told).toBeInstanceOf(Told);
    expect(told).toMatchObject({ note: 'maintenance' });
  });

  test('is not renewed when the session starts over, if it is not to be renewed', async () => {
    const { clock, wire, holdings, taker } = setUpLeases();
    const lease = await taker.acquire({
      scope: { face: 'environment', namespace: [], key: 'prod' },
      ttlMs: TTL_MS,
      holder: 'me',
      waitMs: 0,
      renews: false,
      signal: undefined,
    });

    holdings.recheck();
    await clock.advance(TTL_MS);

    expect(wire.heartbeats).toEqual([]);
    expect(lease.isHeld).toBe(false);
  });

  test('learns of a missed revocation when the session starts over', async () => {
    const { wire, holdings, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    wire.revoke('k');

    holdings.recheck();
    await settled();

    expect(lease.signal.reason).toBeInstanceOf(LeaseRevoked);
  });
});

describe('a release', () => {
  test('C45 leaves no timer, and the signal never aborts after it', async () => {
    const { clock, define, background } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');

    expect(await lease.release()).toBe('released');
    await background.idle();

    expect(clock.waitingCount).toBe(0);
    await clock.advance(3 * TTL_MS);
    expect(lease.signal.aborted).toBe(false);
    expect(thrownBy(() => lease.assertHeld())).toMatchObject({ reason: 'released' });
  });

  test('C27 is safe to repeat: the first call counts', async () => {
    const { define } = setUpLeases();
    const lease = await define().acquire('k');

    expect(await Promise.all([lease.release(), lease.release('failed')])).toEqual([
      'released',
      'released',
    ]);
  });

  test('C28 after loss it reports the loss and never hangs', async () => {
    const { clock, wire, define } = setUpLeases();
    const definition = define({ ttlMs: TTL_MS });
    const superseded = await definition.acquire('superseded');
    const cutOff = await definition.acquire('cut off');
    wire.weather = 'silent';
    await clock.advance(TTL_MS + 1_000);
    wire.weather = 'fine';
    await define({ ttlMs: TTL_MS }, 'other').acquire('superseded');

    expect(await superseded.release()).toBe('expired');
    expect(wire.holderOf('superseded')).toBe('other');

    wire.weather = 'silent';
    const report = cutOff.release();
    await clock.advance(5_100);
    expect(await report).toBe('unknown');
  });

  test('is sent again until it is answered, if its reply is lost', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    wire.weather = 'lose_request';
    const report = lease.release();
    await clock.advance(1_000);
    expect(wire.holderOf('k')).toBe('me');
    wire.weather = 'fine';

    await clock.advance(2_000);

    expect(await report).toBe('released');
    expect(wire.holderOf('k')).toBeUndefined();
  });

  test('is sent again if this process refuses it, because too many calls wait', async () => {
    const { clock, wire, define } = setUpLeases();
    const lease = await define({ ttlMs: TTL_MS }).acquire('k');
    const release = wire.release.bind(wire);
    wire.release = () => {
      wire.release = release;
      return Promise.reject(new LeaseError('request.rate_limited'));
    };
    const report = lease.release();
    await clock.advance(1_000);

    expect(await report).toBe('released');
    expect(wire.holderOf('k')).toBeUndefined();
  });

  test('happens at the end of an `await using` block', async () => {
    const { wire, define } = setUpLeases();
    {
      await using lease = await define().acquire('k');
      expect(wire.holderOf(lease.key)).toBe('me');
    }

    expect(wire.holderOf('k')).toBeUndefined();
  });
});

/** Holds back each reply to a renewal until the test lets it pass. */
function holdReplies(wire: ReturnType<typeof setUpLeases>['wire']): (() => void)[] {
  const releases: (() => void)[] = [];
  const heartbeat = wire.heartbeat.bind(wire);
  wire.heartbeat = async (renewals, signal) => {
    const answer = await heartbeat(renewals, signal);
    await new Promise<void>((resolve) => releases.push(resolve));
    return answer;
  };
  return releases;
}

describe('update', () => {
  const metadataOf = ({ wire }: ReturnType<typeof setUpLeases>) => wire.metadataOf('k');

  test('replaces the metadata, one after the other, and renews nothing', async () => {
    const setup = setUpLeases();
    const lease = await setup.define({ ttlMs: TTL_MS }).acquire('k', { metadata: { port: 1 } });
    expect(metadataOf(setup)).toEqual({ port: 1 });
    const expiresAtMs = setup.wire.expiresAtMs('k');

    await Promise.all([1, 2, 3].map((port) => lease.update({ metadata: { port } })));

    expect(metadataOf(setup)).toEqual({ port: 3 });
    expect(setup.wire.expiresAtMs('k')).toBe(expiresAtMs);
  });

  test('of a lease that is over fails with how it was lost, also if only the controller knows', async () => {
    const setup = setUpLeases();
    const define = setup.define({ ttlMs: TTL_MS });
    const lease = await define.acquire('k');
    setup.wire.revoke('k');

    await expect(lease.update({ metadata: 1 })).rejects.toMatchObject({
      code: 'lease.lost',
      reason: 'revoked',
    });
    expect(reasonOf(lease.signal)).toBe('revoked');
    const next = await define.acquire('k');
    await next.release();
    await expect(next.update({ metadata: 1 })).rejects.toMatchObject({
      code: 'lease.lost',
      reason: 'released',
    });
    expect(metadataOf(setup)).toBeUndefined();
  });

  test('without an answer is not sent again: it could undo a later one; one that never arrived is', async () => {
    const setup = setUpLeases();
    const lease = await setup.define({ ttlMs: TTL_MS }).acquire('k');
    setup.wire.weather = 'lose_reply';
    const unknown = expect(lease.update({ metadata: 'first' })).rejects.toMatchObject({
      code: 'request.outcome_unknown',
    });
    await setup.clock.advance(100);
    await unknown;
    setup.wire.weather = 'busy';
    const second = lease.update({ metadata: 'second' });
    await setup.clock.advance(50);
    expect(metadataOf(setup)).toBe('first');
    setup.wire.weather = 'fine';
    await setup.clock.advance(1_000);

    await second;
    expect(metadataOf(setup)).toBe('second');
    expect(lease.isHeld).toBe(true);
  });

  /** A lease of a client that has lost its connection. */
  async function setUpCutOff() {
    const setup = setUpLeases();
    const lease = await setup.define({ ttlMs: 60_000 }).acquire('k');
    setup.wire.weather = 'silent';
    setup.wire.isReachable = false;
    return { ...setup, lease };
  }

  test('whose try got no connection is sent again', async () => {
    const setup = await setUpCutOff();
    const { wire } = setup;
    const update = wire.update.bind(wire);
    wire.update = (...args) => {
      const tried = update(...args);
      wire.weather = 'fine';
      return tried;
    };
    const updated = setup.lease.update({ metadata: 'new' });
    await setup.clock.advance(6_000);

    await updated;
    expect(metadataOf(setup)).toBe('new');
  });

  test('that was never sent fails as unreachable, and not with an unknown outcome', async () => {
    const { clock, lease } = await setUpCutOff();
    const failure = failureOf(lease.update({ metadata: 'new' }));
    await clock.advance(11_000);

    expect(await failure).toBeInstanceOf(UnreachableError);
  });

  test.each([undefined, 5n, 'x'.repeat(17_000)])(
    'with %s is refused before it is sent',
    async (metadata) => {
      const { wire, define } = setUpLeases();
      const lease = await define({ ttlMs: TTL_MS }).acquire('k', { metadata: 'as it was' });

      await expect(lease.update({ metadata })).rejects.toMatchObject({ code: 'request.invalid' });
      expect(wire.metadataOf('k')).toBe('as it was');
      await lease.update({ metadata: null });
      expect(wire.metadataOf('k')).toBeNull();
    },
  );
});
