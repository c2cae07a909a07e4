import type pg from 'pg';

const CHUNK_ROWS = 25_000;

/**
 * Many keys that live for a day, each with its backend, spread over namespaces, two drones and the
 * times of a week, in a random order, with the statistics of a table that is in use.
 */
export async function seedMany(
  sql: pg.Pool,
  keysCount: number,
  /** How many there are already. */
  thereCount = 0,
): Promise<void> {
  for (let first = thereCount; first < keysCount; first += CHUNK_ROWS) {
    await sql.query(INSERT_KEYS, [first, Math.min(first + CHUNK_ROWS, keysCount) - 1]);
  }
  await sql.query('analyze lease');
  await sql.query('analyze backend');
}

const INSERT_KEYS = `
  with made as (
    insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, tag, ttl_ms,
      renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at, renewable)
    select 'key', 'tenant.t' || (i % 40), 'session-' || lpad(i::text, 7, '0'), gen_random_uuid(),
      1700000000000 + i, 'drone-' || (i % 2), 'drone-' || (i % 2), case when i % 5 = 0 then 'v2' else 'v1' end,
      86400000, 30000, 40000, 50000,
      clock_timestamp() - (hashint4(i) & 604799) * interval '1 second',
      clock_timestamp(), clock_timestamp() + interval '1 day', i % 50 <> 0
    from generate_series($1::int, $2::int) i
    order by md5(i::text)
    returning namespace, name, tag, lease_id, fencing_token, holder
  )
  insert into backend (id, drone_id, datacenter, clock_id, program, args, env, namespace, name, tag, lease_id,
    fencing_token, status, status_rank, address)
  select 'bk-' || replace(m.lease_id::text, '-', ''), m.holder, 'fra', '00000000-0000-4000-8000-000000000000',
    'session', '[]', '{}', m.namespace, m.name, m.tag, m.lease_id, m.fencing_token, 'ready', 4, '10.0.0.1:8080'
  from made m`;
