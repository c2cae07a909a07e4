import { UNCONFIRMED_LADDER, type Ladder } from '../../../kernel/lease/ladder.ts';
import type { GrantRequest } from '../../../kernel/lease/outcomes.ts';
import { isHeldOff, type GrantGuard } from '../../../postgres/clock/expiry.ts';
import { C, type Fragment, fragment, isFound } from '../../../postgres/sql.ts';

/** The requests as rows; none while a restored database grants nothing, from its first moment on. */
export function wantedRows(requests: readonly GrantRequest[], mark: GrantGuard['mark']): Fragment {
  return fragment`
      select
        w.lease_id, w.face ${C} as face, w.namespace ${C} as namespace, w.name ${C} as name,
        w.holder, w.principal, w.tag, w.comment, w.metadata::jsonb as metadata,
        w.ttl_ms, w.first_ms, w.renew_after_ms, w.soft_after_ms, w.hard_after_ms, w.actor,
        w.idempotency_key ${C} as idempotency_key, w.fingerprint, w.is_queued,
        w.home_reservation ${C} as home_reservation
      from unnest(
        ${requests.map((r) => r.leaseId)}::uuid[],
        ${requests.map((r) => r.face)}::text[],
        ${requests.map((r) => r.namespace)}::text[],
        ${requests.map((r) => r.name)}::text[],
        ${requests.map((r) => r.holder)}::text[],
        ${requests.map((r) => r.principal)}::text[],
        ${requests.map((r) => r.tag)}::text[],
        ${requests.map((r) => r.comment)}::text[],
        ${requests.map((r) => (r.metadata == null ? null : JSON.stringify(r.metadata)))}::text[],
        ${requests.map((r) => r.ladder.ttlMs)}::int[],
        ${requests.map((r) => firstLadder(r).ttlMs)}::int[],
        ${requests.map((r) => r.ladder.renewAfterMs)}::int[],
        ${requests.map((r) => r.ladder.softAfterMs)}::int[],
        ${requests.map((r) => r.ladder.hardAfterMs)}::int[],
        ${requests.map((r) => r.actor)}::text[],
        ${requests.map((r) => r.idempotencyKey ?? null)}::text[],
        ${requests.map((r) => r.fingerprint ?? null)}::text[],
        ${requests.map((r) => r.isQueued === true)}::boolean[],
        ${requests.map((r) => r.homeReservation ?? null)}::text[]
      ) as w (
        lease_id, face, namespace, name, holder, principal, tag, comment, metadata,
        ttl_ms, first_ms, renew_after_ms, soft_after_ms, hard_after_ms, actor, idempotency_key,
        fingerprint, is_queued, home_reservation
      )
      where not ${isHeldOff(mark)}
  `;
}

/** Whether anybody waits in line for the resource of a request `w`. */
export const IS_AWAITED = isFound(fragment`
  select true from lease_waiter o
  where o.face = w.face and o.namespace = w.namespace and o.name = w.name
    and o.valid_until > clock_timestamp()`);

/** Whether the idempotency key of a request `w` has been used: then it is answered from its record. */
export const IS_USED = isFound(fragment`
  select true from lease_request q
  where q.principal = w.principal ${C} and q.idempotency_key = w.idempotency_key`);

/** The ladder of a new grant, until it is renewed. */
export function firstLadder({ confirms, ladder }: GrantRequest): Ladder {
  return confirms === true ? UNCONFIRMED_LADDER : ladder;
}
