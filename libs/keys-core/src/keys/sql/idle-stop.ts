/**
 * Idle stop: a backend that nobody has used for its idle time is stopped.
 *
 * A use and a stop lock the backend's row, and each judges it only then, by the database's clock. So either the use
 * comes first, and the stop finds it, or the stop comes first, and the caller who wanted to use the backend is told to
 * look again: nobody is sent to a backend that is being stopped for idleness.
 *
 * Whatever locks several backends takes them in the order of their lease ids, or takes none that somebody else has.
 */
import { traceField } from '@leasehold/service-kit/tracing';
import { createCoalescer, guardNow } from '../../grants/index.ts';
import type { ClockBelief } from '../../postgres/clock/clock-watch.ts';
import { isHeldOff } from '../../postgres/clock/expiry.ts';
import { statusRank } from '../../kernel/backends.ts';
import type { Ladder } from '../../kernel/ladder.ts';
import { LIMITS } from '../../kernel/limits.ts';
import type { Store } from '../../postgres/open-store.ts';
import { arrayText, type Fragment, fragment, isFound, type Sql } from '../../postgres/sql.ts';
import type { StoppingBackend } from './key-backend.ts';

/** The rank from which a backend is on its way out. */
const STOPPING = statusRank('terminating');
const READY = statusRank('ready');

/** A use of the backend that a grant is for. */
export interface BackendUse {
  readonly leaseId: string;
  /** How long ago, when the statement is carried out; 0 for now. */
  readonly usedAgoMs: number;
}

/** Longer than any idle time, and not too long for an interval of the database. */
const AGO_MS_MAX = 2 * LIMITS.idleStopSecondsMax * 1_000;

/** What a backend is after a use of it, by the database's clock. */
export type UsedBackend =
  | {
      readonly state: 'usable';
      readonly leaseId: string;
      readonly backendId: string;
      readonly program: string;
      /** Where it is reached; null before it is ready. */
      readonly address: string | null;
      /** Until its grant expires unless it is renewed, in milliseconds. */
      readonly remainingMs: number;
      readonly ladder: Ladder;
      /**
       * The time in which it is surely not stopped for idleness, in milliseconds, without further uses; null for one
       * that never is. 0 or less for one that may be stopped at any moment: its last use is too old.
       */
      readonly idleRemainingMs: number | null;
      /** When it was read, as epoch milliseconds of the database. */
      readonly asOf: number;
    }
  /** Nobody may be sent to it: its grant has ended or runs out, or it is being stopped, or it does not exist. */
  | { readonly state: 'ended'; readonly leaseId: string };

interface UsedRow {
  readonly leaseId: string;
  readonly isUsable: boolean | null;
  readonly backendId: string;
  readonly program: string;
  readonly address: string | null;
  readonly remainingMs: number;
  readonly renewAfterMs: number;
  readonly softAfterMs: number;
  readonly hardAfterMs: number;
  readonly ttlMs: number;
  readonly idleRemainingMs: number | null;
  readonly asOf: number;
}

/**
 * Notes uses of backends, and reads what has become of these: one answer for each use, in their order.
 *
 * - **Locks** the rows of the backends that have an idle stop, in the order of their lease ids, then judges them. One
 *   that was found idle, or is ending, stays as it is. Others are only read.
 * - The last use only moves forward. It is in no index, so that the update is HOT.
 * - Index: `backend_lease_id_key` and `lease_lease_id_key`, one probe for each use.
 */
export async function touchBackends(
  sql: Sql<'general' | 'transitions' | 'vital'>,
  uses: readonly BackendUse[],
): Promise<UsedBackend[]> {
  if (uses.length === 0) return [];
  const rows = await sql.$queryRaw<UsedRow[]>`
    with used as materialized (
      select u.lease_id, min(u.ago_ms) * interval '1 millisecond' as ago
      from unnest(
        ${arrayText(uses.map(({ leaseId }) => leaseId))}::uuid[],
        ${arrayText(uses.map(({ usedAgoMs }) => Math.min(usedAgoMs, AGO_MS_MAX)))}::float8[]
      ) as u (lease_id, ago_ms)
      group by u.lease_id
    ),
    locked as materialized (
      select b.*, u.ago
      from (select * from used order by lease_id) u
      cross join lateral (
        select b.id, b.lease_id, b.status_rank, b.status_at, b.idle_stop_seconds, b.last_used_at, b.stop_asked_at
        from backend b
        where b.lease_id = u.lease_id and b.idle_stop_seconds is not null
        limit 1
        for no key update
      ) b
    ),
    judged as materialized (
      select k.*, k.stop_asked_at is null and k.status_rank < ${STOPPING} as is_usable,
        -- A use in the future is from before the clock went back.
        greatest(
          case when k.last_used_at <= clock_timestamp() then k.last_used_at end,
          clock_timestamp() - k.ago
        ) as used_at
      from locked k
    ),
    touched as (
      update backend b
      set last_used_at = j.used_at
      from judged j
      -- It cannot be idle before it is ready.
      where b.id = j.id and j.is_usable and j.status_rank >= ${READY}
        and j.used_at is distinct from j.last_used_at
    )
    select
      u.lease_id::text as "leaseId", b.id as "backendId", b.program, b.address,
      -- What was locked is newer than what this statement reads.
      coalesce(j.is_usable, b.status_rank < ${STOPPING})
        and l.renewable and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
        and not ${isStopAsked(fragment`b.id`)} as "isUsable",
      date_part('epoch', l.expires_at - clock_timestamp()) * 1000 as "remainingMs",
      l.renew_after_ms as "renewAfterMs", l.soft_after_ms as "softAfterMs",
      l.hard_after_ms as "hardAfterMs", l.ttl_ms as "ttlMs",
      case when j.status_rank < ${READY} then j.idle_stop_seconds::float8 * 1000
        else date_part('epoch', greatest(j.used_at, j.status_at) - clock_timestamp()) * 1000
          + j.idle_stop_seconds::float8 * 1000
      end as "idleRemainingMs",
      date_part('epoch', clock_timestamp()) * 1000 as "asOf"
    from used u
    left join judged j on j.lease_id = u.lease_id
    cross join lateral (select b.* from backend b where b.lease_id = u.lease_id limit 1) b
    cross join lateral (select l.* from lease l where l.lease_id = u.lease_id limit 1) l`;
  const found = new Map(rows.map((row) => [row.leaseId, row]));
  return uses.map(({ leaseId }) => usedOf(leaseId, found.get(leaseId)));
}

function usedOf(leaseId: string, row: UsedRow | undefined): UsedBackend {
  if (row?.isUsable !== true) return { state: 'ended', leaseId };
  const { backendId, program, address, remainingMs, idleRemainingMs, asOf } = row;
  const { renewAfterMs, softAfterMs, hardAfterMs, ttlMs } = row;
  const ladder = { renewAfterMs, softAfterMs, hardAfterMs, ttlMs };
  const used = { leaseId, backendId, program, address, remainingMs, ladder, idleRemainingMs, asOf };
  return { state: 'usable', ...used };
}

/** Whether somebody has asked for a stop of the backend with this id. */
export function isStopAsked(id: Fragment): Fragment {
  return isFound(fragment`
    select true from backend_action a
    where a.backend_id = ${id} and a.kind = 'terminate' and a.cancelled_at is null`);
}

const USES_PER_STATEMENT_MAX = 200;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

/**
 * Notes that callers are sent to a backend; those that come together share a statement, and one for the same backend
 * a use. @returns a function that is false when nobody may be sent there any more.
 */
export function createToucher(
  store: Pick<Store, 'transitions'>,
): (leaseId: string) => Promise<boolean> {
  const touches = createCoalescer<string, boolean>({
    run: async (leaseIds) => {
      const uses = leaseIds.map((leaseId) => ({ leaseId, usedAgoMs: 0 }));
      const used = await touchBackends(store.transitions, uses);
      return used.map(({ state }) => state === 'usable');
    },
    // Callers of one backend share a statement, however many there are.
    keysOf: () => [],
    batchSizeMax: USES_PER_STATEMENT_MAX,
    inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
  });
  return (leaseId) => touches.submit(leaseId);
}

/** The part of a statement that has a new backend looked at: it is not idle before its idle time has passed. */
export function firstIdleCheck(backendId: string, idleStopSeconds: number): Fragment {
  return fragment`idle_check_made as (
      insert into idle_check (backend_id, due_at)
      select ${backendId}, clock_timestamp() + ${idleStopSeconds}::int * interval '1 second' from granted_here
    ),`;
}

/** How many backends one statement looks at. */
const CHECKS_PER_STATEMENT_MAX = 500;
/** When a backend is looked at again that was to be stopped and cannot be, in milliseconds. */
const AGAIN_MS = 1_000;
/** For how long uses are collected after the clock was not watched, before anything counts as idle; milliseconds. */
const UNWATCHED_MS = 60_000;

export interface IdleStops {
  readonly stopped: readonly StoppingBackend[];
  /** Whether more were due than one statement looks at. */
  readonly isMore: boolean;
}

/**
 * Stops the backends that nobody has used for their idle time, counted from when they were ready: notes on each that
 * a stop was asked for, and puts the stop into the outbox of its drone.
 *
 * - **Reads** what is due alone. A use does not move `due_at`: a backend in use is found here once in each idle time,
 *   and gets the next one. Any number of controllers may do this at once: what another one has is left to it.
 * - **Locks** each backend that is due, and passes over those that somebody has locked, which are due the next time;
 *   judges then. A use that was committed before is seen.
 * - **Stops none** that is not ready, whose stop somebody has asked for, or whose drone does not answer: it could not
 *   be stopped, and would turn its callers away although it runs.
 * - **Believes the clock** only when it has not just jumped, and when it was watched since the last use, for the idle
 *   time, or for {@link UNWATCHED_MS}. After a restore of the database nothing counts as idle until grants are made
 *   again: the last uses may be lost.
 *
 * Index: `idle_check_due_at_idx`, then primary keys.
 */
export async function stopIdleBackends(
  store: Pick<Store, 'transitions' | 'witness' | 'clock' | 'clockWatch'>,
  heartbeatMs: number,
): Promise<IdleStops> {
  await store.witness.ready();
  const { belief, mark } = guardNow(store);
  const [found] = await store.transitions.$queryRaw<
    [{ readonly stopped: StoppingBackend[] | null; readonly dueCount: number }]
  >`
    with due as materialized (
      select c.backend_id
      from idle_check c
      where c.due_at <= (select clock_timestamp())
      order by c.due_at
      limit ${CHECKS_PER_STATEMENT_MAX}
      for update skip locked
    ),
    locked as materialized (
      select b.*
      from due
      cross join lateral (
        select b.id, b.drone_id, b.clock_id, b.lease_id, b.status_rank, b.idle_stop_seconds,
          greatest(b.last_used_at, b.status_at) as used_at
        from backend b
        where b.id = due.backend_id and b.status_rank < ${STOPPING} and b.stop_asked_at is null
        limit 1
        for no key update skip locked
      ) b
    ),
    judged as materialized (
      select k.*,
        ${isIdle(belief, heartbeatMs)} and (select not ${isHeldOff(mark)}) as is_idle
      from locked k
    ),
    ${actsOfIdleStop()}
    select
      (select count(*)::int from due) as "dueCount",
      (
        select jsonb_agg(jsonb_build_object('backendId', j.id, 'droneId', j.drone_id))
        from judged j where j.is_idle
      ) as stopped`;
  return {
    stopped: found.stopped ?? [],
    isMore: found.dueCount === CHECKS_PER_STATEMENT_MAX,
  };
}

/** Whether a backend `k` has been without a use for its idle time, by a clock that is believed. */
function idleBelieved({ until, watchedSince }: ClockBelief): Fragment {
  const since = fragment`to_timestamp(${watchedSince / 1000}::float8)`;
  return fragment`(
    clock_timestamp() >= k.used_at + k.idle_stop_seconds * interval '1 second'
    and clock_timestamp() <= to_timestamp(${until / 1000}::float8)
    and (
      k.used_at >= ${since}
      or clock_timestamp() >= ${since}
        + least(${UNWATCHED_MS}, k.idle_stop_seconds * 1000.0) * interval '1 millisecond'
    )
  )`;
}

/** Whether a backend `k`, which is locked, is to be stopped for idleness. */
function isIdle(belief: ClockBelief, heartbeatMs: number): Fragment {
  return fragment`(
    k.status_rank = ${READY}
    and ${idleBelieved(belief)}
    and not ${isStopAsked(fragment`k.id`)}
    and ${isFound(fragment`
      select true from drone d
      where d.id = k.drone_id and d.lost_at is null and d.clock_id = k.clock_id
        and d.heartbeat_at > clock_timestamp() - ${3 * heartbeatMs}::float8 * interval '1 millisecond'`)}
  )`;
}

/** The parts of the statement that act on what it has judged. */
function actsOfIdleStop(): Fragment {
  return fragment`stopped as (
      update backend b
      set stop_asked_at = clock_timestamp()
      from judged j
      where b.id = j.id and j.is_idle
      returning b.id
    ),
    queued as (
      insert into backend_action (backend_id, drone_id, kind, payload)
      select j.id, j.drone_id, 'terminate', jsonb_build_object(
        'kind', 'terminate', 'clockId', j.clock_id, 'backendId', j.id, 'mode', 'soft', 'reason', 'external'
      ) || ${JSON.stringify(traceField())}::jsonb
      from judged j
      where j.is_idle
    ),
    later as (
      update idle_check c
      set due_at = case
        -- It cannot be idle before it was ready for its idle time.
        when j.status_rank < ${READY} then clock_timestamp() + j.idle_stop_seconds * interval '1 second'
        when j.used_at + j.idle_stop_seconds * interval '1 second' > clock_timestamp()
          then j.used_at + j.idle_stop_seconds * interval '1 second'
        else clock_timestamp() + ${AGAIN_MS}::int * interval '1 millisecond'
      end
      from judged j
      where c.backend_id = j.id and not j.is_idle
    ),
    over as (
      delete from idle_check c
      using due
      where c.backend_id = due.backend_id and (
        due.backend_id in (select j.id from judged j where j.is_idle)
        or not ${isFound(fragment`
          select true from backend b
          where b.id = due.backend_id and b.status_rank < ${STOPPING} and b.stop_asked_at is null`)}
      )
    )`;
}
