import { describe, expect, test } from 'vitest';
import { HEARTBEAT_MS, KEY_LADDERS, serviceLadder } from '../kernel/ladder.ts';
import { createKeyService, createReaper } from '../keys/index.ts';
import type { KeyService } from '../keys/key-types.ts';
import {
  age,
  aRequest,
  eventsOf,
  granted,
  openKernel,
  releaseOf,
  renewalOf,
} from '../testing/kernel-fixture.ts';
import { type Keys, openKeys } from '../testing/keys-fixture.ts';
import { revoke, setRenewable } from './sql/revoke.ts';

const OPERATOR = { actor: 'op', reason: 'because', namespaces: null };

/** Two controllers on one database, in the middle of a change from the ladder `standard` to `fast`. */
async function rolledChange(): Promise<{ on: Keys; rolled: KeyService }> {
  const on = await openKeys();
  const rolled = createKeyService({
    store: on.store,
    leases: on.leases,
    ladder: KEY_LADDERS.fast,
    heartbeatMs: HEARTBEAT_MS.fast,
    chooseDrone: () => Promise.resolve({ problem: 'no_drone' }),
  });
  return { on, rolled };
}

describe('renew', () => {
  test('C12 extends the grant by its ladder, and others stay refused', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel, { ladder: serviceLadder(10_000) });
    await age(kernel, grant.leaseId, 9_000);

    const outcome = await kernel.leases.renew('lease', renewalOf(grant));

    expect(outcome).toMatchObject({ outcome: 'renewed', ladder: serviceLadder(10_000) });
    expect(outcome.outcome === 'renewed' && outcome.remainingMs).toBeGreaterThan(9_500);
    expect(await kernel.leases.grant(aRequest())).toMatchObject({ outcome: 'held' });
    expect(await eventsOf(kernel, 'thing')).toHaveLength(1);
  });

  test('C13 a taken-over grant is refused, with its own end as the reason', async () => {
    const kernel = await openKernel();
    const old = await granted(kernel);
    await age(kernel, old.leaseId, 60_000);
    await granted(kernel, { holder: 'bob' });

    expect(await kernel.leases.renew('lease', renewalOf(old))).toMatchObject({
      outcome: 'refused',
      reason: 'expired',
    });
  });

  test('C14 I6 an expired grant that nobody took is refused permanently', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);
    await age(kernel, grant.leaseId, 60_000);

    expect(await kernel.leases.renew('lease', renewalOf(grant))).toMatchObject({
      reason: 'expired',
    });
    await age(kernel, grant.leaseId, -60_000);
    expect(await kernel.leases.renew('lease', renewalOf(grant))).toMatchObject({
      reason: 'expired',
    });
  });

  test('C15 C33 a blocked renewal gets an explicit answer; blocking reports whether it changed anything', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);
    const block = () =>
      setRenewable(kernel.store.general, 'lease', false, [{ ...OPERATOR, leaseId: grant.leaseId }]);

    const first = await block();
    const second = await block();
    const blocked = await kernel.leases.renew('lease', renewalOf(grant));
    await setRenewable(kernel.store.general, 'lease', true, [
      { ...OPERATOR, leaseId: grant.leaseId },
    ]);
    const allowed = await kernel.leases.renew('lease', renewalOf(grant));

    expect([first.size, second.size]).toEqual([1, 0]);
    expect(blocked).toMatchObject({ outcome: 'refused', reason: 'renewal_blocked' });
    expect(allowed).toMatchObject({ outcome: 'renewed' });
    expect(await eventsOf(kernel, 'thing')).toEqual([
      `granted ${grant.fencingToken}`,
      `renewal_blocked ${grant.fencingToken}`,
      `renewal_allowed ${grant.fencingToken}`,
    ]);
  });

  test('I6 needs the principal, the token and the face of the grant', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);

    const answers = await Promise.all([
      kernel.leases.renew('lease', renewalOf(grant, { principal: 'token-b' })),
      kernel.leases.renew('key', renewalOf(grant)),
      kernel.leases.renew('environment', renewalOf(grant)),
    ]);
    const wrongToken = await kernel.leases.renew('lease', renewalOf(grant, { fencingToken: '1' }));

    expect(answers.map((answer) => answer.outcome === 'refused' && answer.reason)).toEqual([
      'not_found',
      'not_found',
      'not_found',
    ]);
    expect(wrongToken).toMatchObject({ reason: 'superseded' });
  });

  test('answers released, revoked and not_found for grants that are over or never existed', async () => {
    const kernel = await openKernel();
    const released = await granted(kernel, { name: 'a' });
    await kernel.leases.release('lease', releaseOf(released));
    const revoked = await granted(kernel, { name: 'b' });
    await revoke(kernel.store.general, 'lease', [
      { ...OPERATOR, leaseId: revoked.leaseId, mode: 'force', abandon: false },
    ]);
    const before = await Promise.all(
      [released, revoked].map((grant) => kernel.leases.renew('lease', renewalOf(grant))),
    );
    await granted(kernel, { name: 'a' });
    await granted(kernel, { name: 'b' });

    const after = await Promise.all(
      [released, revoked].map((grant) => kernel.leases.renew('lease', renewalOf(grant))),
    );
    const unknown = await kernel.leases.renew(
      'lease',
      renewalOf(aRequest() as never, { fencingToken: '1' }),
    );

    expect(before.map((answer) => answer.outcome === 'refused' && answer.reason)).toEqual([
      'released',
      'revoked',
    ]);
    expect(after.map((answer) => answer.outcome === 'refused' && answer.reason)).toEqual([
      'released',
      'revoked',
    ]);
    expect(unknown).toMatchObject({ reason: 'not_found' });
  });

  test('C64 a renewal by a controller with another ladder, whose reply is lost, prolongs the grant by its own ladder', async () => {
    const { on, rolled } = await rolledChange();
    const grant = await granted(on, { face: 'key', principal: 'd1', ladder: KEY_LADDERS.standard });
    await age(on, grant.leaseId, 30_000);

    const lost = await rolled.renew({ droneId: 'd1', localTimeMs: 0, renewals: [grant] });

    // The drone goes on with the deadlines that it had, and they are before the expiry.
    const held = await on.leases.grant(aRequest({ face: 'key' }));
    if (held.outcome !== 'held') throw new Error(held.outcome);
    const { asOf, expiresAt } = held.by;
    expect(lost).toMatchObject([{ outcome: 'renewed' }]);
    expect(expiresAt - asOf).toBeCloseTo(KEY_LADDERS.standard.ttlMs, -4);
    expect(expiresAt).toBeGreaterThan(grant.grantedAt - 30_000 + KEY_LADDERS.standard.hardAfterMs);
  });

  test('C64 the same renewal, sent again after the lost reply, is answered with the ladder of the grant by either controller', async () => {
    const { on, rolled } = await rolledChange();
    const grant = await granted(on, { face: 'key', principal: 'd1', ladder: KEY_LADDERS.standard });
    const again = { droneId: 'd1', localTimeMs: 1_000_000, renewals: [grant] };
    await rolled.renew({ ...again, localTimeMs: 0 });

    const answers = [...(await rolled.renew(again)), ...(await on.keys.renew(again))];

    const { renewAfterMs, softAfterMs, hardAfterMs } = KEY_LADDERS.standard;
    const near = (afterMs: number): number => expect.closeTo(1_000_000 + afterMs, -4) as number;
    const deadlines = {
      renewAtMs: near(renewAfterMs),
      softTerminateAtMs: near(softAfterMs),
      hardTerminateAtMs: near(hardAfterMs),
    };
    expect(answers).toMatchObject([
      { outcome: 'renewed', deadlines },
      { outcome: 'renewed', deadlines },
    ]);
  });
});

describe('release', () => {
  test('C26 C27 frees at once, twice is safe', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);

    expect(await kernel.leases.release('lease', releaseOf(grant))).toBe('released');
    expect(await kernel.leases.release('lease', releaseOf(grant))).toBe('already_released');
    const next = await granted(kernel, { holder: 'bob' });
    expect(await kernel.leases.release('lease', releaseOf(grant))).toBe('already_released');
    expect(await kernel.leases.renew('lease', renewalOf(next))).toMatchObject({
      outcome: 'renewed',
    });
  });

  test('C20 a stale holder’s release leaves the new holder intact', async () => {
    const kernel = await openKernel();
    const stale = await granted(kernel);
    await age(kernel, stale.leaseId, 60_000);
    const next = await granted(kernel, { holder: 'bob' });

    expect(await kernel.leases.release('lease', releaseOf(stale))).toBe('expired');

    expect(await kernel.leases.renew('lease', renewalOf(next))).toMatchObject({
      outcome: 'renewed',
    });
    expect(await kernel.leases.grant(aRequest())).toMatchObject({
      outcome: 'held',
      by: { holder: 'bob' },
    });
  });

  test('C28 of a lost grant reports the loss, records it and changes nothing else', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);
    await age(kernel, grant.leaseId, 60_000);

    expect(await kernel.leases.release('lease', releaseOf(grant))).toBe('expired');
    expect(await eventsOf(kernel, 'thing')).toEqual([
      `granted ${grant.fencingToken}`,
      `expired ${grant.fencingToken}`,
    ]);
  });

  test('C57 another face, another principal and a wrong token release nothing', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel, { face: 'key' });

    expect(await kernel.leases.release('lease', releaseOf(grant))).toBe('not_found');
    expect(await kernel.leases.release('key', releaseOf(grant, { principal: 'token-b' }))).toBe(
      'not_found',
    );
    expect(await kernel.leases.release('key', releaseOf(grant, { fencingToken: '1' }))).toBe(
      'superseded',
    );
    expect(await kernel.leases.renew('key', renewalOf(grant))).toMatchObject({
      outcome: 'renewed',
    });
  });

  test('with a failure is an event of its own', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);

    await kernel.leases.release(
      'lease',
      releaseOf(grant, { result: 'failed', detail: 'out of milk' }),
    );

    expect(await eventsOf(kernel, 'thing')).toEqual([
      `granted ${grant.fencingToken}`,
      `failed ${grant.fencingToken}`,
    ]);
  });
});

describe('revoke', () => {
  test('C34 by force fences the late holder, and its event has a greater token that a sink can be given', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);

    await revoke(kernel.store.general, 'lease', [
      { ...OPERATOR, leaseId: grant.leaseId, mode: 'force', abandon: false },
    ]);

    expect(await kernel.leases.renew('lease', renewalOf(grant))).toMatchObject({
      reason: 'revoked',
    });
    expect(await kernel.leases.release('lease', releaseOf(grant))).toBe('revoked');
    expect(await eventsOf(kernel, 'thing')).toEqual([
      `granted ${grant.fencingToken}`,
      `revoked ${String(BigInt(grant.fencingToken) + 1n)}`,
    ]);
    const next = await granted(kernel, { holder: 'bob' });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(grant.fencingToken) + 1n);
  });

  test('I5 by force frees a key only when its backend must be gone, unless it is abandoned', async () => {
    const kernel = await openKernel();
    const kept = await granted(kernel, { face: 'key', name: 'kept' });
    const abandoned = await granted(kernel, { face: 'key', name: 'abandoned' });
    await revoke(kernel.store.general, 'key', [
      { ...OPERATOR, leaseId: kept.leaseId, mode: 'force', abandon: false },
      { ...OPERATOR, leaseId: abandoned.leaseId, mode: 'force', abandon: true },
    ]);

    const early = await kernel.leases.grant(aRequest({ face: 'key', name: 'kept' }));
    const atOnce = await kernel.leases.grant(aRequest({ face: 'key', name: 'abandoned' }));
    await age(kernel, kept.leaseId, 60_000);
    const late = await kernel.leases.grant(aRequest({ face: 'key', name: 'kept' }));

    expect([early.outcome, atOnce.outcome, late.outcome]).toEqual(['held', 'granted', 'granted']);
  });

  test('graceful blocks renewal and leaves the grant to run out', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);

    const revoked = await revoke(kernel.store.general, 'lease', [
      { ...OPERATOR, leaseId: grant.leaseId, mode: 'graceful', abandon: false },
    ]);

    expect(revoked.get(grant.leaseId)?.stopsBy).toBe(grant.expiresAt);
    expect(await kernel.leases.renew('lease', renewalOf(grant))).toMatchObject({
      reason: 'renewal_blocked',
    });
    expect(await kernel.leases.release('lease', releaseOf(grant))).toBe('released');
  });

  test('by an operator limited to other namespaces changes nothing', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel, { namespace: 'user2' });
    const limited = { ...OPERATOR, leaseId: grant.leaseId, namespaces: ['user'] };

    const revoked = await revoke(kernel.store.general, 'lease', [
      { ...limited, mode: 'force', abandon: false },
    ]);
    const blocked = await setRenewable(kernel.store.general, 'lease', false, [limited]);

    expect([revoked.size, blocked.size]).toEqual([0, 0]);
    expect(await kernel.leases.renew('lease', renewalOf(grant))).toMatchObject({
      outcome: 'renewed',
    });
  });
});

describe('reap', () => {
  test('I11 two reapers and a racing renewal never end a live grant, and write one event each', async () => {
    const kernel = await openKernel();
    const grants = await Promise.all(
      Array.from({ length: 300 }, (_, index) => granted(kernel, { name: `n${String(index)}` })),
    );
    for (const [index, grant] of grants.entries()) {
      if (index % 2 === 0) await age(kernel, grant.leaseId, 60_000);
    }
    const reapers = [createReaper(kernel.store), createReaper(kernel.store)];

    const [renewals] = await Promise.all([
      Promise.all(grants.map((grant) => kernel.leases.renew('lease', renewalOf(grant)))),
      ...reapers.flatMap((reaper) => [reaper.runOnce(), reaper.runOnce()]),
    ]);

    expect(renewals.map((answer) => answer.outcome === 'renewed')).toEqual(
      grants.map((_, index) => index % 2 === 1),
    );
    const [events] = await kernel.store.general.$queryRaw<{ all: number; distinct: number }[]>`
      select count(*)::int as all, count(distinct lease_id)::int as distinct
      from lease_event where kind = 'expired'`;
    expect(events).toEqual({ all: 150, distinct: 150 });
  });
});
