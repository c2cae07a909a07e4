import type { LeaseRow } from '../../../kernel/lease/lease.ts';
import type { GrantRequest, QueueHead } from '../../../kernel/lease/outcomes.ts';
import { C, LEASE_COLUMNS, type Sql } from '../../../postgres/sql.ts';

/** How many waiters a refusal counts at most. */
const COUNTED_WAITERS_MAX = 1_000;

/** Everything that can be a reason why a request was not granted, from one snapshot. */
export interface Refusal {
  /** The resource's row, or undefined when nobody ever held it. */
  readonly row: LeaseRow | undefined;
  /** The first live waiter that is before the request in line. */
  readonly head: QueueHead | undefined;
  readonly waiterCount: number;
  /** Whether its idempotency key was used before. */
  readonly isRecorded: boolean;
}

type RefusalRow = Partial<LeaseRow> & {
  place: number;
  waiterCount: number;
  headWaiter: string | null;
  headCreatedAt: number | null;
  headLapsesInMs: number | null;
  isRecorded: boolean;
};

/**
 * Reads why each request was refused, in the order asked. A plain read: it locks nothing.
 *
 * A request that waits in line is recorded only when its ticket is gone: it was cancelled, or a
 * replay of it was granted. Each read of a table is limited to a row, so that PostgreSQL probes an index
 * for each request, and cannot join it as a whole. **Index**: the primary keys, `lease_waiter_resource_idx`,
 * `lease_waiter_ticket_id_key`.
 */
export async function readRefusals(
  sql: Sql<'general' | 'guests' | 'transitions'>,
  requests: readonly GrantRequest[],
): Promise<Refusal[]> {
  const rows = await sql.$queryRaw<RefusalRow[]>`
    select w.place::int as place, ${LEASE_COLUMNS},
      coalesce(c.count, 0) as "waiterCount",
      h.waiter as "headWaiter", date_part('epoch', h.created_at) * 1000 as "headCreatedAt",
      date_part('epoch', h.valid_until - clock_timestamp()) * 1000 as "headLapsesInMs",
      q.principal is not null as "isRecorded"
    from unnest(
      ${requests.map((request) => request.face)}::text[],
      ${requests.map((request) => request.namespace)}::text[],
      ${requests.map((request) => request.name)}::text[],
      ${requests.map((request) => request.leaseId)}::uuid[],
      ${requests.map((request) => request.principal)}::text[],
      ${requests.map((request) => request.idempotencyKey ?? null)}::text[],
      ${requests.map((request) => request.isQueued === true)}::boolean[]
    ) with ordinality as w (face, namespace, name, lease_id, principal, idempotency_key, is_queued, place)
    left join lateral (
      select l.* from lease l
      where l.face = w.face ${C} and l.namespace = w.namespace ${C} and l.name = w.name ${C}
      limit 1
    ) l on true
    left join lateral (
      select t.id from lease_waiter t where w.is_queued and t.ticket_id = w.lease_id limit 1
    ) own on true
    left join lateral (
      select o.waiter, o.created_at, o.valid_until from lease_waiter o
      where w.face = 'lease' and o.face = w.face ${C} and o.namespace = w.namespace ${C}
        and o.name = w.name ${C} and o.valid_until > clock_timestamp()
        and o.ticket_id <> w.lease_id and (own.id is null or o.id < own.id)
      order by o.id
      limit 1
    ) h on true
    left join lateral (
      select count(*)::int as count from (
        select from lease_waiter o
        where w.face = 'lease' and not w.is_queued and o.face = w.face ${C}
          and o.namespace = w.namespace ${C} and o.name = w.name ${C}
          and o.valid_until > clock_timestamp()
        limit ${COUNTED_WAITERS_MAX}
      ) o
    ) c on true
    left join lateral (
      select q.principal from lease_request q
      where q.principal = w.principal ${C} and q.idempotency_key = w.idempotency_key ${C}
        and (q.lease_id is distinct from w.lease_id or (w.is_queued and own.id is null))
      limit 1
    ) q on true`;
  const refusals = requests.map((): Refusal => ({
    row: undefined,
    head: undefined,
    waiterCount: 0,
    isRecorded: false,
  }));
  for (const { place, ...row } of rows) refusals[place - 1] = refusalOf(row);
  return refusals;
}

function refusalOf(row: Omit<RefusalRow, 'place'>): Refusal {
  const { waiterCount, headWaiter, headCreatedAt, headLapsesInMs, isRecorded, ...lease } = row;
  return {
    row: typeof lease.leaseId === 'string' ? (lease as LeaseRow) : undefined,
    head:
      headWaiter === null || headCreatedAt === null
        ? undefined
        : { waiter: headWaiter, createdAt: headCreatedAt, lapsesInMs: headLapsesInMs ?? 0 },
    waiterCount,
    isRecorded,
  };
}
