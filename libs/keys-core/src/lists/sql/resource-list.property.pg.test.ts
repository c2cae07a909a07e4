import fc from 'fast-check';
import { expect, test } from 'vitest';
import { seed } from '@leasehold/testing';
import { type Kernel, openKernel } from '../../testing/kernel-fixture.ts';
import { cursorAfter, type LeaseOrder, placeFrom } from './lease-order.ts';
import { countResources, listKeys, type ResourceFilter } from './resource-list.ts';

/** What may happen between two pages, and to which key. */
interface Act {
  readonly kind: 'granted' | 'renewed' | 'released' | 'removed';
  readonly place: number;
}

const KEYS = 24;

const FILTERS: Record<string, Partial<ResourceFilter>> = {
  all: {},
  held: { phase: 'held' },
  'of a holder': { holder: 'h0' },
  'of a prefix in a namespace': { prefix: 'k', namespace: 'a' },
  'of a part of a name': { contains: 'K1' },
  'of a part with a namespace': { contains: 'a.b/k' },
  'of limited namespaces': { namespaces: ['a', 'b.c'] },
};

/** What an act changes about a key's place in a list, or whether it is in the list. */
const MOVES: Record<Act['kind'], readonly string[]> = {
  granted: ['grantedAt', 'expiresAt'],
  renewed: ['expiresAt'],
  released: ['expiresAt', 'held'],
  removed: ['name', 'grantedAt', 'expiresAt', 'held'],
};

async function fill({ store }: Kernel): Promise<void> {
  await store.general.$executeRaw`delete from lease`;
  await store.general.$executeRaw`
    insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
      renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
    select 'key', (array['', 'a', 'a.b', 'b.c'])[1 + i % 4], 'k' || i, gen_random_uuid(), i, 'h' || i % 3, 'p',
      60000, 20000, 50000, 50000, t.at, t.at, t.at + interval '1 hour'
    from generate_series(0, ${KEYS - 1}::int) i
    -- Three of each instant, so that the name has to decide.
    cross join lateral (select date_trunc('second', now()) + i / 3 * interval '1 second' as at) t`;
}

async function carryOut({ store }: Kernel, { kind, place }: Act, step: number): Promise<void> {
  const name = `k${String(place)}`;
  if (kind === 'removed') {
    await store.general.$executeRaw`delete from lease where name = ${name}`;
  } else if (kind === 'released') {
    await store.general.$executeRaw`
      update lease set released_at = clock_timestamp(), end_reason = 'released' where name = ${name}`;
  } else if (kind === 'renewed') {
    await store.general.$executeRaw`
      update lease set expires_at = expires_at + ${step + 1} * interval '7 seconds' where name = ${name}`;
  } else {
    // Grants the key again, and inserts a new key as well.
    await store.general.$executeRaw`
      update lease set granted_at = granted_at + interval '9 seconds', lease_id = gen_random_uuid(),
        expires_at = expires_at + interval '9 seconds' where name = ${name}`;
    await store.general.$executeRaw`
      insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
        renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
      select face, namespace, 'new' || ${step}::int || name, gen_random_uuid(), 1, holder, principal, ttl_ms,
        renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at
      from lease where name = 'k3' on conflict do nothing`;
  }
}

async function namesThrough(
  kernel: Kernel,
  read: { filter: ResourceFilter; by: LeaseOrder['by']; direction: 'asc' | 'desc'; limit: number },
  acts: readonly (readonly Act[])[],
): Promise<string[]> {
  const { filter, by, direction, limit } = read;
  const seen: string[] = [];
  let cursor: string | undefined;
  for (let page = 0; ; page++) {
    const after = cursor === undefined ? null : placeFrom(cursor, by);
    const rows = await listKeys(kernel.store.general, filter, { by, direction, after, limit });
    seen.push(...rows.map(({ name }) => name));
    const last = rows.at(-1);
    if (last === undefined || rows.length < limit) return seen;
    cursor = cursorAfter(by, last);
    for (const act of acts[page] ?? []) await carryOut(kernel, act, page);
  }
}

const actArb = fc.record({
  kind: fc.constantFrom<Act['kind']>('granted', 'renewed', 'released', 'removed'),
  place: fc.nat(KEYS - 1),
});

test('a list neither repeats nor skips unchanged keys while others are granted, renewed, released and removed', async () => {
  const kernel = await openKernel();

  await fc.assert(
    fc.asyncProperty(
      fc.record({
        filterName: fc.constantFrom(...Object.keys(FILTERS)),
        by: fc.constantFrom<LeaseOrder['by']>('name', 'grantedAt', 'expiresAt'),
        direction: fc.constantFrom('asc' as const, 'desc' as const),
        limit: fc.integer({ min: 1, max: 9 }),
        acts: fc.array(fc.array(actArb, { maxLength: 3 }), { maxLength: 8 }),
      }),
      async ({ filterName, by, direction, limit, acts }) => {
        await fill(kernel);
        const filter = { includeChildren: true, namespaces: null, ...FILTERS[filterName] };
        const whole = { by, direction, after: null, limit: 1_000 };
        const first = await listKeys(kernel.store.general, filter, whole);
        const counted = await countResources(kernel.store.general, 'key', filter);
        const moved = new Set(
          acts
            .flat()
            .filter(({ kind }) => MOVES[kind].some((what) => what === by || what === filterName))
            .map(({ place }) => `k${String(place)}`),
        );

        const seen = await namesThrough(kernel, { filter, by, direction, limit }, acts);

        const staying = first.map(({ name }) => name).filter((name) => !moved.has(name));
        const shown = seen.filter((name) => name.startsWith('k') && !moved.has(name));
        expect(shown).toEqual(staying);
        expect(counted).toEqual({ count: first.length, isExact: true });
      },
    ),
    { seed: seed(), numRuns: 60 },
  );
});

test('a list finds rare keys, however far from the beginning they are', async () => {
  const { store } = await openKernel();
  await store.general.$executeRaw`
    insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
      renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at, renewable)
    select 'key', '', 'k' || lpad(i::text, 5, '0'), gen_random_uuid(), i, 'h', 'p', 60000, 20000, 50000,
      50000, now(), now(), now() + interval '1 hour', i not in (3, 2400, 2999)
    from generate_series(1, 3000) i`;
  const filter: ResourceFilter = { includeChildren: true, namespaces: null, phase: 'expiring' };
  const order = { by: 'name', direction: 'asc', after: null } as const;

  const all = await listKeys(store.general, filter, { ...order, limit: 10 });
  const first = await listKeys(store.general, filter, { ...order, limit: 1 });
  const two = await listKeys(store.general, filter, { ...order, direction: 'desc', limit: 2 });

  expect(all.map(({ name }) => name)).toEqual(['k00003', 'k02400', 'k02999']);
  expect(first.map(({ name }) => name)).toEqual(['k00003']);
  expect(two.map(({ name }) => name)).toEqual(['k02999', 'k02400']);
});
