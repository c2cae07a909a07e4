import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { getBackend } from '../fleet/sql/backends.ts';
import { openSession } from '../fleet/sql/drone-sessions.ts';
import { setDraining } from '../fleet/sql/drones.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { age, eventsOf } from '../testing/kernel-fixture.ts';
import {
  actionsOf,
  ageHeartbeat,
  CLIENT,
  connect,
  type Keys,
  keyNamed,
  openKeys,
  OPERATOR,
  reportOf,
  statesOf,
} from '../testing/keys-fixture.ts';
import { createReaper } from './index.ts';

function overstaysOf({ observed }: Keys): string[] {
  return observed.filter((one) => one.startsWith('overstay'));
}

describe('report', () => {
  test('of the image of a container is kept with its backend, and later reports do not remove it', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);

    await on.keys.report(reportOf(drone, backendId, 'loading', { image: 'room:1' }));
    await on.keys.report(reportOf(drone, backendId, 'starting'));

    expect(await getBackend(on.store.general, backendId, null)).toMatchObject({
      status: 'starting',
      image: 'room:1',
    });
  });

  test('C26 terminated releases the backend’s own key in the same transaction, and the next connect spawns', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const old = await connect(on);

    await on.keys.report(
      reportOf(drone, old.backendId, 'terminated', { reason: 'exited', exitCode: 3 }),
    );

    expect(await eventsOf(on, 'demo')).toEqual([
      `granted ${old.fencingToken}`,
      `failed ${old.fencingToken}`,
    ]);
    const [newest] = (await on.keys.history({ ...keyNamed('demo'), limit: 1 }, CLIENT)).items;
    expect(newest).toMatchObject({
      kind: 'failed',
      actor: `drone:${drone.droneId}`,
      reason: 'it crashed with exit code 3',
    });
    expect(await connect(on)).toMatchObject({ spawned: true });
  });

  test('C20 of a backend whose key was taken over frees nothing, and is kept as history', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const old = await connect(on);
    await age(on, old.leaseId, 60_000);
    const next = await connect(on);

    const late = await on.keys.report(
      reportOf(drone, old.backendId, 'terminated', { reason: 'key_expired' }),
    );

    expect(late).toBe('ignored');
    expect(await statesOf(on, old.backendId)).toEqual({
      states: ['scheduled', 'terminated drone_lost', 'terminated key_expired'],
      now: 'terminated drone_lost',
    });
    expect(await connect(on)).toMatchObject({ backendId: next.backendId, spawned: false });
  });

  test('that a backend recorded as lost is alive is answered with kill', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const old = await connect(on);
    await age(on, old.leaseId, 60_000);
    await connect(on);

    expect(await on.keys.report(reportOf(drone, old.backendId, 'ready'))).toBe('kill');

    expect((await statesOf(on, old.backendId)).now).toBe('terminated drone_lost');
  });

  test('of a refused spawn frees the key while the backend is scheduled, and never later', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const refused = await connect(on);
    const running = await connect(on, { key: keyNamed('running') });
    await on.keys.report(reportOf(drone, running.backendId, 'loading'));
    const refusal = { refused: true, reason: 'internal' } as const;

    const answers = [
      await on.keys.report(reportOf(drone, refused.backendId, 'terminated', refusal)),
      await on.keys.report(reportOf(drone, running.backendId, 'terminated', refusal)),
    ];

    expect(answers).toEqual(['recorded', 'ignored']);
    expect(await connect(on)).toMatchObject({ spawned: true });
    expect(await connect(on, { key: keyNamed('running') })).toMatchObject({
      backendId: running.backendId,
    });
  });

  test('of a refused spawn is shown with its reason, in the backend and in the history of its key', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);

    const refusal = { refused: true, reason: 'internal', detail: 'the drone is full' } as const;
    await on.keys.report(reportOf(drone, backendId, 'terminated', refusal));

    expect((await statesOf(on, backendId)).now).toBe('terminated refused');
    const [newest] = (await on.keys.history({ ...keyNamed('demo'), limit: 1 }, CLIENT)).items;
    expect(newest).toMatchObject({
      kind: 'released',
      reason: 'its drone refused to start it: the drone is full',
    });
  });

  test('of a refused spawn has its drone chosen last for the next ones', async () => {
    const on = await openKeys();
    const first = await aDrone(on.store.general);
    const second = await aDrone(on.store.general);
    const { backendId, droneId } = await connect(on);
    const drone = droneId === first.droneId ? first : second;
    const refusal = { refused: true, reason: 'internal' } as const;
    await on.keys.report(reportOf(drone, backendId, 'terminated', refusal));
    const chosen = async (name: string) => (await connect(on, { key: keyNamed(name) })).droneId;

    const next = [await chosen('a'), await chosen('b'), await chosen('c')];
    const [other = ''] = next;
    await setDraining(on.store.general, other, true);

    expect(next).toEqual([other, other, other]);
    expect(other).not.toBe(droneId);
    expect(await chosen('d')).toBe(droneId);
  });

  test('C32 moves states only forward; a late or repeated report moves nothing', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    const said = [];
    for (const status of [
      'loading',
      'ready',
      'starting',
      'ready',
      'terminating',
      'ready',
      'terminated',
      'terminated',
    ] as const) {
      said.push(await on.keys.report(reportOf(drone, backendId, status)));
    }

    expect(said).toEqual([
      'recorded',
      'recorded',
      'ignored',
      'ignored',
      'recorded',
      'ignored',
      'recorded',
      'ignored',
    ]);
    expect(await statesOf(on, backendId)).toEqual({
      states: ['scheduled', 'loading', 'ready', 'starting', 'terminating', 'terminated'],
      now: 'terminated',
    });
  });

  test('acknowledges the spawn: any report on a backend shows that its drone has received it', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);

    await on.keys.report(reportOf(drone, backendId, 'loading'));

    expect(await actionsOf(on, backendId)).toMatchObject([{ kind: 'spawn', state: 'acked' }]);
  });

  test('of an older session, of another clock and of another drone changes nothing', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const stranger = await aDrone(on.store.general, { capacity: 0 });
    const { backendId } = await connect(on);
    const session = await openSession(on.store.general, {
      ...drone,
      datacenter: 'local',
      programs: [],
      version: 'test',
      capacity: 1,
    });

    await expect(on.keys.report(reportOf(drone, backendId, 'terminated'))).rejects.toMatchObject({
      code: 'session.superseded',
    });
    const ofOtherClock = on.keys.report(
      reportOf({ ...drone, session, clockId: randomUUID() }, backendId, 'terminated'),
    );
    await expect(ofOtherClock).rejects.toMatchObject({ code: 'session.superseded' });
    await expect(on.keys.report(reportOf(stranger, backendId, 'terminated'))).rejects.toMatchObject(
      {
        code: 'backend.not_found',
      },
    );

    expect((await statesOf(on, backendId)).now).toBe('scheduled');
    expect(await on.keys.report(reportOf({ ...drone, session }, backendId, 'ready'))).toBe(
      'recorded',
    );
  });

  test('of an agent of the same id on another machine makes no backend ready', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    const other = { ...drone, clockId: randomUUID() };
    const session = await openSession(on.store.general, {
      ...other,
      datacenter: 'local',
      programs: [],
      version: 'test',
      capacity: 1,
    });

    const answer = await on.keys.report(
      reportOf({ ...other, session }, backendId, 'ready', { address: '127.0.0.1:1' }),
    );

    expect(answer).toBe('ignored');
    expect((await statesOf(on, backendId)).now).toBe('scheduled');
  });

  test('of an agent of the same id on another machine ends no backend that may run, and frees no key', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const loading = await connect(on, { key: keyNamed('loading') });
    const confirmed = await connect(on, { key: keyNamed('confirmed') });
    const unconfirmed = await connect(on, { key: keyNamed('unconfirmed') });
    await on.keys.report(reportOf(drone, loading.backendId, 'loading'));
    const { leaseId, fencingToken } = confirmed;
    await on.keys.renew({ ...drone, localTimeMs: 1_000, renewals: [{ leaseId, fencingToken }] });
    const other = { ...drone, clockId: randomUUID() };
    const session = await openSession(on.store.general, {
      ...other,
      datacenter: 'local',
      programs: [{ name: 'room', allowArgs: false, allowEnv: [] }],
      version: 'test',
      capacity: 10,
    });
    const refusal = { refused: true, reason: 'internal' } as const;

    const answers = await Promise.all([
      on.keys.report(
        reportOf({ ...other, session }, loading.backendId, 'terminated', { reason: 'external' }),
      ),
      on.keys.report(reportOf({ ...other, session }, confirmed.backendId, 'terminated', refusal)),
      on.keys.report(reportOf({ ...other, session }, unconfirmed.backendId, 'terminated', refusal)),
    ]);

    expect(answers).toEqual(['ignored', 'ignored', 'recorded']);
    expect((await statesOf(on, loading.backendId)).now).toBe('loading');
    expect(await on.keys.get(keyNamed('confirmed'), CLIENT)).toMatchObject({ phase: 'held' });
    expect(await on.keys.get(keyNamed('unconfirmed'), CLIENT)).toMatchObject({ phase: 'free' });
  });

  test('counts a backend that was still stopping when its key had run out', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId, leaseId } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'terminating'));
    await age(on, leaseId, 60_000);
    const late = reportOf(drone, backendId, 'terminated', { hasOutlivedKey: true });

    await on.keys.report(late);
    await on.keys.report(late);

    expect(overstaysOf(on)).toEqual([`overstay ${backendId}`]);
    expect((await eventsOf(on, 'demo')).at(-1)).toMatch(/^expired /u);
  });

  test('counts a backend that was still stopping when its key had run out also if another took the key meanwhile', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId, leaseId } = await connect(on);
    await age(on, leaseId, 60_000);
    await connect(on);
    const late = reportOf(drone, backendId, 'terminated', {
      reason: 'key_expired',
      hasOutlivedKey: true,
    });

    await on.keys.report(late);
    await on.keys.report(late);

    expect(overstaysOf(on)).toEqual([`overstay ${backendId}`]);
  });

  test('counts no backend that ended in time, however late its drone can report it', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId, leaseId } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'ready'));
    await age(on, leaseId, 60_000);

    await on.keys.report(reportOf(drone, backendId, 'terminated', { reason: 'key_expired' }));

    expect(overstaysOf(on)).toEqual([]);
    expect((await statesOf(on, backendId)).now).toBe('terminated key_expired');
  });
});

describe('a backend whose key has run out', () => {
  test('is recorded as lost by the reaper, its unsent spawn withdrawn, and its key is free', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId, leaseId } = await connect(on);
    await ageHeartbeat(on, drone.droneId, 60_000);
    await age(on, leaseId, 60_000);

    await createReaper(on.store).runOnce();
    await createReaper(on.store).runOnce();

    expect(await statesOf(on, backendId)).toEqual({
      states: ['scheduled', 'terminated drone_lost'],
      now: 'terminated drone_lost',
    });
    expect(await actionsOf(on, backendId)).toMatchObject([{ kind: 'spawn', state: 'cancelled' }]);
    expect(await on.keys.get(keyNamed('demo'), CLIENT)).toMatchObject({ phase: 'expired' });
  });

  test('I16 is recorded as lost also when a refused renewal ended the key and no report followed', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId, leaseId, fencingToken } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'ready'));
    await age(on, leaseId, 60_000);
    const [answer] = await on.keys.renew({
      ...drone,
      localTimeMs: 0,
      renewals: [{ leaseId, fencingToken }],
    });

    await createReaper(on.store).runOnce();

    expect(answer).toMatchObject({ outcome: 'refused', reason: 'expired' });
    expect((await statesOf(on, backendId)).now).toBe('terminated drone_lost');
  });

  test('I16 is recorded as lost also when the key was ended by force and its drone never reported', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const { backendId, leaseId } = await connect(on);
    await on.keys.revoke({ leaseId, mode: 'force', reason: 'it hangs', abandon: false }, OPERATOR);
    const reaper = createReaper(on.store);
    await reaper.runOnce();
    const before = await statesOf(on, backendId);
    await age(on, leaseId, 60_000);

    await reaper.runOnce();

    expect([before.now, (await statesOf(on, backendId)).now]).toEqual([
      'scheduled',
      'terminated drone_lost',
    ]);
  });
});
