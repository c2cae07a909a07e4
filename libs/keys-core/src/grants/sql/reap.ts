import type { Resource } from '../../kernel/resource/resource.ts';
import type { ClockBelief } from '../../postgres/clock/clock-watch.ts';
import { onlyRow, type Sql } from '../../postgres/sql.ts';
import { EXPIRE_LOCKED } from './parts/expired.ts';
import { expiryBelieved } from '../../postgres/clock/expiry.ts';

export interface ReapedGrant extends Resource {
  readonly leaseId: string;
  /** How long after its expiry the grant was ended, in milliseconds. */
  readonly lagMs: number;
}

/** How many pages the lease table has now, and the moment, in epoch milliseconds. */
export async function readLeasePages(
  sql: Sql<'general'>,
): Promise<{ pages: number; asOf: number }> {
  return onlyRow(
    await sql.$queryRaw<{ pages: number; asOf: number }[]>`
      select (pg_relation_size('lease') / current_setting('block_size')::int)::int as pages,
        extract(epoch from clock_timestamp())::float8 * 1000 as "asOf"`,
  );
}

/**
 * Ends the grants that have expired and that nobody has ended, in a range of the table's pages, at
 * most `limit` of them, and writes the one `expired` event of each.
 *
 * - **Why by pages**: an index on `expires_at` would end HOT updates, on which the cost of renewals
 *   rests; a queue of due times would be written as often as the table. Reading the table page by
 *   page needs neither, and the range bounds what one pass may cost. Nothing waits for the reaper:
 *   a grant that has expired is taken over without it.
 * - **Reads the clock once to choose**, not for each of a few hundred thousand rows: a grant that had
 *   expired by then is still expired when it is judged.
 * - **Ends only what is believed to have expired**, see `expiry.ts`.
 * - **Locks first, judges then**, skipping locked rows: they are being renewed, released or taken
 *   over. Two reapers never end the same grant: the second finds it locked or ended.
 */
export async function reap(
  sql: Sql<'general'>,
  range: { fromPage: number; toPage: number; limit: number; belief: ClockBelief },
): Promise<ReapedGrant[]> {
  return sql.$queryRaw<ReapedGrant[]>`
    with locked as materialized (
      select l.face, l.namespace, l.name, l.lease_id, l.released_at, l.end_reason, l.expires_at
      from lease l
      where l.ctid >= ${`(${String(range.fromPage)},0)`}::tid
        and l.ctid < ${`(${String(range.toPage)},0)`}::tid
        and l.end_reason is null and l.released_at is null and l.expires_at <= (select clock_timestamp())
        and ${expiryBelieved(range.belief)}
      limit ${range.limit}
      for no key update of l skip locked
    ),
    ${EXPIRE_LOCKED}
    select x.lease_id as "leaseId", x.face, x.namespace, x.name,
      extract(epoch from clock_timestamp() - x.expires_at)::float8 * 1000 as "lagMs"
    from expired x`;
}
