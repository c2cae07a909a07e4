import { describe, expect, test } from 'vitest';
import { aBackend, aDrone } from '../../testing/fleet-fixture.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import type { BackendSort } from '../../kernel/backends.ts';
import type { DroneSort } from '../../kernel/drones.ts';
import { getBackend, listBackends } from './backends.ts';
import { recordHeartbeat, type SessionRef } from './drone-sessions.ts';
import { getDrone, listDrones } from './drones.ts';

/** So long that a busy machine does not make a drone of a test unreachable. */
const HEARTBEAT_MS = 60_000;
const GIB = 2 ** 30;
const MACHINE = {
  cpuShare: 0.25,
  processors: 8,
  memoryUsedBytes: GIB,
  memoryBytes: 4 * GIB,
  diskUsedBytes: 10 * GIB,
  diskBytes: 100 * GIB,
};

type Kernel = Awaited<ReturnType<typeof openKernel>>;

const beat = (
  { store }: Kernel,
  ref: SessionRef,
  { machine, usage }: { machine?: object; usage?: Parameters<typeof recordHeartbeat>[1]['usage'] },
): Promise<unknown> =>
  recordHeartbeat(store.vital, {
    ...ref,
    localTimeMs: 2_000,
    usage,
    load: { backends: 1, ...(machine && { machine }) },
  });

/** All pages of a list, one row each: the ids in their order. */
async function paged(
  read: (cursor: string | undefined) => Promise<{ items: unknown[]; nextCursor: string | null }>,
  id: string,
): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    ids.push(...page.items.map((item) => (item as Record<string, string>)[id] ?? ''));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return ids;
}

describe('the load of a drone', () => {
  test('is what its last heartbeat reported, while it is connected; an earlier version reports none', async () => {
    const on = await openKernel();
    const { store } = on;
    const ref = await aDrone(store.general);
    const seen = async () => (await getDrone(store.general, ref.droneId, HEARTBEAT_MS)).machine;
    expect(await seen()).toBeNull();

    await beat(on, ref, { machine: MACHINE });
    expect(await seen()).toEqual(MACHINE);
    await store.general.$executeRaw`
      update drone set heartbeat_at = heartbeat_at - interval '10 minutes'`;

    expect(await seen()).toBeNull();
  });

  test('counts the backends of each program that have not terminated', async () => {
    const { store } = await openKernel();
    const { droneId } = await aDrone(store.general);
    const of = async () => (await getDrone(store.general, droneId, HEARTBEAT_MS)).programBackends;
    expect(await of()).toEqual({});

    await aBackend(store.general, { droneId });
    await aBackend(store.general, { droneId, status: 'terminating' });
    await aBackend(store.general, { droneId, status: 'terminated' });

    expect(await of()).toEqual({ room: 2 });
  });

  test.each<[DroneSort, string[]]>([
    ['droneId', ['calm', 'full', 'silent']],
    ['backends', ['full', 'silent', 'calm']],
    ['cpu', ['calm', 'full', 'silent']],
    ['memory', ['full', 'calm', 'silent']],
    ['disk', ['full', 'calm', 'silent']],
  ])('sorts drones by %s, in both directions, page after page', async (sort, expected) => {
    const on = await openKernel();
    const { store } = on;
    const [calm, full] = [
      await aDrone(store.general, { droneId: 'calm' }),
      await aDrone(store.general, { droneId: 'full' }),
    ];
    await aDrone(store.general, { droneId: 'silent' });
    await beat(on, calm, { machine: { ...MACHINE, cpuShare: 0.9 } });
    // Less memory in all, and more of it in use.
    const memory = { memoryUsedBytes: 900, memoryBytes: 1_000 };
    await beat(on, full, { machine: { ...MACHINE, ...memory, diskUsedBytes: 99 * GIB } });
    await aBackend(store.general, full);
    await aBackend(store.general, full);
    await aBackend(store.general, { droneId: 'silent' });
    const by = (direction?: 'asc' | 'desc') =>
      paged(
        (cursor) => listDrones(store.general, { sort, direction, cursor, limit: 1 }, HEARTBEAT_MS),
        'droneId',
      );

    expect(await by()).toEqual(expected);
    expect(await by(sort === 'droneId' ? 'desc' : 'asc')).toEqual(expected.toReversed());
  });
});

describe('what backends use', () => {
  test('is shown of those that run, as long as it is fresh, and not written again without it', async () => {
    const on = await openKernel();
    const { store } = on;
    const ref = await aDrone(store.general);
    const { backendId } = await aBackend(store.general, ref);
    const ended = await aBackend(store.general, { ...ref, status: 'terminated' });
    const use = { memoryBytes: 7 * GIB, cpus: 1.5 };
    const of = async (id = backendId) => (await getBackend(store.general, id, null)).usage;
    expect(await of()).toBeNull();

    const usage = [
      { backendId, ...use },
      { ...ended, ...use },
    ];
    await beat(on, ref, { usage });
    const writtenAt = await usageAt(on);
    await beat(on, ref, {});

    expect(await of()).toEqual(use);
    expect((await listBackends(store.general, { live: true, limit: 9 }, null)).items).toMatchObject(
      [{ backendId, usage: use }],
    );
    expect(await of(ended.backendId)).toBeNull();
    expect(await usageAt(on)).toEqual(writtenAt);
    await store.general.$executeRaw`update drone set usage_at = usage_at - interval '2 minutes'`;
    expect(await of()).toBeNull();
  });

  test('is believed of the backends of the drone itself alone', async () => {
    const on = await openKernel();
    const { store } = on;
    const [honest, other] = [await aDrone(store.general), await aDrone(store.general)];
    const { backendId } = await aBackend(store.general, honest);

    await beat(on, other, { usage: [{ backendId, memoryBytes: 1, cpus: 9 }] });

    expect((await getBackend(store.general, backendId, null)).usage).toBeNull();
    const sorted = { sort: 'memory', limit: 9 } as const;
    expect((await listBackends(store.general, sorted, null)).items).toEqual([]);
  });

  test.each<[BackendSort, string[]]>([
    ['created', ['three', 'two', 'one']],
    ['memory', ['one', 'three', 'two']],
    ['cpu', ['two', 'one', 'three']],
  ])('sorts backends by %s, in both directions, page after page', async (sort, expected) => {
    const on = await openKernel();
    const { store } = on;
    const first = await aDrone(store.general);
    const second = await aDrone(store.general);
    const make = async (of: SessionRef, name: string, ageMs: number) => ({
      ...(await aBackend(store.general, { ...of, name, ageMs })),
      name,
    });
    const [one, two, three] = [
      await make(first, 'one', 3_000),
      await make(second, 'two', 2_000),
      await make(first, 'three', 1_000),
    ];
    const gone = await aBackend(store.general, { ...first, status: 'terminated', ageMs: 9_000 });
    await beat(on, first, {
      usage: [
        { backendId: one.backendId, memoryBytes: 900, cpus: 1 },
        { backendId: three.backendId, memoryBytes: 500 },
        { backendId: gone.backendId, memoryBytes: 9_999, cpus: 9 },
      ],
    });
    await beat(on, second, { usage: [{ backendId: two.backendId, memoryBytes: 100, cpus: 2 }] });
    const names = new Map([one, two, three].map(({ backendId, name }) => [backendId, name]));
    const by = async (direction?: 'asc' | 'desc', limits: readonly string[] | null = null) =>
      (
        await paged(
          (cursor) =>
            listBackends(store.general, { sort, direction, cursor, live: true, limit: 1 }, limits),
          'backendId',
        )
      ).map((id) => names.get(id));

    expect(await by()).toEqual(expected);
    expect(await by('asc')).toEqual(expected.toReversed());
    expect(await by('desc', ['elsewhere'])).toEqual([]);
  });

  test.each(['x', '', 'WyJ4IiwieSJd'])(
    'refuses a cursor that no list has answered: %s',
    async (cursor) => {
      const { store } = await openKernel();
      const input = { cursor, limit: 1 };
      const refused = { code: 'request.invalid' };

      await expect(
        listBackends(store.general, { ...input, sort: 'cpu' }, null),
      ).rejects.toMatchObject(refused);
      await expect(
        listDrones(store.general, { ...input, sort: 'cpu' }, HEARTBEAT_MS),
      ).rejects.toMatchObject(refused);
    },
  );
});

async function usageAt({ store }: Kernel): Promise<unknown> {
  const rows = await store.general.$queryRaw<{ at: unknown }[]>`select usage_at as at from drone`;
  return rows[0]?.at;
}
