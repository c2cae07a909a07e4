import { describe, expect, test } from 'vitest';
import { aBackend, aDrone, anAction } from '../../testing/fleet-fixture.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { openSession, recordGoodbye, recordHeartbeat } from './drone-sessions.ts';
import {
  countDrones,
  getDrone,
  readDroneGroups,
  removeDrone,
  setLost,
  chooseDrone,
  readOfferedPrograms,
} from './drones.ts';

/** So long that a busy machine does not make a drone of a test unreachable. */
const HEARTBEAT_MS = 60_000;
const LONG_AGO_MS = 10 * HEARTBEAT_MS;
const CHOICE = {
  program: 'room',
  args: [],
  env: {},
  datacenter: 'local',
  heartbeatMs: HEARTBEAT_MS,
  random: () => 0,
};

type Kernel = Awaited<ReturnType<typeof openKernel>>;

const statusOf = async ({ store }: Kernel, droneId: string): Promise<string> =>
  (await getDrone(store.general, droneId, HEARTBEAT_MS)).status;

/** The heartbeats of all drones are as old as if they had stopped long ago. */
const age = ({ store }: Kernel): Promise<unknown> =>
  store.general.$executeRaw`
    update drone set heartbeat_at = heartbeat_at - ${LONG_AGO_MS} * interval '1 millisecond',
      registered_at = registered_at - ${LONG_AGO_MS} * interval '1 millisecond'`;

const end = ({ store }: Kernel, backendId: string): Promise<unknown> =>
  store.general.$executeRaw`
    update backend set status = 'terminated', status_rank = 7 where id = ${backendId}`;

describe('a drone that has said goodbye', () => {
  test('drains until its backends have ended, and is stopped from then on, however long', async () => {
    const on = await openKernel();
    const { store } = on;
    const ref = await aDrone(store.general);
    const { backendId } = await aBackend(store.general, ref);

    await recordGoodbye(store.general, ref);
    expect(await statusOf(on, ref.droneId)).toBe('draining');
    await recordHeartbeat(store.general, { ...ref, localTimeMs: 2_000, load: { backends: 1 } });
    expect(await statusOf(on, ref.droneId)).toBe('draining');
    await end(on, backendId);
    expect(await statusOf(on, ref.droneId)).toBe('stopped');
    await age(on);

    expect(await getDrone(store.general, ref.droneId, HEARTBEAT_MS)).toMatchObject({
      status: 'stopped',
      draining: false,
      isConnected: false,
      backendCount: 0,
      stoppedAt: expect.stringMatching(/Z$/u) as string,
    });
    expect((await readDroneGroups(store.guests, HEARTBEAT_MS)).unreachable.count).toBe(0);
    expect(await countDrones(store.general, HEARTBEAT_MS)).toMatchObject({
      stopped: 1,
      unreachable: 0,
      ready: 0,
    });
  });

  test('is unreachable while it is silent and a backend of it may run: that needs a person', async () => {
    const on = await openKernel();
    const ref = await aDrone(on.store.general);
    await aBackend(on.store.general, ref);
    await recordGoodbye(on.store.general, ref);
    await age(on);

    expect(await statusOf(on, ref.droneId)).toBe('unreachable');
  });

  test('is given nothing, whether or not its heartbeats still come', async () => {
    const { store } = await openKernel();
    const ref = await aDrone(store.general);
    await recordGoodbye(store.general, ref);
    await recordHeartbeat(store.general, { ...ref, localTimeMs: 2_000, load: { backends: 0 } });

    expect(await chooseDrone(store, CHOICE)).toEqual({ problem: 'no_drone' });
    expect(await readOfferedPrograms(store.general, CHOICE)).toEqual([]);
  });

  test('is back with its next session, which says nothing about the last one', async () => {
    const on = await openKernel();
    const { store } = on;
    const ref = await aDrone(store.general);
    await recordGoodbye(store.general, ref);

    const request = { ...ref, datacenter: 'local', programs: [], version: 'test', capacity: 1 };
    const session = await openSession(store.general, request);
    await recordHeartbeat(store.general, { ...ref, session, localTimeMs: 3_000, load: {} });

    expect(await getDrone(store.general, ref.droneId, HEARTBEAT_MS)).toMatchObject({
      status: 'ready',
      stoppedAt: null,
      isConnected: true,
    });
  });

  test('in an older session, or with another clock, changes nothing: an agent that was replaced stops nobody', async () => {
    const on = await openKernel();
    const { store } = on;
    const ref = await aDrone(store.general);
    const request = { ...ref, datacenter: 'local', programs: [], version: 'test', capacity: 1 };
    const session = await openSession(store.general, request);
    const superseded = { code: 'session.superseded' };

    await expect(recordGoodbye(store.general, ref)).rejects.toMatchObject(superseded);
    const otherClock = { ...ref, session, clockId: '00000000-0000-4000-8000-000000000000' };
    await expect(recordGoodbye(store.general, otherClock)).rejects.toMatchObject(superseded);

    expect(await statusOf(on, ref.droneId)).toBe('ready');
  });

  test('and an operator has called lost stays lost', async () => {
    const on = await openKernel();
    const ref = await aDrone(on.store.general);
    await recordGoodbye(on.store.general, ref);
    await setLost(on.store.general, ref.droneId);

    expect(await statusOf(on, ref.droneId)).toBe('lost');
  });
});

describe('removing a drone', () => {
  test.each([
    ['is connected', {}, 0],
    ['is connected and has backends', {}, 1],
    ['is silent and has backends that may run', { heartbeatAgeMs: LONG_AGO_MS }, 1],
  ])('is refused while it %s, and says why', async (_how, change, backendCount) => {
    const on = await openKernel();
    const { store } = on;
    const ref = await aDrone(store.general, change);
    if (backendCount > 0) await aBackend(store.general, ref);

    const isConnected = !('heartbeatAgeMs' in change);
    await expect(removeDrone(store.general, ref.droneId, HEARTBEAT_MS)).rejects.toMatchObject({
      code: 'drone.in_use',
      details: { isConnected, backendCount },
      message: expect.stringMatching(isConnected ? /stop it first/u : /keys expire/u) as string,
    });

    expect(await statusOf(on, ref.droneId)).toBe(isConnected ? 'ready' : 'unreachable');
  });

  test.each([
    [
      'stopped',
      (on: Kernel, ref: Parameters<typeof recordGoodbye>[1]) =>
        recordGoodbye(on.store.general, ref),
    ],
    ['silent', (on: Kernel) => age(on)],
    ['lost', (on: Kernel, { droneId }: { droneId: string }) => setLost(on.store.general, droneId)],
  ])(
    'forgets one that is %s with its open actions; its ended backends keep its id',
    async (_how, leave) => {
      const on = await openKernel();
      const { store } = on;
      const ref = await aDrone(store.general);
      const { backendId } = await aBackend(store.general, { ...ref, status: 'terminated' });
      await anAction(store.general, { ...ref, backendId, kind: 'terminate' });
      await leave(on, ref);

      expect(await removeDrone(store.general, ref.droneId, HEARTBEAT_MS)).toEqual({ tokens: [] });

      const gone = { code: 'drone.not_found' };
      await expect(getDrone(store.general, ref.droneId, HEARTBEAT_MS)).rejects.toMatchObject(gone);
      await expect(removeDrone(store.general, ref.droneId, HEARTBEAT_MS)).rejects.toMatchObject(
        gone,
      );
      await expect(
        recordHeartbeat(store.general, { ...ref, localTimeMs: 9, load: {} }),
      ).rejects.toMatchObject({ code: 'session.superseded' });
      const [row] = await store.general.$queryRaw<{ droneId: string; open: number }[]>`
      select b.drone_id as "droneId", (
        select count(*)::int from backend_action a where a.acked_at is null and a.cancelled_at is null
      ) as open
      from backend b where b.id = ${backendId}`;
      expect(row).toEqual({ droneId: ref.droneId, open: 0 });
    },
  );

  test('the same id comes back as a new drone, neither drained nor lost', async () => {
    const on = await openKernel();
    const { store } = on;
    const ref = await aDrone(store.general);
    await setLost(store.general, ref.droneId);
    await removeDrone(store.general, ref.droneId, HEARTBEAT_MS);

    await aDrone(store.general, { droneId: ref.droneId });

    expect(await getDrone(store.general, ref.droneId, HEARTBEAT_MS)).toMatchObject({
      status: 'ready',
      draining: false,
      lostAt: null,
      session: 1,
    });
  });
});
