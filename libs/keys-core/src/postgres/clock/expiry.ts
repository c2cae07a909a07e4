/**
 * How a statement decides about expiry, and what else a grant requires of the database. The one
 * place that states it in SQL: every statement that acts on expiry uses it. The alias of
 * `lease` must be `l`.
 */
import type { ClockBelief } from './clock-watch.ts';
import { fragment, type Fragment } from '../sql.ts';
import type { WitnessMark } from '../witness/witness-stamp.ts';

/** Passed to every statement that grants. */
export interface GrantGuard {
  readonly belief: ClockBelief;
  readonly mark: WitnessMark;
}

/**
 * Whether it is believed that a grant has expired: the database's clock has not jumped just before
 * this statement, and was watched since the grant was last renewed, or for as long as its TTL,
 * or up to its expiry. Only for rows whose grant is over.
 */
export function expiryBelieved({ until, watchedSince, settledUntil }: ClockBelief): Fragment {
  return fragment`(
    clock_timestamp() <= to_timestamp(${until / 1000}::float8)
    and (
      l.renewed_at >= to_timestamp(${watchedSince / 1000}::float8)
      or clock_timestamp() >= to_timestamp(${watchedSince / 1000}::float8) + l.ttl_ms * interval '1 millisecond'
      or greatest(l.expires_at, l.stops_by) <= to_timestamp(${settledUntil / 1000}::float8)
    )
  )`;
}

/**
 * Until when the own row of a pool is held back: without end. Finite, because controllers of the previous version
 * show it as a date.
 */
export const NEVER = fragment`'9999-12-31T00:00:00Z'::timestamptz`;

/** Whether a grant was ended by somebody, and not by time alone, and nobody can still act on it. */
export const IS_ENDED_BY_WORD = fragment`(l.end_reason in ('released', 'revoked', 'removed') and l.stops_by is null)`;

/** Whether nobody can still act on a row's grant: only for rows whose grant is over. */
export function isSurelyOver(belief: ClockBelief): Fragment {
  return fragment`(${IS_ENDED_BY_WORD} or ${expiryBelieved(belief)})`;
}

/** Whether a resource that has this row may be granted. */
export function isTakable(belief: ClockBelief): Fragment {
  return fragment`(
    lease_takable(l.released_at, l.end_reason, l.expires_at, l.stops_by) and ${isSurelyOver(belief)}
  )`;
}

/** In which run of the server this is: its start, in epoch microseconds. */
export const SERVER_RUN = fragment`floor(extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint`;

/**
 * A position of the write-ahead log, for a witness. Once this statement is committed, the log up to there is
 * on the disk: up to its end, unless commits are answered before that. Only behind a pooler they may be. The run is
 * read once for all rows.
 */
export const LOG_PLACE = fragment`
  (select ${SERVER_RUN}::text) as run,
  case current_setting('synchronous_commit')
    when 'off' then pg_current_wal_flush_lsn() else pg_current_wal_insert_lsn()
  end::text as position`;

/**
 * Whether the database has lost something that a witness had seen in it: the witness's own row is
 * missing or behind, or the write-ahead log is. Within one run of the server the log is compared as it
 * is now. After a restart it is compared with where the newest checkpoint began: whatever was written
 * before the restart and is not lost lies before that.
 * A row that is missing because it was removed for its age tells nothing.
 *
 * Evaluated once per statement, and in it: a function with a query of its own takes longer than a grant.
 */
export function isBehind({ witnessId, beat, at, run, position }: WitnessMark): Fragment {
  return fragment`(select
    coalesce(
      (select w.beat < ${beat}::bigint from database_witness w where w.id = ${witnessId}::uuid),
      to_timestamp(${at / 1000}::float8) > clock_timestamp() - interval '47 hours'
    )
    or ${position}::pg_lsn > case
      when ${run}::bigint = ${SERVER_RUN} then pg_current_wal_flush_lsn()
      else (select c.redo_lsn from pg_control_checkpoint() as c)
    end
  )`;
}

/**
 * Whether the database grants nothing at all: for a time after a restore or a failover was noted, from the
 * first moment in which the database is another one than was noted, and when it has gone back. Its system
 * identifier is read from a file, once for each run of the server, in which it cannot change.
 */
export function isHeldOff(mark: WitnessMark): Fragment {
  return fragment`(
    exists (
      select from database_epoch e
      where coalesce(e.hold_off_until > clock_timestamp(), false)
        or e.timeline <> database_timeline()
        or case
          when e.identified_run = ${SERVER_RUN} then false
          else e.system_identifier <> (select s.system_identifier::text from pg_control_system() as s)
        end
    )
    or ${isBehind(mark)}
  )`;
}
