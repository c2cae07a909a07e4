import pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { explaining } from '../testing/explaining.ts';
import type { Sql } from '../postgres/rows.ts';
import { countResources, readMostWaitedFor } from './sql/resource-counts.ts';
import { readSeries } from './sql/stats-buckets.ts';

const LEASES = 50_000;
const TICKETS = 2_000;

describe('plans of the overview', () => {
  let client: pg.Client;
  beforeAll(async () => {
    const database = await createTestDatabase();
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(`
      insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
        renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
      select 'lease', 'n' || (i % 500), 'r' || i, gen_random_uuid(), i, 'h', 'p', 60000,
        20000, 50000, 50000, now(), now(), now() + interval '1 minute'
      from generate_series(1, ${String(LEASES)}) i;
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
      select 'lease', 'n' || (i % 500), 'r' || i, gen_random_uuid(), 'w', 'p', now() + interval '1 hour'
      from generate_series(1, ${String(TICKETS)}) i;
      insert into stats_bucket (bucket_at, face, grants, waits)
      select date_bin('10 seconds', now() - i * interval '10 seconds', timestamptz 'epoch'), f.face, 1,
        array_fill(1::bigint, array[33])
      from generate_series(0, 8999) i, (values ('key'), ('lease'), ('environment')) f (face)`);
    await client.query('analyze');
    return async () => {
      await client.end();
      await database.drop();
    };
  });

  async function planOf(read: (sql: Sql<never>) => Promise<unknown>): Promise<string> {
    const { sql, plans } = explaining(client);
    await read(sql).catch(() => 'an explained statement answers no rows');
    return plans.join('\n');
  }

  test('counting reads leases and tickets once each, and joins neither with the other', async () => {
    const plan = await planOf((sql) => countResources(sql));

    expect(plan.match(/Scan (?:using \w+ )?on lease\b/gu)).toHaveLength(1);
    expect(plan.match(/Scan (?:using \w+ )?on lease_waiter\b/gu)).toHaveLength(1);
    // The one row of the clock is all that is looped over.
    expect(plan.match(/Nested Loop/gu)?.length ?? 0).toBeLessThanOrEqual(2);
  });

  test('what is waited for most probes the leases that are shown, and no others', async () => {
    const plan = await planOf((sql) => readMostWaitedFor(sql, 10));

    expect(plan).toContain('lease_pkey');
    expect(plan).not.toMatch(/Seq Scan on lease\b/u);
  });

  test('a short window is a range of the primary key', async () => {
    const plan = await planOf((sql) => readSeries(sql, { stepMs: 10_000, stepCount: 30 }));

    expect(plan).toContain('stats_bucket_pkey');
    expect(plan).not.toMatch(/Seq Scan on stats_bucket\b/u);
  });
});
