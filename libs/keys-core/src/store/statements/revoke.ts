import type { Face } from '../../kernel/resource.ts';
import type { Sql } from '../rows.ts';
import type { OperatorRequest } from './set-renewable.ts';

export interface RevokeRequest extends OperatorRequest {
  readonly mode: 'graceful' | 'force';
  /** Force only: whether the resource may be granted again before its holder surely has stopped. */
  readonly abandon: boolean;
}

export interface RevokedGrant {
  readonly leaseId: string;
  /** When the holder has stopped at the latest, as epoch milliseconds of the database. */
  readonly stopsBy: number;
}

/**
 * Revokes each grant that is in force.
 *
 * Graceful blocks its renewal; telling the holder to stop is the face's part. Force ends it now:
 * from here on no renewal, release or fenced transaction of it succeeds, and the token is raised by
 * one, so that the event holds a token which a sink can be told. Force cannot stop a process that
 * it cannot reach: a *key* ended by force is held back by `stops_by`, until its backend was reported
 * gone or the ended grant would have expired, unless it is abandoned. Leases and environments are
 * free at once.
 *
 * Locks first, judges then, in the order of every batch statement. Index: `lease_lease_id_key`.
 * A request without an answer: the grant is over, or not for this operator to see.
 */
export async function revoke(
  sql: Sql,
  face: Face,
  requests: readonly RevokeRequest[],
): Promise<Map<string, RevokedGrant>> {
  const rows = await sql.$queryRaw<RevokedGrant[]>`
    with asked as materialized (
      select a.lease_id, a.mode, a.abandon, a.actor, a.reason, a.limits
      from unnest(
        ${requests.map((r) => r.leaseId)}::uuid[],
        ${requests.map((r) => r.mode)}::text[],
        ${requests.map((r) => r.abandon)}::boolean[],
        ${requests.map((r) => r.actor)}::text[],
        ${requests.map((r) => r.reason)}::text[],
        ${requests.map((r) => (r.namespaces === null ? null : JSON.stringify(r.namespaces)))}::text[]
      ) as a (lease_id, mode, abandon, actor, reason, limits)
    ),
    locked as materialized (
      select
        l.face, l.namespace, l.name, l.lease_id, l.released_at, l.end_reason, l.expires_at,
        a.mode, a.abandon, a.actor, a.reason
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
      returning l.face, l.namespace, l.name, l.lease_id, l.fencing_token, l.expires_at
    ),
    fact as (
      insert into lease_event (
        face, namespace, name, lease_id, fencing_token, kind, actor, reason, detail
      )
      select r.face, r.namespace, r.name, r.lease_id, r.fencing_token, 'revoked', k.actor, k.reason,
        jsonb_build_object('mode', k.mode, 'abandon', k.abandon, 'stopsBy', r.expires_at)
      from revoked r
      join locked k on k.lease_id = r.lease_id
      order by r.face, r.namespace, r.name
    )
    select r.lease_id as "leaseId", extract(epoch from r.expires_at)::float8 * 1000 as "stopsBy"
    from revoked r`;
  return new Map(rows.map((row) => [row.leaseId, row]));
}
