import type { GrantRequest } from '../../kernel/lease/outcomes.ts';
import { IS_ENDED_BY_WORD, type GrantGuard } from '../../postgres/clock/expiry.ts';
import { C, fragment, type Sql } from '../../postgres/sql.ts';
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
    -- With what only the request has. An inner join of rows that PostgreSQL expects to be ten would compare
    -- a hundred with a hundred; a full one can only be carried out by hashing or sorting. A condition
    -- that null could not fulfil would make it an inner one.
    made as materialized (
      select g.*, c.actor, c.idempotency_key, c.fingerprint, c.ended_at
      from granted g
      full join candidate c on c.lease_id = g.lease_id
      where coalesce(g.lease_id is not null, false)
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select m.face, m.namespace, m.name, m.lease_id, m.fencing_token, 'granted', m.actor,
        ${grantDetail(fragment`m`)}
      from made m
    ),
    request as (
      insert into lease_request (principal, idempotency_key, lease_id, resource, fingerprint)
      select m.principal, m.idempotency_key, m.lease_id,
        concat_ws(chr(31), m.face, m.namespace, m.name), m.fingerprint
      from made m
      where m.idempotency_key is not null
      order by m.principal ${C}, m.idempotency_key ${C}
    )
    select ${grantedColumns(fragment`g.ended_at`)} from made g`;
  return grantsOf(rows, requests);
}
