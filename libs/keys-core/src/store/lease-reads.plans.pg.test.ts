import pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { explaining } from '../testing/explaining.ts';
import { readContention } from './contention.ts';
import { listLeases } from './lease-list.ts';
import type { LeaseOrder } from './lease-order.ts';
import { findRevocationBefore, readRevocations } from './revocations.ts';
import type { Sql } from './rows.ts';

const FIRST: LeaseOrder = { by: 'name', direction: 'asc', after: null, limit: 101 };

describe('plans of what people read', () => {
  let client: pg.Client;
  beforeAll(async () => {
    const database = await createTestDatabase();
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(`
      insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
        renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
      select 'lease', 'n' || (i % 500) || '.m', 'r' || i, gen_random_uuid(), i, 'h', 'p', 60000,
        20000, 50000, 50000, now(), now(), now() + interval '1 minute'
      from generate_series(1, 50000) i`);
    await client.query(`
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select face, namespace, name, lease_id, fencing_token,
        case when fencing_token % 1000 = 0 then 'revoked' else 'granted' end, 'a',
        '{"principal":"p","mode":"force"}'
      from lease`);
    await client.query('analyze');
    return async () => {
      await client.end();
      await database.drop();
    };
  });

  async function planOf(read: (sql: Sql) => Promise<unknown>): Promise<string> {
    const { sql, plans } = explaining(client);
    await read(sql).catch(() => 'an explained statement answers no rows');
    return plans.join('\n');
  }

  test.each([
    ['one', { namespace: 'n7.m', name: 'r7', includeChildren: false }],
    ['a namespace', { namespace: 'n7', includeChildren: true }],
    ['the first page of all', { includeChildren: true }],
    ['what a limited caller may see', { includeChildren: true, namespaces: ['n7', 'n8'] }],
  ])('a list of %s is read through the primary key', async (_what, filter) => {
    const plan = await planOf((sql) =>
      listLeases(sql, 'lease', { namespaces: null, ...filter }, FIRST),
    );

    expect(plan).toContain('lease_pkey');
    expect(plan).not.toMatch(/Seq Scan on lease\b/u);
  });

  test('revocations are found without reading other events', async () => {
    const from = { afterId: '0', seenIds: ['1', '2'], limit: 1_000 };
    const plans = [
      await planOf((sql) => readRevocations(sql, from)),
      await planOf((sql) => findRevocationBefore(sql, 60_000)),
    ];

    for (const plan of plans) {
      expect(plan).toContain('lease_event_revoked_idx');
      expect(plan).not.toMatch(/Seq Scan on (?:lease|lease_event)\b/u);
    }
  });

  test('who waits for whom probes the leases that somebody waits for', async () => {
    const which = { namespace: '', namespaces: null, afterId: null, limit: 101 };

    const plan = await planOf((sql) => readContention(sql, 'lease', which));

    expect(plan).toContain('lease_pkey');
    expect(plan).not.toMatch(/Seq Scan on lease\b/u);
  });
});
