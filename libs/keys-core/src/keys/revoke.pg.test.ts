import { describe, expect, test } from 'vitest';
import { listAudit } from '../access/index.ts';
import { acknowledgeAction, readOutboxes } from '../fleet/sql/outbox.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { age, BY, UNAUDITED } from '../testing/kernel-fixture.ts';
import {
  actionsOf,
  CLIENT,
  connect,
  keyNamed,
  type Keys,
  openKeys,
  OPERATOR,
  reportOf,
  statesOf,
} from '../testing/keys-fixture.ts';
import { passingTime } from '../testing/passing-time.ts';

const FORCE = { mode: 'force', reason: 'it hangs', abandon: false } as const;
const GRACEFUL = { mode: 'graceful', reason: 'maintenance', abandon: false } as const;

async function openActions(
  { store }: Keys,
  droneId: string,
): Promise<{ kind: string; actionId: string }[]> {
  const [outbox] = await readOutboxes(store.general, [droneId]);
  return (outbox?.actions ?? []).map(({ kind, actionId }) => ({ kind, actionId }));
}

describe('revoke by force', () => {
  test('C50 between grant and start withdraws the spawn, and the drone is told never to start it', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId, leaseId } = await connect(on);

    const revoked = await on.keys.revoke({ leaseId, ...FORCE }, OPERATOR);

    expect(revoked.outcome).toBe('revoked');
    expect(await actionsOf(on, backendId)).toMatchObject([
      { kind: 'spawn', state: 'cancelled' },
      {
        kind: 'terminate',
        state: 'open',
        mode: 'hard',
        payload: { backendId, reason: 'revoked', clockId: drone.clockId },
      },
    ]);
    expect(await openActions(on, drone.droneId)).toMatchObject([{ kind: 'terminate' }]);
  });

  test('C50 leaves a spawn that was acknowledged in the history, and queues the terminate after it', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId, leaseId } = await connect(on);
    const [spawn] = await openActions(on, drone.droneId);
    await acknowledgeAction(on.store.general, { ...drone, actionId: spawn?.actionId ?? '' });

    await on.keys.revoke({ leaseId, ...FORCE }, OPERATOR);

    expect(await actionsOf(on, backendId)).toMatchObject([
      { kind: 'spawn', state: 'acked' },
      { kind: 'terminate', state: 'open' },
    ]);
  });

  test('C34 the late holder is refused, and the key is not granted again until the backend’s end is reported', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const old = await connect(on);
    await on.keys.report(reportOf(drone, old.backendId, 'ready'));
    const { stopsBy } = await on.keys.revoke({ leaseId: old.leaseId, ...FORCE }, OPERATOR);

    const renewal = await on.keys.renew({ ...drone, localTimeMs: 1_000, renewals: [old] });
    expect(renewal).toEqual([{ leaseId: old.leaseId, outcome: 'refused', reason: 'revoked' }]);
    const view = await on.keys.get(keyNamed('demo'), CLIENT);
    expect(view).toMatchObject({ phase: 'expiring', expiresAt: stopsBy });
    await expect(connect(on)).rejects.toMatchObject({ code: 'key.terminating' });

    expect(
      await on.keys.report(reportOf(drone, old.backendId, 'terminated', { reason: 'revoked' })),
    ).toBe('recorded');
    const next = await connect(on);

    expect(next).toMatchObject({ spawned: true });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(old.fencingToken) + 1n);
  });

  test('I5 without a report from the drone the key is granted again once its last deadline has passed', async () => {
    // On a clock that stands still, the test knows how much of the time is left.
    const { databaseUrl, clock } = await passingTime();
    const on = await openKeys({ databaseUrl, clock });
    await aDrone(on.store.general);
    const old = await connect(on);
    await on.keys.revoke({ leaseId: old.leaseId, ...FORCE }, OPERATOR);
    await age(on, old.leaseId, 59_000);
    await expect(connect(on)).rejects.toMatchObject({ code: 'key.terminating' });

    await age(on, old.leaseId, 1_000);

    expect(await connect(on)).toMatchObject({ spawned: true });
    expect((await statesOf(on, old.backendId)).now).toBe('terminated drone_lost');
  });

  test('a key that was ended by force can be abandoned afterwards', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const old = await connect(on);
    await on.keys.revoke({ leaseId: old.leaseId, ...FORCE }, OPERATOR);
    await expect(connect(on)).rejects.toMatchObject({ code: 'key.terminating' });

    const abandoned = await on.keys.revoke(
      { leaseId: old.leaseId, ...FORCE, abandon: true },
      OPERATOR,
    );
    const again = await on.keys.revoke({ leaseId: old.leaseId, ...FORCE, abandon: true }, OPERATOR);

    expect([abandoned.outcome, again.outcome]).toEqual(['revoked', 'gone']);
    expect(await connect(on)).toMatchObject({ spawned: true });
  });

  test('with abandon the key is free at once, and a late report of the old backend does not affect the new one', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const old = await connect(on);
    await on.keys.report(reportOf(drone, old.backendId, 'ready'));
    const revoked = await on.keys.revoke(
      { leaseId: old.leaseId, ...FORCE, abandon: true },
      OPERATOR,
    );

    const next = await connect(on);
    const late = await on.keys.report(reportOf(drone, old.backendId, 'terminated'));

    expect(revoked).toMatchObject({
      outcome: 'revoked',
      stopsBy: expect.any(String) as string,
    });
    expect(next.spawned).toBe(true);
    expect(late).toBe('ignored');
    expect(await connect(on)).toMatchObject({ backendId: next.backendId, spawned: false });
    expect(await openActions(on, drone.droneId)).toMatchObject([
      { kind: 'terminate' },
      { kind: 'spawn' },
    ]);
  });

  test('that cannot be recorded is not done: the backend is not told to stop, and its key is renewed', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { leaseId, fencingToken, backendId } = await connect(on);
    const entry = { ...UNAUDITED, action: 'keys.revoke' } as const;

    await expect(on.keys.revoke({ leaseId, ...FORCE }, OPERATOR, entry)).rejects.toThrow();

    expect(await actionsOf(on, backendId)).toMatchObject([{ kind: 'spawn', state: 'open' }]);
    expect(
      await on.keys.renew({ ...drone, localTimeMs: 0, renewals: [{ leaseId, fencingToken }] }),
    ).toMatchObject([{ outcome: 'renewed' }]);
  });

  test('of a key that is abandoned afterwards is in the audit for each', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { leaseId, backendId } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'ready'));
    const entry = { ...BY, action: 'keys.revoke' } as const;

    for (const abandon of [false, false, true, true]) {
      await on.keys.revoke({ leaseId, ...FORCE, abandon }, OPERATOR, entry);
    }

    const { items } = await listAudit(on.store.reads, { limit: 10, resource: `lease:${leaseId}` });
    const granted = { mode: 'force', face: 'key', namespace: '', name: 'demo' };
    expect(items).toMatchObject([
      { ...entry, reason: FORCE.reason, detail: { ...granted, abandon: true } },
      { ...entry, reason: FORCE.reason, detail: { ...granted, abandon: false } },
    ]);
  });

  test('of a key whose grant has ended is answered gone, and writes nothing', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const { leaseId, backendId } = await connect(on);
    await age(on, leaseId, 60_000);

    const revoked = await on.keys.revoke({ leaseId, ...FORCE }, OPERATOR);

    expect(revoked).toEqual({ outcome: 'gone', stopsBy: null });
    expect(await actionsOf(on, backendId)).toMatchObject([{ kind: 'spawn', state: 'open' }]);
  });
});

describe('revoke gracefully', () => {
  test('blocks renewal and tells the drone to stop the backend softly; the key is free when it has', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId, leaseId, fencingToken } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'ready'));

    const revoked = await on.keys.revoke({ leaseId, ...GRACEFUL }, OPERATOR);

    expect(revoked).toMatchObject({ outcome: 'revoking' });
    expect(await openActions(on, drone.droneId)).toMatchObject([{ kind: 'terminate' }]);
    expect((await actionsOf(on, backendId)).at(-1)).toMatchObject({ mode: 'soft' });
    expect(
      await on.keys.renew({ ...drone, localTimeMs: 0, renewals: [{ leaseId, fencingToken }] }),
    ).toMatchObject([{ outcome: 'refused', reason: 'renewal_blocked' }]);
    await expect(connect(on)).rejects.toMatchObject({ code: 'key.terminating' });
    await on.keys.report(reportOf(drone, backendId, 'terminated', { reason: 'revoked' }));
    expect(await connect(on)).toMatchObject({ spawned: true });
  });

  test('an operator limited to other namespaces finds nothing to revoke, block or terminate', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const { leaseId, backendId } = await connect(on, {
      key: { name: 'k', namespace: 'user2', tag: '' },
    });
    const limited = { ...OPERATOR, namespaces: ['user'] };

    expect(await on.keys.revoke({ leaseId, ...FORCE }, limited)).toEqual({
      outcome: 'gone',
      stopsBy: null,
    });
    expect(await on.keys.blockRenewal({ leaseId }, limited)).toMatchObject({ changed: false });
    await expect(on.keys.terminate({ backendId, mode: 'hard' }, limited, BY)).rejects.toMatchObject(
      {
        code: 'backend.not_found',
      },
    );
    expect(await actionsOf(on, backendId)).toHaveLength(1);
  });
});

describe('terminate', () => {
  test('queues one soft and one hard stop, however often it is called, and the drone keeps the key', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId, leaseId, fencingToken } = await connect(on);
    for (const mode of ['soft', 'soft', 'hard', 'hard', 'soft'] as const) {
      expect(await on.keys.terminate({ backendId, mode }, OPERATOR, BY)).toEqual({
        outcome: 'terminating',
      });
    }

    const queued = await actionsOf(on, backendId);

    expect(queued.map(({ kind, mode, state }) => [kind, mode, state])).toEqual([
      ['spawn', null, 'open'],
      ['terminate', 'soft', 'open'],
      ['terminate', 'hard', 'open'],
    ]);
    expect(
      await on.keys.renew({ ...drone, localTimeMs: 0, renewals: [{ leaseId, fencingToken }] }),
    ).toMatchObject([{ outcome: 'renewed' }]);
  });

  test('is in the audit, and is not done when it cannot be', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const { backendId } = await connect(on);
    const act = { backendId, mode: 'soft', reason: 'it hangs' } as const;

    await expect(on.keys.terminate(act, OPERATOR, UNAUDITED)).rejects.toThrow();
    expect(await actionsOf(on, backendId)).toHaveLength(1);
    await on.keys.terminate(act, OPERATOR, BY);

    expect(await actionsOf(on, backendId)).toHaveLength(2);
    expect(await on.store.general.$queryRaw`select * from audit`).toMatchObject([
      {
        ...BY,
        action: 'backends.terminate',
        resource: `backend:${backendId}`,
        reason: act.reason,
        detail: { mode: 'soft' },
      },
    ]);
  });

  test('of an unknown backend is an error; of an ended one it does nothing', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'terminated'));

    await expect(
      on.keys.terminate({ backendId: 'bk-none', mode: 'soft' }, OPERATOR, BY),
    ).rejects.toMatchObject({
      code: 'backend.not_found',
    });
    expect(await on.keys.terminate({ backendId, mode: 'soft' }, OPERATOR, BY)).toEqual({
      outcome: 'gone',
    });

    expect(await openActions(on, drone.droneId)).toEqual([]);
  });
});
