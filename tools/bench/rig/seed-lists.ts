import type pg from 'pg';
import { settle } from './seed.ts';

const DRONE_COUNT = 100;
const NAMESPACE_COUNT = 500;
/** In steps, so that no statement holds the whole of a large table in memory. */
const CHUNK_ROWS = 100_000;
const WAITER_COUNT = 2_000;

/**
 * Fills a database so that it looks used: keys with their backends on a hundred drones, as
 * many leases in five hundred namespaces, and callers that wait. Nine of ten are held, of the rest some
 * expired, some were released and some are not renewed any more. Rows are in no order of names.
 */
export async function seedLists(pool: pg.Pool, rowCount: number): Promise<void> {
  for (let first = 0; first < rowCount; first += CHUNK_ROWS) {
    const last = Math.min(first + CHUNK_ROWS, rowCount) - 1;
    for (const face of ['key', 'lease']) await insertLeases(pool, face, [first, last]);
    await insertBackends(pool, [first, last]);
  }
  await insertWaiters(pool);
  await pool.query('vacuum analyze backend');
  await pool.query('vacuum analyze lease_waiter');
  await settle(pool);
}

async function insertLeases(
  pool: pg.Pool,
  face: string,
  [first, last]: readonly [number, number],
): Promise<void> {
  await pool.query(
    `insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, tag, ttl_ms,
       renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at, renewable,
       released_at, end_reason)
     select $1, 'team-' || i % 50 || '.app-' || i % ${String(NAMESPACE_COUNT)}, 'room-' || i,
       gen_random_uuid(), i, 'd' || i % ${String(DRONE_COUNT)}, 'bench', 'tag-' || i % 1000, 86400000,
       30000, 40000, 50000, t.at, t.at,
       case when i % 100 = 1 then t.at else t.at + interval '1 day' end,
       i % 100 <> 2,
       case when i % 100 between 3 and 9 then t.at end,
       case when i % 100 between 3 and 9 then 'released' when i % 200 = 1 then 'expired' end
     from generate_series($2::int, $3::int) i
     cross join lateral (select now() - i % 3600 * interval '1 second' as at) t
     order by md5(i::text)`,
    [face, first, last],
  );
}

async function insertBackends(
  pool: pg.Pool,
  [first, last]: readonly [number, number],
): Promise<void> {
  await pool.query(
    `insert into backend (id, drone_id, datacenter, clock_id, program, args, env, namespace, name, tag,
       lease_id, fencing_token, status, status_rank, created_at, status_at)
     select 'b' || l.fencing_token, l.holder, 'bench', gen_random_uuid(), 'room', '[]', '{}',
       l.namespace, l.name, l.tag, l.lease_id, l.fencing_token, 'ready', 3, l.granted_at, l.granted_at
     from lease l
     where l.face = 'key' and l.fencing_token between $1 and $2`,
    [first, last],
  );
}

async function insertWaiters(pool: pg.Pool): Promise<void> {
  await pool.query(
    `insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
     select l.face, l.namespace, l.name, gen_random_uuid(), 'w' || i, 'bench', now() + interval '1 day'
     from (select l.* from lease l where l.face = 'lease' limit ${String(WAITER_COUNT / 4)}) l
     cross join generate_series(1, 4) i`,
  );
}
