/** The rows that a statement is asked to grant, and those that it returns. */
import { type Ladder, UNCONFIRMED_LADDER } from '../../kernel/ladder.ts';
import type { EndReason, Grant, GrantRequest } from '../../kernel/lease.ts';
import { type GrantGuard, isHeldOff, LOG_PLACE } from '../../postgres/clock/expiry.ts';
import {
  arrayText,
  C,
  type Fragment,
  fragment,
  isFound,
  NO_FRAGMENT,
  textArray,
} from '../../postgres/sql.ts';
import { laterToken, type LogPlace, type Seen } from '../../postgres/witness/witness-stamp.ts';

/** The requests as rows; none while a restored database grants nothing, from its first moment on. */
export function wantedRows(requests: readonly GrantRequest[], mark: GrantGuard['mark']): Fragment {
  return fragment`
      select
        w.lease_id, w.face ${C} as face, w.namespace ${C} as namespace, w.name ${C} as name,
        w.holder, w.principal, w.tag, w.comment, w.metadata::jsonb as metadata,
        w.ttl_ms, w.first_ms, w.renew_after_ms, w.soft_after_ms, w.hard_after_ms, w.actor,
        lease_request_id(w.principal, w.idempotency_key) as request_id, w.fingerprint, w.is_queued,
        w.home_reservation ${C} as home_reservation
      from unnest(
        ${arrayText(requests.map((r) => r.leaseId))}::uuid[],
        ${textArray(requests.map((r) => r.face))}::text[],
        ${textArray(requests.map((r) => r.namespace))}::text[],
        ${textArray(requests.map((r) => r.name))}::text[],
        ${textArray(requests.map((r) => r.holder))}::text[],
        ${textArray(requests.map((r) => r.principal))}::text[],
        ${textArray(requests.map((r) => r.tag))}::text[],
        ${textArray(requests.map((r) => r.comment))}::text[],
        ${textArray(requests.map((r) => (r.metadata == null ? null : JSON.stringify(r.metadata))))}::text[],
        ${arrayText(requests.map((r) => r.ladder.ttlMs))}::int[],
        ${arrayText(requests.map((r) => firstLadder(r).ttlMs))}::int[],
        ${arrayText(requests.map((r) => r.ladder.renewAfterMs))}::int[],
        ${arrayText(requests.map((r) => r.ladder.softAfterMs))}::int[],
        ${arrayText(requests.map((r) => r.ladder.hardAfterMs))}::int[],
        ${textArray(requests.map((r) => r.actor))}::text[],
        ${textArray(requests.map((r) => r.idempotencyKey ?? null))}::text[],
        ${textArray(requests.map((r) => r.fingerprint ?? null))}::text[],
        ${arrayText(requests.map((r) => r.isQueued === true))}::boolean[],
        ${textArray(requests.map((r) => r.homeReservation ?? null))}::text[]
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
  select true from lease_request q where q.id = w.request_id`);

/**
 * Whether the lease of a request `w` has a number of permits: then it is granted by permits alone, and not in the
 * ordinary way. One probe of `lease_declaration_pkey`.
 */
export const HAS_PERMITS = isFound(fragment`
  select true from lease_declaration d
  where w.face = 'lease' and d.namespace = w.namespace and d.permits_per_key is not null`);

/** Not {@link HAS_PERMITS}, where leases are asked for: a probe costs time even where it is not carried out. */
export function andNoPermits(requests: readonly Pick<GrantRequest, 'face'>[]): Fragment {
  const areLeases = requests.some(({ face }) => face === 'lease');
  return areLeases ? fragment` and not ${HAS_PERMITS}` : NO_FRAGMENT;
}

/**
 * The tickets of the statement's `wanted` whose turn it may be, locked, as its `ticket`. A grant that became of a ticket
 * before is no turn of it: a replay that joins the line late must not be granted what it has held and released.
 */
export function lockedTickets(skip: Fragment, order = NO_FRAGMENT): Fragment {
  return fragment`
    ticket as materialized (
      select t.*
      from (
        select w.face, w.namespace, w.name, w.lease_id from wanted w where w.is_queued ${order}
      ) w
      cross join lateral (
        select t.ticket_id, t.id
        from lease_waiter t
        where t.ticket_id = w.lease_id
          and t.face = w.face and t.namespace = w.namespace and t.name = w.name
          and not exists (
            select from lease_event e
            where e.lease_id = t.ticket_id and e.kind in ('granted', 'taken_over')
          )
        for update of t ${skip}
      ) t
    )`;
}

/** When the grant of a row `l` ended. When a revocation by force was, only its event says. */
export const ENDED_AT = fragment`
  case
    when l.released_at is not null then l.released_at
    when l.end_reason is null or l.end_reason = 'expired' then l.expires_at
  end`;

/** The ladder of a new grant, until it is renewed. */
export function firstLadder({ confirms, ladder }: GrantRequest): Ladder {
  return confirms === true ? UNCONFIRMED_LADDER : ladder;
}

export interface GrantedRow
  extends
    Pick<Grant, 'leaseId' | 'fencingToken' | 'grantedAt' | 'expiresAt' | 'asOf' | 'freeMs'>,
    LogPlace {
  previousLeaseId: string | null;
  previousFencingToken: string | null;
  previousEnd: EndReason | 'lapsed' | 'unconfirmed' | null;
}

export interface Granted {
  /** What was granted, by lease id. */
  readonly grants: ReadonlyMap<string, Grant>;
  /** What a witness has seen once this is committed: how far the log had come, the largest token. */
  readonly seen: Seen;
}

/** The columns of a {@link GrantedRow}, from the statement's `granted` as `g`. */
export function grantedColumns(previousEndedAt: Fragment): Fragment {
  return fragment`
      g.lease_id as "leaseId", g.fencing_token::text as "fencingToken",
      date_part('epoch', g.granted_at) * 1000 as "grantedAt",
      date_part('epoch', g.expires_at) * 1000 as "expiresAt",
      date_part('epoch', clock_timestamp()) * 1000 as "asOf",
      g.previous_lease_id as "previousLeaseId",
      g.previous_fencing_token::text as "previousFencingToken",
      g.previous_end as "previousEnd",
      date_part('epoch', g.granted_at - ${previousEndedAt}) * 1000 as "freeMs",
      ${LOG_PLACE}`;
}

/** The grants that these requests led to. */
export function grantsOf(rows: readonly GrantedRow[], requests: readonly GrantRequest[]): Granted {
  const requestOf = new Map(requests.map((request) => [request.leaseId, request]));
  const grants = new Map<string, Grant>();
  let fencingToken = '0';
  for (const row of rows) {
    const request = requestOf.get(row.leaseId);
    if (request !== undefined) grants.set(row.leaseId, grantOf(row, request));
    fencingToken = laterToken(fencingToken, row.fencingToken);
  }
  const last = rows.at(-1);
  if (last === undefined) return { grants, seen: {} };
  const { run, position } = last;
  return { grants, seen: { place: { run, position }, fencingToken } };
}

function grantOf(row: GrantedRow, request: GrantRequest): Grant {
  const { leaseId, fencingToken, grantedAt, expiresAt, asOf, freeMs } = row;
  const { previousLeaseId, previousFencingToken, previousEnd } = row;
  const isFirst = previousLeaseId === null || previousFencingToken === null || previousEnd === null;
  return {
    face: request.face,
    namespace: request.namespace,
    name: request.name,
    leaseId,
    fencingToken,
    grantedAt,
    expiresAt,
    asOf,
    freeMs,
    ladder: firstLadder(request),
    remainingMs: expiresAt - asOf,
    previous: isFirst
      ? null
      : {
          leaseId: previousLeaseId,
          fencingToken: previousFencingToken,
          end: previousEnd === 'lapsed' || previousEnd === 'unconfirmed' ? 'expired' : previousEnd,
        },
  };
}
