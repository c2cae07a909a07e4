import type { Face, Resource } from '../../kernel/resource/resource.ts';
import type { Sql } from '../../postgres/sql.ts';

/** An operator's request for one grant. */
export interface OperatorRequest {
  readonly leaseId: string;
  readonly actor: string;
  readonly reason: string | null;
  /** Namespaces, children included, that the operator is limited to; null for no limit. */
  readonly namespaces: readonly string[] | null;
}

/**
 * Blocks or allows the renewal of each grant that is in force and not so already. A blocked grant then
 * ends by its ladder. @returns what was changed, by lease id.
 *
 * Locks first, judges then, in the order of every batch statement. Index: `lease_lease_id_key`.
 * A lease id that is not returned was so already, is over, or may not be seen by the operator.
 */
export async function setRenewable(
  sql: Sql<'general'>,
  face: Face,
  renewable: boolean,
  requests: readonly OperatorRequest[],
): Promise<Map<string, Resource>> {
  const rows = await sql.$queryRaw<{ leaseId: string; namespace: string; name: string }[]>`
    with asked as materialized (
      select a.lease_id, a.actor, a.reason, a.limits
      from unnest(
        ${requests.map((r) => r.leaseId)}::uuid[],
        ${requests.map((r) => r.actor)}::text[],
        ${requests.map((r) => r.reason)}::text[],
        ${requests.map((r) => (r.namespaces === null ? null : JSON.stringify(r.namespaces)))}::text[]
      ) as a (lease_id, actor, reason, limits)
    ),
    locked as materialized (
      select
        l.face, l.namespace, l.name, l.lease_id, l.released_at, l.end_reason, l.expires_at,
        l.renewable, a.actor, a.reason
      from asked a
      join lease l on l.lease_id = a.lease_id
      where l.face = ${face} and lease_is_within(l.namespace, a.limits::jsonb)
      order by l.face, l.namespace, l.name
      for no key update of l
    ),
    changed as (
      update lease l
      set renewable = ${renewable}
      from locked k
      where l.lease_id = k.lease_id and k.renewable <> ${renewable}
        and lease_unexpired(k.released_at, k.end_reason, k.expires_at)
      returning l.face, l.namespace, l.name, l.lease_id, l.fencing_token
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, reason)
      select c.face, c.namespace, c.name, c.lease_id, c.fencing_token,
        ${renewable ? 'renewal_allowed' : 'renewal_blocked'}, k.actor, k.reason
      from changed c
      join locked k on k.lease_id = c.lease_id
      order by c.face, c.namespace, c.name
    )
    select c.lease_id as "leaseId", c.namespace, c.name from changed c`;
  return new Map(rows.map(({ leaseId, ...name }) => [leaseId, { face, ...name }]));
}
