import type { Face } from '../../../kernel/resource/resource.ts';
import type { Sql } from '../../../postgres/sql.ts';

/** How a grant that its resource no longer carries has ended, according to its events. */
export type PastEnd = 'superseded' | 'released' | 'expired' | 'revoked';

/**
 * Finds for each lease id whether a row still carries it (`current`), or how it ended; nothing if it
 * never existed. Grants of another face or principal count as never existing.
 *
 * A plain read of one snapshot, probe by probe. **Index**: `lease_lease_id_key`,
 * `lease_event_lease_id_idx`.
 */
export async function readEndedGrants(
  sql: Sql<'general' | 'guests' | 'renewals' | 'slowLane' | 'transitions' | 'vital'>,
  face: Face,
  requests: readonly { leaseId: string; principal: string }[],
): Promise<Map<string, PastEnd | 'current'>> {
  const rows = await sql.$queryRaw<{ leaseId: string; end: PastEnd | 'current' }[]>`
    with asked as materialized (
      select a.lease_id, a.principal collate "C" as principal
      from unnest(
        ${requests.map((r) => r.leaseId)}::uuid[],
        ${requests.map((r) => r.principal)}::text[]
      ) as a (lease_id, principal)
    )
    select a.lease_id as "leaseId",
      case
        when l.face is null then coalesce(e.end, 'superseded')
        else 'current'
      end as end
    from asked a
    left join lateral (
      select l.face, l.principal from lease l where l.lease_id = a.lease_id limit 1
    ) l on true
    left join lateral (
      select v.face, v.detail ->> 'principal' as principal
      from lease_event v
      where v.lease_id = a.lease_id and v.kind in ('granted', 'taken_over')
      limit 1
    ) g on true
    left join lateral (
      select case
        when v.kind in ('released', 'failed') then 'released'
        when v.kind in ('expired', 'removed') then 'expired'
        else 'revoked'
      end as end
      from lease_event v
      where v.lease_id = a.lease_id
        and (v.kind in ('released', 'failed', 'expired', 'removed')
          or (v.kind = 'revoked' and v.detail ->> 'mode' = 'force'))
      order by v.id
      limit 1
    ) e on true
    where coalesce(l.face, g.face) = ${face} and coalesce(l.principal, g.principal) = a.principal`;
  return new Map(rows.map((row) => [row.leaseId, row.end]));
}
