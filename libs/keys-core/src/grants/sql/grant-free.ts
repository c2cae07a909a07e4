import type { GrantRequest } from '../../kernel/lease/outcomes.ts';
import { IS_ENDED_BY_WORD, type GrantGuard } from '../../postgres/clock/expiry.ts';
import { fragment, type Sql } from '../../postgres/sql.ts';
import { grantDetail } from './parts/grant-facts.ts';
import { type Granted, grantedColumns, type GrantedRow, grantsOf } from './parts/granted-rows.ts';
import { freeCandidates, upsertGrants } from './parts/upsert-grants.ts';
import { IS_AWAITED, IS_USED, wantedRows } from './parts/wanted-rows.ts';

/** Whether {@link grantFree} can grant a request: it does not wait in line, and names no reservation. */
export function isPlain({ isQueued, homeReservation }: GrantRequest): boolean {
  return isQueued !== true && homeReservation === undefined;
}

/**
 * Grants each resource that nobody ever held, or whose last grant somebody has ended, and for which
 * nobody waits: what most requests meet. Whatever it does not grant may still be granted by the full
 * statement, {@link grant} of `grant.ts`, which costs twice as much: one that ended by time alone,
 * a place in line, a key at home here.
 *
 * The two share their parts, and so what they promise:
 *
 * - **Locks**: only rows that it takes, in the order (face, namespace, name). It passes over locked ones.
 * - **Atomic because** {@link upsertGrants} judges after the row lock.
 * - **Between the two statements** anything may happen: the second one judges by itself.
 * - **Index**: the primary keys of `lease` and `lease_request`, `lease_waiter_resource_idx`.
 *
 * `requests` must be plain, and name each resource once.
 */
export async function grantFree(
  sql: Sql<'transitions'>,
  requests: readonly GrantRequest[],
  mark: GrantGuard['mark'],
): Promise<Granted> {
  const rows = await sql.$queryRaw<GrantedRow[]>`
    with wanted as materialized (
      select w.* from (${wantedRows(requests, mark)}) w order by w.face, w.namespace, w.name
    ),
    ${freeCandidates(
      IS_ENDED_BY_WORD,
      fragment`(w.face <> 'lease' or not ${IS_AWAITED})
        and (w.idempotency_key is null or not ${IS_USED})`,
    )},
    ${upsertGrants(IS_ENDED_BY_WORD)},
    -- What a row of the table does not have, by its place: PostgreSQL expects ten rows, and would join
    -- a hundred with a hundred by comparing all of them.
    asked as materialized (
      select array_agg(c.lease_id) as lease_ids, array_agg(c.actor) as actors,
        array_agg(c.idempotency_key) as idempotency_keys, array_agg(c.fingerprint) as fingerprints,
        array_agg(c.ended_at) as ended_ats
      from candidate c
    ),
    placed as materialized (
      select g.*, array_position(a.lease_ids, g.lease_id) as place from granted g cross join asked a
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select p.face, p.namespace, p.name, p.lease_id, p.fencing_token, 'granted', a.actors[p.place],
        ${grantDetail(fragment`p`)}
      from placed p
      cross join asked a
    ),
    request as (
      insert into lease_request (principal, idempotency_key, lease_id, resource, fingerprint)
      select p.principal, a.idempotency_keys[p.place], p.lease_id,
        concat_ws(chr(31), p.face, p.namespace, p.name), a.fingerprints[p.place]
      from placed p
      cross join asked a
      where a.idempotency_keys[p.place] is not null
    )
    select ${grantedColumns(fragment`a.ended_ats[g.place]`)} from placed g cross join asked a`;
  return grantsOf(rows, requests);
}
