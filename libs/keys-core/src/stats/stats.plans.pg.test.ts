import { beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { fillDatabase, type FilledDatabase, heldLeases } from '../testing/explaining.ts';
import { readSeries, countResources, readMostWaitedFor } from './sql/stats-buckets.ts';

const LEASES = 50_000;
const TICKETS = 2_000;

describe('plans of the overview', () => {
  let planOf: FilledDatabase['planOf'];
  beforeAll(async () => {
    const database = await createTestDatabase();
    const filled = await fillDatabase(
      database.url,
      `${heldLeases(LEASES, `'n' || (i % 500)`)}
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
      select 'lease', 'n' || (i % 500), 'r' || i, gen_random_uuid(), 'w', 'p', now() + interval '1 hour'
      from generate_series(1, ${String(TICKETS)}) i;
      insert into stats_bucket (bucket_at, face, grants, waits)
      select date_bin('10 seconds', now() - i * interval '10 seconds', timestamptz 'epoch'), f.face, 1,
        array_fill(1::bigint, array[33])
      from generate_series(0, 8999) i, (values ('key'), ('lease'), ('environment')) f (face)`,
    );
    ({ planOf } = filled);
    return async () => {
      await filled.close();
      await database.drop();
    };
  });

  test('counting reads leases and tickets once each, and does not join them', async () => {
    const plan = await planOf((sql) => countResources(sql));

    expect(plan.match(/Scan (?:using \w+ )?on lease\b/gu)).toHaveLength(1);
    expect(plan.match(/Scan (?:using \w+ )?on lease_waiter\b/gu)).toHaveLength(1);
    // The only loops are those over the one row of the clock.
    expect(plan.match(/Nested Loop/gu)?.length ?? 0).toBeLessThanOrEqual(2);
  });

  test('the list of the most waited-for resources reads only the leases that it shows', async () => {
    const plan = await planOf((sql) => readMostWaitedFor(sql, 10));

    expect(plan).toContain('lease_pkey');
    expect(plan).not.toMatch(/Seq Scan on lease\b/u);
  });

  test('a short window is read as a range of the primary key', async () => {
    const plan = await planOf((sql) => readSeries(sql, { stepMs: 10_000, stepCount: 30 }));

    expect(plan).toContain('stats_bucket_pkey');
    expect(plan).not.toMatch(/Seq Scan on stats_bucket\b/u);
  });
});
