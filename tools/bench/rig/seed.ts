import type pg from 'pg';

export interface GrantToRenew {
  readonly leaseId: string;
  readonly fencingToken: string;
}

/** The names of seeded resources are this prefix and a number. */
export const SEEDED = 'seeded-';
export const PRINCIPAL = 'bench';

const CHUNK_ROWS = 100_000;

/**
 * Fills the table of leases with `rowCount` grants of the key face that live for a day, in a random
 * order of names and with statistics, as in a table that has been used and vacuumed.
 */
export async function seedLeases(pool: pg.Pool, rowCount: number): Promise<void> {
  for (let first = 0; first < rowCount; first += CHUNK_ROWS) {
    await pool.query(
      `insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
         renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
       select 'key', '', $1 || i, gen_random_uuid(), 1700000000000 + i, $2, $2, 86400000,
         30000, 40000, 50000, now(), now(), now() + interval '1 day'
       from generate_series($3::int, $4::int) i
       order by md5(i::text)`,
      [SEEDED, PRINCIPAL, first, Math.min(first + CHUNK_ROWS, rowCount) - 1],
    );
  }
  await settle(pool);
}

/** Leaves nothing behind that a later measurement would pay for. */
export async function settle(pool: pg.Pool): Promise<void> {
  await pool.query('vacuum analyze lease');
  await pool.query('checkpoint');
}

/** All grants of the table, in an order that is neither the table’s nor an index’s. */
export async function readGrants(pool: pg.Pool): Promise<GrantToRenew[]> {
  const { rows } = await pool.query<GrantToRenew>(
    'select lease_id as "leaseId", fencing_token::text as "fencingToken" from lease order by fencing_token',
  );
  return rows;
}
