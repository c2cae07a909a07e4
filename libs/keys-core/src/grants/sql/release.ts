import type { GrantRef, ReleaseOutcome } from '../../kernel/lease.ts';
import type { Face, Resource } from '../../kernel/resource.ts';
import {
  arrayText,
  type Fragment,
  fragment,
  isFace,
  NO_FRAGMENT,
  SCOPE_NAME,
  type Sql,
  textArray,
} from '../../postgres/sql.ts';
import { firstInEnvironmentLine } from './environment-line.ts';
import { expiredReason, IS_CONFIRMED } from './facts.ts';
import { BEGUN, isInTime, LASTS, unlessLate } from './in-time.ts';

/** A release that a holder asks for. */
export interface ReleaseRequest extends GrantRef {
  readonly principal: string;
  readonly actor: string;
  readonly result: 'ok' | 'failed';
  readonly detail: string | null;
}

/** The outcome of a release. */
export interface Released extends Resource {
  readonly leaseId: string;
  readonly outcome: ReleaseOutcome;
  /** What an environment was leased for. */
  readonly tag: string;
  /** How long it was held until now, in milliseconds. */
  readonly heldMs: number;
  /** The first ticket in the line for the released resource; null if nobody waits. */
  readonly nextTicketId: string | null;
  /**
   * What it was a slot of: then several in line may have their turn. `namespace` if the permits of all keys are
   * limited together: then those in line for any of them may. Null for a lease that one holds at a time.
   */
  readonly slotOf: 'scope' | 'namespace' | null;
}

/**
 * Releases each grant that is in force, if its holder asks with its token. The row stays, with its
 * token, so that the next grant's is greater.
 *
 * - **Locks first, judges then**. A batch skips locked rows, so that it cannot be part of a deadlock;
 *   what was skipped is released alone, waiting up to the connection's `statement_timeout`.
 * - **A late release changes nothing**: it goes by lease id and token, and the holder of the
 *   resource now has another lease id. This is keel's reason for an id of its own.
 * - **An expired grant is not released but ended as expired**, with its one event: a release that
 *   came too late must not hide that the holder overstayed.
 * - **Index**: `lease_lease_id_key`.
 * - **A request without an answer** was skipped, or no row has its lease id and principal any more.
 */
export async function release(
  sql: Sql<'general' | 'guests' | 'slowLane' | 'transitions' | 'vital'>,
  face: Face,
  requests: readonly ReleaseRequest[],
  onLocked: 'skip' | 'wait',
): Promise<Map<string, Released>> {
  const skip = onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT;
  const rows = await sql.$queryRaw<Released[]>`
    with asked as materialized (${askedReleases(requests)}),
    locked as materialized (
      select k.*, a.fencing_token as asked_token, a.actor, a.result, a.detail
      from asked a
      cross join lateral (
        select
          l.face, l.namespace, ${SCOPE_NAME}, ${SLOT_OF}, l.lease_id, l.fencing_token, l.released_at,
          l.end_reason, l.expires_at, l.tag, l.granted_at
        from lease l
        where l.lease_id = a.lease_id and l.principal = a.principal and l.face ${isFace(face)}
        for no key update of l ${skip}
      ) k
    ),
    judged as materialized (
      select k.*,
        case
          when k.end_reason = 'released' then 'already_released'
          when k.end_reason = 'removed' then 'expired'
          when k.end_reason is not null then k.end_reason
          when k.fencing_token <> k.asked_token then 'superseded'
          when not lease_unexpired(k.released_at, k.end_reason, k.expires_at) then 'expired'
          else 'released'
        end as outcome
      from locked k
    ),
    ended as (
      update lease l
      set released_at = case when j.outcome = 'released' then clock_timestamp() end,
          end_reason = j.outcome
      from judged j
      where l.lease_id = any(array(select k.lease_id from judged k)) and l.lease_id = j.lease_id
        and j.end_reason is null and j.outcome in ('released', 'expired')
      returning l.face, l.namespace, ${SCOPE_NAME}, l.lease_id, l.fencing_token, l.end_reason, ${IS_CONFIRMED}
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, reason)
      select
        e.face, e.namespace, e.name, e.lease_id, e.fencing_token,
        case
          when e.end_reason = 'expired' then 'expired'
          when j.result = 'failed' then 'failed'
          else 'released'
        end,
        case when e.end_reason = 'expired' then 'leasehold' else j.actor end,
        case
          when e.end_reason = 'released' then j.detail
          else ${expiredReason(fragment`e.is_confirmed`)}
        end
      from ended e
      join judged j on j.lease_id = e.lease_id
      order by e.face, e.namespace, e.name
    ),
    reap as (
      insert into lease_reap (lease_id, face, namespace, name, fencing_token)
      select e.lease_id, e.face, e.namespace, e.name, e.fencing_token
      from ended e
      where e.end_reason = 'expired' and e.face = 'lease' and e.is_confirmed
      on conflict (lease_id) do nothing
    )
    select ${releasedColumns(face, fragment`j`)}
    from judged j`;
  return new Map(rows.map((row) => [row.leaseId, row]));
}

/**
 * Releases each grant that is in force for a while yet, if its holder asks with its token: what most requests meet.
 * Whatever is without an answer here is for the full statement, {@link release}, which also
 * knows of grants that are over, costs a third more, and judges by itself.
 *
 * - **Does not lock first**, and so writes each row once and not twice: `IN_TIME` has what makes that safe.
 * - **Waits for a locked row, but hardly**, and fails as a whole then.
 * - **A late release changes nothing**: it goes by lease id and token.
 * - **Index**: `lease_lease_id_key`, `lease_waiter_resource_idx`. Changes no indexed column, so that it stays HOT.
 *
 * @returns undefined when it failed for one of these reasons, and did nothing.
 */
export async function releaseHeld(
  sql: Sql<'transitions'>,
  face: Face,
  requests: readonly ReleaseRequest[],
): Promise<Map<string, Released> | undefined> {
  const rows = await unlessLate(
    () => sql.$queryRaw<Released[]>`
    with ${BEGUN},
    -- Limited to a row, so that it is one probe of the index for each request, whenever it was planned.
    asked as materialized (
      select a.*, k.row_at
      from (${askedReleases(requests)}) a
      cross join lateral (
        select l.ctid as row_at from lease l
        where l.lease_id = a.lease_id and l.principal = a.principal and l.face ${isFace(face)}
        limit 1
      ) k
    ),
    ended as (
      update lease l
      set released_at = clock_timestamp(), end_reason = 'released'
      from asked a
      -- A row that was changed since is judged again. By nothing that an index could be read through for.
      where l.ctid = a.row_at and l.lease_id is not distinct from a.lease_id
        and l.fencing_token = a.fencing_token
        and l.released_at is null and l.end_reason is null and ${LASTS}
      returning
        l.face, l.namespace, ${SCOPE_NAME}, ${SLOT_OF}, l.lease_id, l.fencing_token, l.tag, l.granted_at,
        a.actor, a.result, a.detail, 'released' as outcome
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, reason)
      select e.face, e.namespace, e.name, e.lease_id, e.fencing_token,
        case when e.result = 'failed' then 'failed' else 'released' end, e.actor, e.detail
      from ended e
    )
    select ${releasedColumns(face, fragment`e`)}, ${isInTime(fragment`clock_timestamp()`)}
    from ended e`,
  );
  return rows === undefined ? undefined : new Map(rows.map((row) => [row.leaseId, row]));
}

/** The requests as rows. */
function askedReleases(requests: readonly ReleaseRequest[]): Fragment {
  return fragment`
      select a.lease_id, a.fencing_token, a.principal collate "C" as principal, a.actor, a.result, a.detail
      from unnest(
        ${arrayText(requests.map((r) => r.leaseId))}::uuid[],
        ${arrayText(requests.map((r) => r.fencingToken))}::bigint[],
        ${textArray(requests.map((r) => r.principal))}::text[],
        ${textArray(requests.map((r) => r.actor))}::text[],
        ${textArray(requests.map((r) => r.result))}::text[],
        ${textArray(requests.map((r) => r.detail))}::text[]
      ) as a (lease_id, fencing_token, principal, actor, result, detail)`;
}

/** What a slot `l` is a part of; null for a lease that one holds at a time. */
const SLOT_OF = fragment`
          case when l.pool is not null then
            case when starts_with(l.name, chr(31)) then 'namespace' else 'scope' end
          end as slot_of`;

/** The columns of a {@link Released}, from rows of the grants with their `outcome`. */
function releasedColumns(face: Face, j: Fragment): Fragment {
  return fragment`
      ${j}.lease_id as "leaseId", ${j}.outcome, ${j}.face, ${j}.namespace, ${j}.name, ${j}.tag,
      date_part('epoch', clock_timestamp() - ${j}.granted_at) * 1000 as "heldMs",
      ${j}.slot_of as "slotOf",
      case when ${j}.outcome = 'released' then ${firstInLine(face, j)} end as "nextTicketId"`;
}

/** Only that of its face: a part of a plan costs time even where it is not carried out. Nobody waits for a key. */
function firstInLine(face: Face, j: Fragment): Fragment {
  if (face === 'key') return fragment`null`;
  if (face === 'environment') return firstInEnvironmentLine(j);
  return fragment`(
        select w.ticket_id from lease_waiter w
        where w.face = ${j}.face and w.namespace = ${j}.namespace and w.name = ${j}.name
          and w.valid_until > clock_timestamp()
        order by w.id
        limit 1
      )`;
}
