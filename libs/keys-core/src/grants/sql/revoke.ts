import type { Face, Resource } from '../../kernel/resource.ts';
import type { Store } from '../../postgres/open-store.ts';
import type { RecordSql } from '../../postgres/records.ts';
import { SCOPE_NAME, type Sql } from '../../postgres/sql.ts';

/** An operator's request for one grant. */
interface OperatorRequest {
  readonly leaseId: string;
  readonly actor: string;
  readonly reason: string | null;
  /** Namespaces, children included, that the operator is limited to; null for no limit. */
  readonly namespaces: readonly string[] | null;
}

export interface RevokeRequest extends OperatorRequest {
  readonly mode: 'graceful' | 'force';
  /** Force only: whether the resource may be granted again before its holder surely has stopped. */
  readonly abandon: boolean;
  /** What else its event says. */
  readonly detail?: object | undefined;
}

export interface RevokedGrant extends Resource {
  readonly leaseId: string;
  /** When the holder has stopped at the latest, as epoch milliseconds of the database. */
  readonly stopsBy: number;
  /** Whether it was a slot of a namespace: those who wait for any of its keys may have their turn. */
  readonly isOfNamespace: boolean;
}

/** Writes down an act on a grant, in the transaction that has changed it. */
export type RecordGrantAct = (tx: RecordSql, resource: Resource) => Promise<void>;

/**
 * Acts on a grant, and has it recorded in the same transaction: what cannot be recorded is not done.
 * @param record undefined for an act that is recorded as part of another one
 * @param act answers what it has changed; undefined: nothing, of which nothing is recorded
 */
export function actOnGrant<Changed extends Resource>(
  { general }: Pick<Store, 'general'>,
  record: RecordGrantAct | undefined,
  act: (sql: Sql<'general'>) => Promise<Changed | undefined>,
): Promise<Changed | undefined> {
  if (record === undefined) return act(general);
  return general.$transaction(async (tx) => {
    const changed = await act(tx);
    if (changed !== undefined) await record(tx, changed);
    return changed;
  });
}

/**
 * Revokes each grant that is in force.
 *
 * Graceful blocks its renewal; the face tells the holder to stop. Force ends it now:
 * from here on no renewal, release or fenced transaction of it succeeds, and the token is raised by
 * one, so that the event holds a token that a sink can be given. Force cannot stop a process that
 * it cannot reach: a *key* ended by force is held back by `stops_by`, until its backend was reported
 * gone or the ended grant would have expired, unless it is abandoned. Leases and environments are
 * free at once.
 *
 * Locks first, judges then, in the order of every batch statement. Index: `lease_lease_id_key`.
 * A request without an answer: the grant is over, or the operator may not see it.
 */
export async function revoke(
  sql: Sql<'general'>,
  face: Face,
  requests: readonly RevokeRequest[],
): Promise<Map<string, RevokedGrant>> {
  const rows = await sql.$queryRaw<Omit<RevokedGrant, 'face'>[]>`
    with asked as materialized (
      select a.lease_id, a.mode, a.abandon, a.actor, a.reason, a.limits, a.detail
      from unnest(
        ${requests.map((r) => r.leaseId)}::uuid[],
        ${requests.map((r) => r.mode)}::text[],
        ${requests.map((r) => r.abandon)}::boolean[],
        ${requests.map((r) => r.actor)}::text[],
        ${requests.map((r) => r.reason)}::text[],
        ${requests.map((r) => (r.namespaces === null ? null : JSON.stringify(r.namespaces)))}::text[],
        ${requests.map(({ detail = {} }) => JSON.stringify(detail))}::text[]
      ) as a (lease_id, mode, abandon, actor, reason, limits, detail)
    ),
    locked as materialized (
      select
        l.face, l.namespace, l.name, l.lease_id, l.released_at, l.end_reason, l.expires_at,
        a.mode, a.abandon, a.actor, a.reason, a.detail
      from asked a
      join lease l on l.lease_id = a.lease_id
      where l.face = ${face} and lease_is_within(l.namespace, a.limits::jsonb)
      order by l.face, l.namespace, l.name
      for no key update of l
    ),
    revoked as (
      update lease l
      set renewable = false,
          end_reason = case when k.mode = 'force' then 'revoked' end,
          fencing_token = l.fencing_token + case when k.mode = 'force' then 1 else 0 end,
          stops_by = case when k.mode = 'force' and l.face = 'key' and not k.abandon then l.expires_at end
      from locked k
      where l.lease_id = k.lease_id and lease_unexpired(k.released_at, k.end_reason, k.expires_at)
      returning l.face, l.namespace, ${SCOPE_NAME}, l.lease_id, l.fencing_token, l.expires_at,
        starts_with(l.name, chr(31)) as is_of_namespace
    ),
    fact as (
      insert into lease_event (
        face, namespace, name, lease_id, fencing_token, kind, actor, reason, detail
      )
      select r.face, r.namespace, r.name, r.lease_id, r.fencing_token, 'revoked', k.actor, k.reason,
        jsonb_build_object('mode', k.mode, 'abandon', k.abandon, 'stopsBy', r.expires_at) || k.detail::jsonb
      from revoked r
      join locked k on k.lease_id = r.lease_id
      order by r.face, r.namespace, r.name
    )
    select r.lease_id as "leaseId", r.namespace, r.name, extract(epoch from r.expires_at)::float8 * 1000 as "stopsBy",
      r.is_of_namespace as "isOfNamespace"
    from revoked r`;
  return new Map(rows.map((row) => [row.leaseId, { face, ...row }]));
}

/**
 * Frees a key that was ended by force and is held back until its backend must be gone: the operator
 * abandons that backend after all. @returns until when it may run, or undefined when nothing was held
 * back, or the operator may not see it.
 *
 * Locks first, judges then. Index: `lease_lease_id_key`.
 */
export async function abandon(
  sql: Sql<'general'>,
  request: OperatorRequest,
): Promise<Omit<RevokedGrant, 'isOfNamespace'> | undefined> {
  const limits = request.namespaces === null ? null : JSON.stringify(request.namespaces);
  const rows = await sql.$queryRaw<Omit<RevokedGrant, 'face' | 'isOfNamespace'>[]>`
    with locked as materialized (
      select l.face, l.namespace, l.name, l.lease_id, l.fencing_token, l.stops_by
      from lease l
      where l.lease_id = ${request.leaseId}::uuid and l.face = 'key' and l.end_reason = 'revoked'
        and l.stops_by is not null and lease_is_within(l.namespace, ${limits}::jsonb)
      for no key update of l
    ),
    let_go as (
      update lease l
      set stops_by = null
      from locked k
      where l.lease_id = k.lease_id and k.stops_by > clock_timestamp()
      returning l.lease_id
    ),
    fact as (
      insert into lease_event (
        face, namespace, name, lease_id, fencing_token, kind, actor, reason, detail
      )
      select k.face, k.namespace, k.name, k.lease_id, k.fencing_token, 'revoked',
        ${request.actor}, ${request.reason},
        jsonb_build_object('mode', 'force', 'abandon', true, 'stopsBy', k.stops_by)
      from locked k
      join let_go g on g.lease_id = k.lease_id
    )
    select k.lease_id as "leaseId", k.namespace, k.name, extract(epoch from k.stops_by)::float8 * 1000 as "stopsBy"
    from locked k
    join let_go g on g.lease_id = k.lease_id`;
  return rows[0] && { face: 'key', ...rows[0] };
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
      returning l.face, l.namespace, ${SCOPE_NAME}, l.lease_id, l.fencing_token
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
