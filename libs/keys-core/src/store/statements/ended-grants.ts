import type { Face } from '../../kernel/resource.ts';
import type { Sql } from '../rows.ts';

/** How a grant that its resource no longer carries has ended, as its events tell. */
export type PastEnd = 'superseded' | 'released' | 'expired' | 'revoked';

/**
 * Says of each lease id whether a row still carries it (`current`), how it ended otherwise, or
 * nothing if it never was. Grants of another face or another principal never were.
 *
 * A plain read in the order: rows first, events then. A lease id moves from the row to the events
 * only, in one transaction, and never back. **Index**: `lease_lease_id_key`,
 * `lease_event_lease_id_idx`.
 */
export async function readEndedGrants(
  sql: Sql,
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
    select a.lease_id as "leaseId", 'current' as end
    from asked a
    join lease l on l.lease_id = a.lease_id
    where l.face = ${face} and l.principal = a.principal
    union all
    select a.lease_id, coalesce(
      (
        select case
          when v.kind in ('released', 'failed') then 'released'
          when v.kind in ('expired', 'removed') then 'expired'
          else 'revoked'
        end
        from lease_event v
        where v.lease_id = a.lease_id
          and (v.kind in ('released', 'failed', 'expired', 'removed')
            or (v.kind = 'revoked' and v.detail ->> 'mode' = 'force'))
        order by v.id
        limit 1
      ),
      'superseded'
    )
    from asked a
    where not exists (select from lease l where l.lease_id = a.lease_id)
      and exists (
        select from lease_event v
        where v.lease_id = a.lease_id and v.face = ${face}
          and v.kind in ('granted', 'taken_over') and v.detail ->> 'principal' = a.principal
      )`;
  return new Map(rows.map((row) => [row.leaseId, row.end]));
}
