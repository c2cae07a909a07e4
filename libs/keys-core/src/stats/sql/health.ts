/** Since when the system is healthy, or not. One row, which the controllers that judge keep. */
import type { Sql } from '../../postgres/sql.ts';

/** After a longer time without a judgement it is not known what was meanwhile. */
const UNJUDGED_S_MAX = 60;

/**
 * Records a judgement. What it says is so since now, unless the last judgement was the same and is not too
 * long ago.
 *
 * **Locks** the only row. **Atomic because** `set` judges the row as it is after the lock, so two controllers that
 * judge at once do not begin the time again. **Index**: the primary key.
 */
export async function recordHealth(sql: Sql<'general'>, isHealthy: boolean): Promise<void> {
  await sql.$queryRaw<{ since: Date }[]>`
    insert into health as h (is_healthy, since, judged_at)
    select ${isHealthy}::boolean, c.now, c.now from (select clock_timestamp() as now) c
    on conflict (only_row) do update set
      is_healthy = excluded.is_healthy,
      since = case
        when h.is_healthy = excluded.is_healthy
          and h.judged_at > excluded.judged_at - ${UNJUDGED_S_MAX}::int * interval '1 second'
          then h.since
        else excluded.since
      end,
      judged_at = excluded.judged_at
    returning h.since`;
}

/** The last judgement and since when it is so, as epoch milliseconds; null when it is too long ago. */
export async function readHealth(
  sql: Sql<'guests'>,
): Promise<{ readonly isHealthy: boolean; readonly since: number } | null> {
  const rows = await sql.$queryRaw<{ isHealthy: boolean; since: number }[]>`
    select h.is_healthy as "isHealthy", extract(epoch from h.since)::float8 * 1000 as since
    from health h
    where h.judged_at > clock_timestamp() - ${UNJUDGED_S_MAX}::int * interval '1 second'`;
  return rows[0] ?? null;
}
