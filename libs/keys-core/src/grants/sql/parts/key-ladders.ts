import type { Ladder } from '../../../kernel/lease/ladder.ts';
import type { Sql } from '../../../postgres/sql.ts';

/** A controller whose witness has not moved for this long counts as stopped. */
const ALIVE_SECONDS = 10;

/** Notes which ladder a controller gives to keys, in the row of its witness. */
export async function noteKeyLadder(
  sql: Sql<'general'>,
  witnessId: string,
  ladder: Ladder,
): Promise<void> {
  const { renewAfterMs, softAfterMs, hardAfterMs, ttlMs } = ladder;
  await sql.$queryRaw`
    update database_witness
    set key_ladder_ms = array[${renewAfterMs}::int, ${softAfterMs}::int, ${hardAfterMs}::int, ${ttlMs}::int]
    where id = ${witnessId}::uuid`;
}

/** The different ladders that running controllers give to keys; the shortest TTL first. */
export async function readKeyLadders(sql: Sql<'general'>): Promise<Ladder[]> {
  return sql.$queryRaw<Ladder[]>`
    select distinct key_ladder_ms[1] as "renewAfterMs", key_ladder_ms[2] as "softAfterMs",
      key_ladder_ms[3] as "hardAfterMs", key_ladder_ms[4] as "ttlMs"
    from database_witness
    where key_ladder_ms is not null
      and at > clock_timestamp() - ${ALIVE_SECONDS}::int * interval '1 second'
    order by "ttlMs", "hardAfterMs"`;
}
