/**
 * The newest requests for environments that have superseded others. Whom they find in line they end there, see
 * `supersedeWaiting`; one that has lost a grant before, and asks again, is ended by these records: it would come after them.
 */
import { C, type Sql } from '../../postgres/sql.ts';
import type { EnvironmentTicketRequest } from './environment-line.ts';

/**
 * Records a request as the newest one of its priority that supersedes. After `supersedeWaiting`: a grant that was under way
 * to somebody in line has an event by then. By the numbers of events, because a clock may be stepped.
 */
export async function recordSuperseding(
  tx: Sql<'general'>,
  request: EnvironmentTicketRequest,
  refusal: object,
): Promise<void> {
  await tx.$queryRaw`
    insert into environment_superseding as s (
      namespace, name, action, priority, at, after_event_id, request_id, refusal
    )
    values (
      ${request.namespace}, ${request.name}, ${request.action}, ${request.priority}, clock_timestamp(),
      coalesce(pg_sequence_last_value('lease_event_id_seq'), 0),
      lease_request_id(${request.principal}, ${request.idempotencyKey}), ${JSON.stringify(refusal)}::jsonb
    )
    on conflict (namespace, name, action, priority) do update
      set at = excluded.at, after_event_id = excluded.after_event_id, request_id = excluded.request_id,
        refusal = excluded.refusal
    returning s.priority`;
}

/**
 * Refuses a request whose caller has lost an earlier one, if that was superseded: its grant was revoked for that, or
 * another has come that supersedes since it was granted, or was last in line. Records the refusal, with an event: sent again,
 * it gets the same. Does nothing if it was here before. After `takeTurnsInLine`: who comes later finds it in line.
 *
 * - **Index**: `lease_request_pkey`, `lease_event_lease_id_idx`, `environment_superseding_pkey`.
 *
 * @param lostKey the idempotency key of the earlier request. One that is not known any more was not superseded.
 * @returns whether it is refused.
 */
export async function refuseIfSuperseded(
  tx: Sql<'general'>,
  request: EnvironmentTicketRequest,
  lostKey: string,
): Promise<boolean> {
  const rows = await tx.$queryRaw<unknown[]>`
    with lost as materialized (
      select q.id, q.lease_id, q.created_at, (
          select e.id from lease_event e
          where e.lease_id = q.lease_id and e.kind in ('granted', 'taken_over')
          order by e.id
          limit 1
        ) as event_id
      from lease_request q
      where q.id = lease_request_id(${request.principal}, ${lostKey})
    ),
    superseded as materialized (
      select l.created_at, coalesce(
          (
            select v.detail -> 'superseded' from lease_event v
            where v.lease_id = l.lease_id and v.kind = 'revoked' and v.detail ? 'superseded'
            order by v.id
            limit 1
          ),
          (
            select s.refusal from environment_superseding s
            where s.namespace = ${request.namespace} ${C} and s.name = ${request.name} ${C}
              and s.action = ${request.action} ${C} and s.priority >= ${request.priority}
              and s.request_id <> l.id
              -- One that was never granted was superseded in its line, unless it had left that.
              and coalesce(l.event_id <= s.after_event_id, l.created_at < s.at)
            order by s.after_event_id desc
            limit 1
          )
        ) as refusal
      from lost l
    ),
    refused as (
      insert into lease_request (id, answer, face, fingerprint)
      select lease_request_id(${request.principal}, ${request.idempotencyKey}), s.refusal, 'environment',
        ${request.fingerprint ?? null}
      from superseded s
      where s.refusal is not null
      on conflict (id) do nothing
      returning id
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select 'environment', ${request.namespace}, ${request.name}, ${request.ticketId}::uuid, 0, 'superseded',
        ${request.actor},
        jsonb_build_object(
          'holder', ${request.waiter}::text, 'principal', ${request.principal}::text,
          'action', ${request.action}::text, 'comment', ${request.comment}::text, 'since', s.created_at,
          'by', s.refusal #> '{error,details,by}', 'byComment', s.refusal #> '{error,details,byComment}')
      from refused r cross join superseded s
    )
    select true from refused`;
  return rows.length > 0;
}
