import { describe, expect, test } from 'vitest';
import { granted, type Kernel, openKernel, releaseOf } from '../../testing/kernel-fixture.ts';
import {
  countEvents,
  type EventCountInput,
  type EventListInput,
  listEvents,
} from './event-list.ts';

async function all(
  { store }: Kernel,
  input: Partial<EventListInput> = {},
  limits: readonly string[] | null = null,
): Promise<{ names: string[]; pages: number[] }> {
  const names: string[] = [];
  const pages: number[] = [];
  let cursor: string | undefined;
  do {
    const page = await listEvents(store.general, { limit: 100, ...input, cursor }, limits);
    names.push(...page.items.map(({ name, kind }) => `${name} ${kind}`));
    pages.push(page.items.length);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return { names, pages };
}

const CHUNK_ROWS = 10_000;

/** Events one second apart, of which every hundredth is named `rare`. */
async function seed({ store }: Kernel, count: number): Promise<void> {
  for (let first = 1; first <= count; first += CHUNK_ROWS) {
    await store.general.$executeRaw`
      insert into lease_event (at, face, namespace, name, lease_id, fencing_token, kind, actor)
      select '2026-01-01T00:00:00Z'::timestamptz + i * interval '1 second', 'lease', 'n' || i % 3,
        case when i % 100 = 0 then 'rare' else 'common' end, gen_random_uuid(), i, 'granted', 'a'
      from generate_series(${first}::int, ${Math.min(count, first + CHUNK_ROWS - 1)}::int) i`;
  }
}

describe('a list of events', () => {
  test('lists each event once, newest first or oldest first, page by page', async () => {
    const kernel = await openKernel();
    for (const name of ['one', 'two', 'three']) {
      const grant = await granted(kernel, { name });
      await kernel.leases.release('lease', releaseOf(grant));
    }
    const oldest = ['one', 'two', 'three'].flatMap((name) => [
      `${name} granted`,
      `${name} released`,
    ]);

    expect(await all(kernel, { limit: 4 })).toEqual({
      names: [...oldest].reverse(),
      pages: [4, 2],
    });
    expect(await all(kernel, { limit: 1, direction: 'asc' })).toMatchObject({ names: oldest });
  });

  test('filters by name, kind, namespace and grant, and shows a limited reader its part', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel, { namespace: 'a', name: 'x' });
    await granted(kernel, { namespace: 'a.b', name: 'y' });
    await granted(kernel, { namespace: 'ab', name: 'z' });
    await kernel.leases.release('lease', releaseOf(grant));

    const named = async (input: Partial<EventListInput>): Promise<string[]> =>
      (await all(kernel, { direction: 'asc', ...input })).names;
    expect(await named({ name: 'x' })).toEqual(['x granted', 'x released']);
    expect(await named({ kinds: ['released'] })).toEqual(['x released']);
    expect(await named({ namespace: 'a' })).toEqual(['x granted', 'y granted', 'x released']);
    expect(await named({ leaseId: grant.leaseId })).toEqual(['x granted', 'x released']);
    expect(await named({ face: 'key' })).toEqual([]);
    expect((await all(kernel, {}, ['ab'])).names).toEqual(['z granted']);
  });

  test('finds rare events among many, even if pages on the way hold few', async () => {
    const kernel = await openKernel();
    await seed(kernel, 30_000);

    const rare = await all(kernel, { name: 'rare', limit: 500 });
    const none = await all(kernel, { name: 'nobody', limit: 500 });

    expect(rare.names).toHaveLength(300);
    expect(rare.pages.length).toBeGreaterThan(1);
    expect(none).toMatchObject({ names: [] });
  });

  test('the events of all pages are counted: those that a filter leaves, and that a limited reader may see', async () => {
    const kernel = await openKernel();
    await seed(kernel, 3_000);
    const count = (
      input: EventCountInput,
      limits: readonly string[] | null = null,
    ): ReturnType<typeof countEvents> => countEvents(kernel.store.reads, input, limits);

    expect(await count({})).toEqual({ count: 3_000, isExact: true });
    expect(await count({ name: 'rare' })).toEqual({ count: 30, isExact: true });
    expect(await count({ name: 'nobody' })).toEqual({ count: 0, isExact: true });
    expect(await count({}, ['n1'])).toEqual({ count: 1_000, isExact: true });
    const [from, to] = ['2026-01-01T00:00:10Z', '2026-01-01T00:00:20Z'];
    expect(await count({ from, to })).toEqual({ count: 10, isExact: true });
    expect(await count({ kinds: ['renewal_refused'] })).toEqual({ count: 0, isExact: true });
  });

  test.each(['asc', 'desc'] as const)(
    'from and to bound events (%s) by their instants, whatever their ids are',
    async (direction) => {
      const kernel = await openKernel();
      await seed(kernel, 5_000);
      // As after a clock was set back: a smaller instant with a greater id.
      await kernel.store.general.$executeRaw`
        insert into lease_event (at, face, namespace, name, lease_id, fencing_token, kind, actor)
        values ('2026-01-01T00:00:10.500Z', 'lease', 'n', 'late', gen_random_uuid(), 1, 'granted', 'a')`;

      const from = '2026-01-01T00:00:10Z';
      const to = '2026-01-01T01:00:00Z';
      const { names, pages } = await all(kernel, { from, to, direction, limit: 500 });

      expect(names).toHaveLength(3_591);
      expect(names[direction === 'asc' ? 1 : names.length - 2]).toBe('late granted');
      expect(pages.slice(0, 7)).toEqual([500, 500, 500, 500, 500, 500, 500]);
    },
  );

  test('goes on after an event, but not after one of another epoch or one whose successors were removed', async () => {
    const kernel = await openKernel();
    await seed(kernel, 10);
    const sql = kernel.store.general;
    const { items } = await listEvents(sql, { limit: 10, direction: 'asc' }, null);
    const afterId = items[6]?.id ?? '';

    expect((await all(kernel, { afterId, direction: 'asc' })).names).toHaveLength(3);
    await expect(all(kernel, { afterId: '7.1' })).rejects.toMatchObject({
      code: 'events.other_epoch',
    });
    await sql.$executeRaw`delete from lease_event where fencing_token <= 8`;
    await expect(all(kernel, { afterId })).rejects.toMatchObject({ code: 'events.compacted' });
    await expect(all(kernel, { afterId: 'x' })).rejects.toMatchObject({ code: 'request.invalid' });
  });

  test('a cursor of another order is refused', async () => {
    const kernel = await openKernel();
    await seed(kernel, 3);
    const { nextCursor } = await listEvents(kernel.store.general, { limit: 1 }, null);

    for (const input of [{ direction: 'asc' as const }, { from: '2020-01-01T00:00:00Z' }]) {
      await expect(
        listEvents(kernel.store.general, { ...input, cursor: nextCursor ?? '', limit: 1 }, null),
      ).rejects.toMatchObject({ code: 'request.invalid' });
    }
  });
});
