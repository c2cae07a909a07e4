import { describe, expect, test } from 'vitest';
import { aBackend, aDrone } from '../../testing/fleet-fixture.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { getBackend, listBackends, removeOldFleetRows } from './backends.ts';
import { listDrones } from './drones.ts';
import type { Store } from '../../postgres/open-store.ts';
import { encodeCursor } from '../../postgres/paging.ts';
import type { RetentionPass } from '../../postgres/retention-pass.ts';

const DAY_MS = 86_400_000;
/** So long that a busy machine does not make a drone of a test unreachable. */
const HEARTBEAT_MS = 60_000;

/** Fails the test where a kind cannot be removed. */
const aPass = ({ clock }: Pick<Store, 'clock'>): RetentionPass => ({
  clock,
  onFailure: (kind, error) => {
    throw new Error(kind, { cause: error });
  },
});

describe('backends and drones as operators see them', () => {
  test('pages through all backends, newest first, each once', async () => {
    const { store } = await openKernel();
    const made: string[] = [];
    for (let index = 0; index < 7; index += 1) {
      const { backendId } = await aBackend(store.general, {
        droneId: 'd1',
        ageMs: (7 - index) * 1_000,
      });
      made.unshift(backendId);
    }

    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await listBackends(store.general, { limit: 3, cursor }, null);
      seen.push(...page.items.map((item) => item.backendId));
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);

    expect(seen).toEqual(made);
  });

  test('a caller limited to a namespace sees it and its children, and none with a similar name', async () => {
    const { store } = await openKernel();
    const own = await aBackend(store.general, { droneId: 'd1', namespace: 'user' });
    const child = await aBackend(store.general, { droneId: 'd1', namespace: 'user.a' });
    const alike = await aBackend(store.general, { droneId: 'd1', namespace: 'user2' });

    const { items } = await listBackends(store.general, { limit: 10 }, ['user']);

    expect(new Set(items.map((item) => item.backendId))).toEqual(
      new Set([own.backendId, child.backendId]),
    );
    await expect(getBackend(store.general, alike.backendId, ['user'])).rejects.toMatchObject({
      code: 'backend.not_found',
    });
    expect((await getBackend(store.general, alike.backendId, null)).key.namespace).toBe('user2');
  });

  test.each([
    ['droneId', { droneId: 'd2' }],
    ['status', { status: 'waiting' }],
    ['namespace', { namespace: 'a' }],
    ['name', { name: 'other' }],
  ] as const)('filters by %s', async (_field, filter) => {
    const { store } = await openKernel();
    await aBackend(store.general, { droneId: 'd1' });
    const wanted = await aBackend(store.general, { droneId: 'd1', ...filter });

    const { items } = await listBackends(store.general, { ...filter, limit: 10 }, null);

    expect(items.map((item) => item.backendId)).toEqual([wanted.backendId]);
  });

  test('a backend shows where its output is, if its drone reported it', async () => {
    const { store } = await openKernel();
    const { droneId } = await aDrone(store.general, { logFolder: '/var/lib/drone/logs' });
    const told = await aBackend(store.general, { droneId });
    const untold = await aBackend(store.general, { droneId: 'of-an-older-version' });

    const { items } = await listBackends(store.general, { droneId, limit: 1 }, null);

    expect(items[0]?.logFiles).toBe(`/var/lib/drone/logs/${told.backendId}.*.log`);
    expect((await getBackend(store.general, untold.backendId, null)).logFiles).toBeNull();
  });

  test('refuses a cursor that no list has returned', async () => {
    const { store } = await openKernel();

    for (const cursor of [
      'nonsense',
      Buffer.from('["x"]').toString('base64url'),
      Buffer.from('["x","y"]').toString('base64url'),
    ]) {
      await expect(listBackends(store.general, { limit: 1, cursor }, null)).rejects.toMatchObject({
        code: 'request.invalid',
      });
    }
  });

  test('pages through drones by id, and filters by status and program', async () => {
    const { store } = await openKernel();
    for (const droneId of ['d3', 'd1', 'd2']) await aDrone(store.general, { droneId });
    await aDrone(store.general, { droneId: 'd4', heartbeatAgeMs: null, programs: [] });

    const first = await listDrones(store.general, { limit: 2 }, HEARTBEAT_MS);
    const second = await listDrones(
      store.general,
      { limit: 2, cursor: first.nextCursor ?? '' },
      HEARTBEAT_MS,
    );
    const stale = await listDrones(
      store.general,
      { limit: 9, status: 'unreachable' },
      HEARTBEAT_MS,
    );
    const rooms = await listDrones(store.general, { limit: 9, program: 'room' }, HEARTBEAT_MS);

    expect(first.items.map((drone) => drone.droneId)).toEqual(['d1', 'd2']);
    expect(second.items.map((drone) => drone.droneId)).toEqual(['d3', 'd4']);
    expect(second.nextCursor).toBeNull();
    expect(stale.items.map((drone) => drone.droneId)).toEqual(['d4']);
    expect(rooms.items.map((drone) => drone.droneId)).toEqual(['d1', 'd2', 'd3']);
  });

  test.each(['1', '2030-02-30T00:00:00.000Z', '0000-01-01T00:00:00.000Z'])(
    'a cursor that begins at %j is refused as an invalid request',
    async (createdAt) => {
      const { store } = await openKernel();

      await expect(
        listBackends(store.general, { limit: 1, cursor: encodeCursor([createdAt, 'b']) }, null),
      ).rejects.toMatchObject({ code: 'request.invalid' });
    },
  );

  test('retention removes a backlog that is more than one statement removes', async () => {
    const { store } = await openKernel();
    await store.general.$queryRaw`
      insert into audit (at, actor, role, action, resource)
      select clock_timestamp() - interval '31 days', 'ann', 'admin', 'a', 'r'
      from generate_series(1, 2500)
      returning id::text`;
    // The turn of a kind ends after a second.
    const standing = aPass({ clock: { ...store.clock, nowMs: () => 0 } });

    expect((await removeOldFleetRows(store.general, 30, standing)).audit).toBe(2_500);
  });

  test('retention removes what ended long ago, with its states, and nothing that lives', async () => {
    const { store } = await openKernel();
    const old = await aBackend(store.general, {
      droneId: 'd1',
      status: 'terminated',
      ageMs: 31 * DAY_MS,
    });
    const recent = await aBackend(store.general, {
      droneId: 'd1',
      status: 'terminated',
      ageMs: DAY_MS,
    });
    const living = await aBackend(store.general, { droneId: 'd1', ageMs: 31 * DAY_MS });
    await store.general.$queryRaw`
      insert into backend_state (backend_id, status) values (${old.backendId}, 'terminated') returning id::text`;

    const removed = await removeOldFleetRows(store.general, 30, aPass(store));

    const { items } = await listBackends(store.general, { limit: 10 }, null);
    expect(new Set(items.map((item) => item.backendId))).toEqual(
      new Set([recent.backendId, living.backendId]),
    );
    expect(removed.backends).toBe(1);
    const [states] = await store.general.$queryRaw<
      { left: number }[]
    >`select count(*)::int as left from backend_state`;
    expect(states?.left).toBe(0);
  });
});
