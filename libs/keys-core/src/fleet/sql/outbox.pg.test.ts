import { describe, expect, test } from 'vitest';
import { aDrone, anAction } from '../../testing/fleet-fixture.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { openSession } from './drone-sessions.ts';
import { acknowledgeAction, readOutboxes } from './outbox.ts';

describe('outbox', () => {
  test('holds back later actions of a backend until the earlier one is acknowledged, and no others', async () => {
    const { store } = await openKernel();
    const drone = await aDrone(store.general);
    const spawnA = await anAction(store.general, { ...drone, backendId: 'a' });
    const terminateA = await anAction(store.general, {
      ...drone,
      backendId: 'a',
      kind: 'terminate',
    });
    const spawnB = await anAction(store.general, { ...drone, backendId: 'b' });

    const [before] = await readOutboxes(store.general, [drone.droneId]);
    await acknowledgeAction(store.general, { ...drone, actionId: spawnA });
    const [after] = await readOutboxes(store.general, [drone.droneId]);

    expect(before?.actions.map((action) => action.actionId)).toEqual([spawnA, spawnB]);
    expect(after?.actions.map((action) => action.actionId)).toEqual([terminateA, spawnB]);
    expect(after?.actions[0]).toMatchObject({ kind: 'terminate', backendId: 'a' });
  });

  test('P-14 what one read cannot hold is not lost: the rest follows as the first are acknowledged', async () => {
    const { store } = await openKernel();
    const drone = await aDrone(store.general);
    const BACKENDS = 600;
    await store.general.$queryRaw`
      insert into backend_action (backend_id, drone_id, kind, payload)
      select 'bk-' || n, ${drone.droneId}, 'terminate', '{}'::jsonb
      from generate_series(1, ${BACKENDS}::int) n order by n returning id`;

    const reads: string[][] = [];
    for (;;) {
      const [outbox] = await readOutboxes(store.general, [drone.droneId]);
      const actions = outbox?.actions ?? [];
      if (actions.length === 0) break;
      reads.push(actions.map(({ backendId }) => backendId));
      for (const { actionId } of actions) {
        await acknowledgeAction(store.general, { ...drone, actionId });
      }
    }

    expect(reads.length).toBeGreaterThan(1);
    expect(reads.flat()).toEqual(
      Array.from({ length: BACKENDS }, (_, index) => `bk-${String(index + 1)}`),
    );
  });

  test('returns every registered drone with its newest session, and no other', async () => {
    const { store } = await openKernel();
    const one = await aDrone(store.general);
    const two = await aDrone(store.general);
    await openSession(store.general, {
      droneId: two.droneId,
      clockId: two.clockId,
      datacenter: 'local',
      programs: [],
      version: 'x',
      capacity: 1,
    });

    const outboxes = await readOutboxes(store.general, [one.droneId, two.droneId, 'nobody']);

    expect(new Map(outboxes.map((outbox) => [outbox.droneId, outbox.session]))).toEqual(
      new Map([
        [one.droneId, 1],
        [two.droneId, 2],
      ]),
    );
  });

  test('an acknowledgement counts once, for its own drone, from the newest session', async () => {
    const { store } = await openKernel();
    const drone = await aDrone(store.general);
    const other = await aDrone(store.general);
    const actionId = await anAction(store.general, { ...drone, backendId: 'a' });

    expect(await acknowledgeAction(store.general, { ...other, actionId })).toEqual({
      acknowledged: false,
    });
    expect(await acknowledgeAction(store.general, { ...drone, actionId })).toEqual({
      acknowledged: true,
    });
    expect(await acknowledgeAction(store.general, { ...drone, actionId })).toEqual({
      acknowledged: false,
    });
    await expect(
      acknowledgeAction(store.general, { ...drone, session: drone.session + 1, actionId }),
    ).rejects.toMatchObject({ code: 'session.superseded' });
  });

  test('a cancelled action is not sent', async () => {
    const { store } = await openKernel();
    const drone = await aDrone(store.general);
    const actionId = await anAction(store.general, { ...drone, backendId: 'a' });
    await store.general.$queryRaw`
      update backend_action set cancelled_at = clock_timestamp() where id = ${actionId}::bigint returning id`;

    const [outbox] = await readOutboxes(store.general, [drone.droneId]);

    expect(outbox?.actions).toEqual([]);
  });
});
