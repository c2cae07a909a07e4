import type { Face } from '../../../kernel/resource/resource.ts';
import { sqlStateOf } from '../../../postgres/errors/database-errors.ts';
import { isFace, type Sql } from '../../../postgres/sql.ts';
import {
  askedRenewals,
  type JudgedGroup,
  LADDER,
  leaseIdsOf,
  RENEWED_COLUMNS,
  type Renewed,
  renewedOf,
  type RenewRequest,
} from './renewal-rows.ts';

/** How long a grant must still last to be renewed here, and so how long this statement may take. */
const SPARE_MS = 250;
/** A row that is locked for longer is left to the full statement, which passes over it. */
const LOCK_WAIT_MS = 20;

/** It took too long, met a locked row, or another batch with the same rows. */
const GAVE_UP = new Set(['22012', '55P03', '40P01']);

/**
 * Extends each grant that is in force for a good while yet, renewable and asked for by its holder with
 * its token: what nearly all renewals meet. Whatever is without an answer here is for the full
 * statement, `renew` of `renew.ts`, which also refuses, and judges by itself.
 *
 * - **Does not lock first**, and so writes each row once and not twice. It judges before it has
 *   the row, and the row may be locked at that moment. What makes that safe: a grant that
 *   was judged had {@link SPARE_MS} left, and a statement that has taken as long fails as a whole, whatever
 *   held it up. So no grant had expired by the time its row was taken, and none is revived.
 * - **Waits for a locked row, but hardly**: after {@link LOCK_WAIT_MS} it fails as a whole. So it needs no
 *   order of locking: of two that wait for each other, both give up.
 * - **A row that was changed** while it waited is judged again, by PostgreSQL, or not found at all.
 * - **Index**: `lease_lease_id_key`. Changes no indexed column, so that it stays HOT.
 *
 * @returns undefined when it failed for one of these reasons, and did nothing.
 */
export async function renewInTime(
  sql: Sql<'renewals'>,
  face: Face,
  requests: readonly RenewRequest[],
): Promise<Renewed | undefined> {
  try {
    return await renew(sql, face, requests);
  } catch (error) {
    const state = sqlStateOf(error);
    if (state === undefined || !GAVE_UP.has(state)) throw error;
    return undefined;
  }
}

async function renew(
  sql: Sql<'renewals'>,
  face: Face,
  requests: readonly RenewRequest[],
): Promise<Renewed> {
  const groups = await sql.$queryRaw<JudgedGroup[]>`
    with begun as materialized (
      select clock_timestamp() as at, set_config('lock_timeout', ${String(LOCK_WAIT_MS)}, true)
    ),
    renewed as (
      update lease l
      set renewed_at = clock_timestamp(),
          expires_at = clock_timestamp() + l.ttl_ms * interval '1 millisecond'
      -- One pass through the index in its order, and no join: both cost more than the update.
      where l.lease_id = any(${leaseIdsOf(requests)}::uuid[]) and l.face ${isFace(face)}
        and l.renewable and l.released_at is null and l.end_reason is null
        and (select b.at from begun b) < l.expires_at - ${SPARE_MS}::int * interval '1 millisecond'
        and ((l.lease_id, l.fencing_token, l.principal)
          in (${askedRenewals(requests)})) is true
      returning
        l.lease_id, l.expires_at, l.ttl_ms, l.renew_after_ms, l.soft_after_ms, l.hard_after_ms
    )
    select ${RENEWED_COLUMNS},
      -- Of every row, after it was taken; too late is a division by zero.
      1 / (max(clock_timestamp()) < (select b.at from begun b) + ${SPARE_MS}::int * interval '1 millisecond')::int
        as "isInTime"
    from renewed r
    group by ${LADDER}`;
  return renewedOf(groups);
}
