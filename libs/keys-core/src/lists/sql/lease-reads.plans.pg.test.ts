import { beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { readContention } from '../../leases/sql/contention.ts';
import { readHolds, readMostWaited, readNested, readWaits } from '../../leases/sql/waits.ts';
import { findRevocationBefore, readRevocations } from '../../leases/sql/revocations.ts';
import { fillDatabase, type FilledDatabase, heldLeases } from '../../testing/explaining.ts';
import type { LeaseOrder } from './lease-order.ts';
import { listKeys, listLeases, type ResourceFilter } from './resource-list.ts';

const FIRST: LeaseOrder = { by: 'name', direction: 'asc', after: null, limit: 101 };

const FILL = `${heldLeases(50_000, `'n' || (i % 500) || '.m'`)}
  insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
    renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
  select 'key', namespace, name, gen_random_uuid(), fencing_token, holder, principal, ttl_ms,
    renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at
  from lease;
  insert into backend (id, drone_id, datacenter, clock_id, program, args, env, namespace, name, tag,
    lease_id, fencing_token, status, status_rank)
  select 'b' || fencing_token, 'd' || fencing_token % 500, 'local', gen_random_uuid(), 'room', '[]', '{}',
    namespace, name, '', lease_id, fencing_token, 'ready', 3
  from lease where face = 'key';
  insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
  select face, namespace, name, lease_id, fencing_token,
    case when fencing_token % 1000 = 0 then 'revoked' else 'granted' end, 'a',
    '{"principal":"p","mode":"force"}'
  from lease;
  insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
  select 'lease', 'n7.m', 'r7', gen_random_uuid(), '{}', 'p', now() + interval '1 minute'
  from generate_series(1, 5000);
  insert into lease_wait (face, namespace, name, ended_at, ticket_id, began_at, waiter, outcome)
  select 'lease', 'n' || i % 500 || '.m', 'r' || i % 100, now() - i * interval '1 second', gen_random_uuid(),
    now() - i * interval '1 second', 'w', 'granted'
  from generate_series(1, 80000) i`;

describe('plans of read queries', () => {
  let database: FilledDatabase;
  beforeAll(async () => {
    const copy = await createTestDatabase();
    database = await fillDatabase(copy.url, FILL);
    return async () => {
      await database.close();
      await copy.drop();
    };
  });

  test.each([
    ['one', { namespace: 'n7.m', name: 'r7', includeChildren: false }],
    ['a namespace', { namespace: 'n7', includeChildren: true }],
    ['the first page of all', { includeChildren: true }],
    ['what a limited caller may see', { includeChildren: true, namespaces: ['n7', 'n8'] }],
  ])('a list of %s is read through the primary key', async (_what, filter) => {
    const plan = await database.planOf((sql) =>
      listLeases(sql, 'lease', { namespaces: null, ...filter }, FIRST),
    );

    expect(plan).toContain('lease_pkey');
    expect(plan).not.toMatch(/Seq Scan on lease\b/u);
  });

  test('the waiters of one line are read only for their own row', async () => {
    const plan = await database.planOf((sql) =>
      listLeases(sql, 'lease', { namespaces: null, includeChildren: true }, FIRST),
    );

    expect(plan).toContain('lease_waiter_resource_idx');
    expect(plan).not.toMatch(/Seq Scan on lease_waiter\b/u);
  });

  const anything: ResourceFilter = { includeChildren: true, namespaces: null };

  test.each([
    ['one grant', { leaseId: '00000000-0000-4000-8000-000000000000' }, 'lease_lease_id_key'],
    ['a drone', { droneId: 'd1' }, 'backend_drone_id_status_rank_idx'],
    [
      'a prefix in a namespace',
      { namespace: '', includeChildren: false, prefix: 'r' },
      'lease_pkey',
    ],
    ['a phase in a namespace', { namespace: 'n7', phase: 'expired' as const }, 'lease_pkey'],
  ])('a list of %s reads only that part of the table', async (_what, filter, index) => {
    const plan = await database.planOf((sql) => listKeys(sql, { ...anything, ...filter }, FIRST));

    expect(plan).toContain(index);
    expect(plan).not.toMatch(/Seq Scan on lease\b/u);
  });

  test.each([
    ['phase', { phase: 'expired' as const }],
    ['holder', { holder: 'h' }],
    ['tag', { tag: 't' }],
    ['prefix', { prefix: 'r' }],
  ])(
    'a list by %s reads the next rows first, and never walks an index to its end',
    async (_what, filter) => {
      const { sql, plans } = database.explaining();
      await listLeases(sql, 'lease', { ...anything, ...filter }, FIRST).catch(() => undefined);
      const [look = '', scan = ''] = plans;

      expect(look).toMatch(/Limit[\s\S]*Index Scan[\s\S]*lease_pkey/u);
      expect(look).not.toMatch(/Seq Scan on lease\b|Sort/u);
      expect(scan).toMatch(/Sort Key: .*'::text/u);
      expect(scan).not.toMatch(/Index Scan(?: Backward)? using lease_pkey/u);
    },
  );

  test.each(['grantedAt', 'expiresAt'] as const)(
    'a list by %s keeps only the rows of its page, and needs no index that a renewal would write',
    async (by) => {
      const order: LeaseOrder = { by, direction: 'desc', after: null, limit: 101 };
      const plan = await database.planOf((sql) => listLeases(sql, 'lease', anything, order));
      const { rows } = await database.client.query<{ count: number }>(
        `select count(*)::int as count from pg_index i
         join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
         where i.indrelid = 'lease'::regclass and a.attname in ('expires_at', 'renewed_at')`,
      );

      expect(plan).toContain('Limit');
      expect(rows).toEqual([{ count: 0 }]);
    },
  );

  test('revocations are found without reading other events', async () => {
    const from = { afterId: '0', seenIds: ['1', '2'], limit: 1_000 };
    const plans = [
      await database.planOf((sql) => readRevocations(sql, from)),
      await database.planOf((sql) => findRevocationBefore(sql, 60_000)),
    ];

    for (const plan of plans) {
      expect(plan).toContain('lease_event_revoked_idx');
      expect(plan).not.toMatch(/Seq Scan on (?:lease|lease_event)\b/u);
    }
  });

  test('the list of who waits for whom reads only leases that somebody waits for', async () => {
    const which = { namespace: '', namespaces: null, afterId: null, limit: 101 };

    const plan = await database.planOf((sql) => readContention(sql, ['key', 'lease'], which));

    expect(plan).toContain('lease_pkey');
    expect(plan).not.toMatch(/Seq Scan on lease\b/u);
  });

  test('why callers wait is read through indexes, of what is newest', async () => {
    const one = { face: 'lease', namespace: 'n8.m', name: 'r8' } as const;
    const all = { namespace: '', namespaces: null, windowMinutes: 60 };
    const indexesOf = [
      [
        await database.planOf((sql) => readHolds(sql, one, 60)),
        'lease_event_resource_idx',
        'lease_pkey',
      ],
      [
        await database.planOf((sql) => readWaits(sql, one, 60)),
        'lease_wait_pkey',
        'lease_waiter_resource_idx',
      ],
      [await database.planOf((sql) => readMostWaited(sql, all, 5)), 'lease_wait_ended_at_idx'],
      [await database.planOf((sql) => readNested(sql, all)), 'lease_event_pkey'],
    ] as const;

    for (const [plan, ...indexes] of indexesOf) {
      for (const index of indexes) expect(plan).toContain(index);
      expect(plan).not.toMatch(/Seq Scan on (?:lease|lease_event|lease_wait)\b/u);
    }
  });
});
