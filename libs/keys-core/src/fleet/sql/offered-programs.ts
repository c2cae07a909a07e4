import type { Sql } from '../../postgres/sql.ts';
import type { OfferedProgram } from '../fleet-views.ts';
import { HAS_LEFT, heartbeatAgeMsMax } from './drones.ts';

/**
 * What the drones of a datacenter offer: those that are neither draining nor lost and have a fresh heartbeat,
 * full ones too. Each different program once.
 */
export async function readOfferedPrograms(
  sql: Sql<'general'>,
  { datacenter, heartbeatMs }: { readonly datacenter: string; readonly heartbeatMs: number },
): Promise<OfferedProgram[]> {
  const rows = await sql.$queryRaw<{ offeredProgram: OfferedProgram }[]>`
    select distinct e.program as "offeredProgram"
    from drone d
    cross join lateral jsonb_array_elements(d.programs) as e (program)
    where d.datacenter = ${datacenter} and not d.draining and d.lost_at is null
      and not ${HAS_LEFT}
      and d.heartbeat_at >= clock_timestamp()
        - ${heartbeatAgeMsMax(heartbeatMs)}::float8 * interval '1 millisecond'`;
  return rows.map(({ offeredProgram }) => offeredProgram);
}
