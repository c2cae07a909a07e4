import { statusRank } from '../../kernel/backends.ts';
import { LIMITS } from '../../kernel/limits.ts';
import type { ClockBelief } from '../../postgres/clock/clock-watch.ts';
import { isSurelyOver } from '../../postgres/clock/expiry.ts';
import {
  removeAll,
  removeOld,
  type RetentionPass,
  ROWS_PER_STATEMENT_MAX,
} from '../../postgres/retention-pass.ts';
import { C, fragment, onlyRow, type Sql } from '../../postgres/sql.ts';
import { dropLapsedTickets } from './line.ts';

/** How long after its end a row is kept, in hours: replays and late answers find it until then. */
const KEPT_HOURS = 24;
/** Of an environment: there are few, and lists promise those that were held in the last 7 days. */
const ENVIRONMENT_KEPT_HOURS = 8 * 24;
/**
 * Whether a row `l` is the own row of a pool that nobody has held for so long that its slots are deleted. Its time is
 * its token, which grows with each grant. Of a key where all have a limit together the slots are the namespace's: those
 * that still have some are in `busy`.
 */
const IS_IDLE_POOL = fragment`(
  l.pool = l.name
  and l.fencing_token < (
    select floor(extract(epoch from clock_timestamp()) * 1000)::bigint - ${KEPT_HOURS * 3_600_000}::bigint
  )
  and not exists (
    select from lease s
    where s.face = 'lease' and s.namespace = l.namespace and s.name <> l.name
      and s.name > l.name || case when l.name = chr(31) then '' else chr(31) end
      and s.name < case when l.name = chr(31) then '' else l.name end || ' '
  )
  and not exists (select from busy b where b.namespace = l.namespace and b.pool = l.name)
)`;

/** How far the token of a deleted row must be behind the clock, in milliseconds. */
const TOKEN_MARGIN_MS = 3_600_000;

/**
 * Deletes rows of resources that have long been free, in a range of the table's pages, at most
 * `limit` of them. The next grant of such a resource inserts a new row, with a larger token.
 *
 * - **Kept**: rows that ended less than {@link KEPT_HOURS} or, of environments, {@link ENVIRONMENT_KEPT_HOURS} ago, or
 *   whose expiry is not believed yet: a
 *   clock that was stepped forward makes them look old; rows whose token is not behind the
 *   clock by {@link TOKEN_MARGIN_MS}; sealed rows of keys that moved to another datacenter; rows that
 *   a callback, a waiter or a backend that has not terminated still refers to.
 * - **Pools**: the own row of one goes once it has no slots, as rows of free leases those are. A statement that grants
 *   of it meanwhile has locked the row, or finds it gone and opens the pool again.
 * - **Tokens grow**: the largest deleted token is kept in `lease_token_floor`, by the same statement.
 *   A grant inserts a row only when its snapshot shows none; that snapshot then includes this commit,
 *   and so the floor. A grant that still saw the row inserts nothing and is tried again.
 * - **Locks first, judges then**, skipping locked rows: somebody is granting them. The row of the
 *   floor is locked last, and no statement waits for a lease row while it holds it.
 * - **Index**: none on `lease`, whose pages are read in order, as the reaper does. For each row that
 *   would go: `lease_reap_pkey`, `lease_waiter_resource_idx`, `backend_lease_id_key`.
 *
 * @returns how many rows it deleted.
 */
export async function deleteFreeRows(
  sql: Sql<'general'>,
  range: {
    readonly fromPage: number;
    readonly toPage: number;
    readonly limit: number;
    readonly datacenter: string;
    readonly belief: ClockBelief;
  },
): Promise<number> {
  const rows = await sql.$queryRaw<{ deleted: number }[]>`
    with busy as materialized (
      select s.namespace, s.pool
      from lease_declaration d
      cross join lateral (
        select s.namespace, s.pool from lease s
        where s.face = 'lease' and s.namespace = d.namespace and s.name > chr(31) and s.name < ' '
        offset 0
      ) s
      where d.permits_total is not null
    ),
    free as materialized (
      select l.lease_id
      from lease l
      where l.ctid >= ${`(${String(range.fromPage)},0)`}::tid
        and l.ctid < ${`(${String(range.toPage)},0)`}::tid
        and l.end_reason is not null
        and (
          greatest(l.expires_at, l.released_at, l.stops_by)
            < (select clock_timestamp())
              - case when l.face = 'environment' then ${ENVIRONMENT_KEPT_HOURS}::int else ${KEPT_HOURS}::int end
                * interval '1 hour'
          or ${IS_IDLE_POOL}
        )
        and l.fencing_token
          < (select floor(extract(epoch from clock_timestamp()) * 1000)::bigint - ${TOKEN_MARGIN_MS}::bigint)
        and ${isSurelyOver(range.belief)}
        and (l.home_reservation is null
          or starts_with(l.home_reservation, ${`${range.datacenter}.`} ${C}))
        and not exists (select from lease_reap r where r.lease_id = l.lease_id)
        and not exists (
          select from lease_waiter w
          where w.face = l.face and w.namespace = l.namespace and w.name = l.name
        )
        and not exists (
          select from backend b
          where b.lease_id = l.lease_id and b.status_rank < ${statusRank('terminated')}
        )
      limit ${range.limit}
      for update of l skip locked
    ),
    gone as (
      delete from lease l
      using free f
      where l.lease_id = f.lease_id
      returning l.fencing_token, l.face, l.namespace, l.name
    ),
    -- A walk alone would remove names more slowly than grants add them. The next grant of this resource waits
    -- for this commit, and its event adds the name again.
    forgotten as (
      delete from search_name n
      using gone g
      where n.kind = g.face and n.namespace = g.namespace and n.name = g.name
    ),
    raised as (
      update lease_token_floor t
      set floor = greatest(t.floor, g.token)
      from (select max(fencing_token) as token from gone) g
      where g.token > t.floor
    )
    select count(*)::int as deleted from gone`;
  return onlyRow(rows).deleted;
}

/** How long what became of a wait is kept: the longest window that is asked for is a day. */
const WAITS_KEPT_HOURS = 25;

/** How long a request is known that has superseded others: those may ask again for as long as one waits in line. */
const SUPERSEDING_KEPT_HOURS = LIMITS.waitMsInLineMax / 3_600_000 + KEPT_HOURS;

/** How long the callback of an expired lease waits to be called. */
export const CALLBACK_KEPT_MS = 24 * 60 * 60 * 1_000;

/**
 * Removes lease data that nobody needs any more: callbacks that nobody claimed after a day, tickets of waiters that
 * died, and events after the retention time. What has no index on its age has jobs of its own, see
 * `createFreeRowRemover` and `requests.ts`.
 */
export async function removeOldLeaseRows(
  sql: Sql<'general'>,
  retentionDays: number,
  pass: RetentionPass,
): Promise<void> {
  // Index: `lease_event_at_idx`.
  await removeOld(sql, pass, 'events', {
    old: fragment`
      select v.id from lease_event v
      where v.at < clock_timestamp() - ${retentionDays}::int * interval '1 day'
      order by v.at`,
    deletes: fragment`gone as (delete from lease_event v using old where v.id = old.id returning v.id)`,
  });
  // Those that nobody has claimed in time: no use case reaps their namespace, or each call has failed.
  await removeOld(sql, pass, 'callbacks', {
    old: fragment`
      select p.lease_id from lease_reap p
      where p.expired_at < clock_timestamp() - ${CALLBACK_KEPT_MS}::float8 * interval '1 millisecond'`,
    deletes: fragment`
      gone as (delete from lease_reap p using old o where p.lease_id = o.lease_id returning p.lease_id)`,
  });
  // Index: `lease_wait_ended_at_idx`.
  await removeOld(sql, pass, 'waits', {
    old: fragment`
      select w.ended_at, w.ticket_id, w.face, w.namespace, w.name from lease_wait w
      where w.ended_at < clock_timestamp() - ${WAITS_KEPT_HOURS}::int * interval '1 hour'
      order by w.ended_at`,
    deletes: fragment`
      gone as (
        delete from lease_wait w
        using old o
        where w.face = o.face and w.namespace = o.namespace and w.name = o.name
          and w.ended_at = o.ended_at and w.ticket_id = o.ticket_id
        returning w.ticket_id
      )`,
  });
  // Index: `environment_superseding_at_idx`.
  await removeOld(sql, pass, 'superseding', {
    old: fragment`
      select s.namespace, s.name, s.action, s.priority from environment_superseding s
      where s.at < clock_timestamp() - ${SUPERSEDING_KEPT_HOURS}::int * interval '1 hour'
      order by s.at`,
    deletes: fragment`
      gone as (
        delete from environment_superseding s
        using old o
        where s.namespace = o.namespace and s.name = o.name and s.action = o.action and s.priority = o.priority
        returning s.at
      )`,
  });
  await removeAll(pass, 'tickets', () => dropLapsedTickets(sql, ROWS_PER_STATEMENT_MAX));
}
