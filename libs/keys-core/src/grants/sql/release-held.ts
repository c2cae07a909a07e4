import type { Face } from '../../kernel/resource/resource.ts';
import { fragment, isFace, type Sql } from '../../postgres/sql.ts';
import {
  askedReleases,
  type Released,
  releasedColumns,
  type ReleaseRequest,
} from './parts/release-rows.ts';

/**
 * Releases each grant that is in force, if its holder asks with its token: what most requests meet.
 * Whatever is without an answer here is for the full statement, `release` of `release.ts`, which also
 * knows of grants that are over, costs a third more, and judges by itself.
 *
 * - **Locks first, judges then**, and passes over locked rows.
 * - **A late release changes nothing**: it goes by lease id and token.
 * - **Finds a locked row by its place** (`ctid`), as `renew.ts` does: one that was changed since the
 *   statement's snapshot is not found, as if it had been skipped.
 * - **Index**: `lease_lease_id_key`, `lease_waiter_resource_idx`.
 */
export async function releaseHeld(
  sql: Sql<'transitions'>,
  face: Face,
  requests: readonly ReleaseRequest[],
): Promise<Map<string, Released>> {
  const rows = await sql.$queryRaw<Released[]>`
    with asked as materialized (${askedReleases(requests)}),
    locked as materialized (
      select k.*, a.actor, a.result, a.detail
      from asked a
      cross join lateral (
        select l.ctid as row_at, l.released_at, l.end_reason, l.expires_at
        from lease l
        where l.lease_id = a.lease_id and l.fencing_token = a.fencing_token
          and l.principal = a.principal and l.face ${isFace(face)} and l.end_reason is null
        for no key update of l skip locked
      ) k
    ),
    ended as (
      update lease l
      set released_at = clock_timestamp(), end_reason = 'released'
      from locked k
      where l.ctid = k.row_at and lease_unexpired(k.released_at, k.end_reason, k.expires_at)
      returning
        l.face, l.namespace, l.name, l.lease_id, l.fencing_token, l.tag, l.granted_at,
        k.actor, k.result, k.detail, 'released' as outcome
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, reason)
      select e.face, e.namespace, e.name, e.lease_id, e.fencing_token,
        case when e.result = 'failed' then 'failed' else 'released' end, e.actor, e.detail
      from ended e
    )
    select ${releasedColumns(fragment`e`)} from ended e`;
  return new Map(rows.map((row) => [row.leaseId, row]));
}
