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

/**
 * A position of the write-ahead log, for a witness. Once this statement is committed, the log up to there is
 * on the disk: up to its end, unless commits are answered before that. Only behind a pooler they may be.
 */
export const LOG_PLACE = fragment`
  floor(extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text as run,
  case current_setting('synchronous_commit')
    when 'off' then pg_current_wal_flush_lsn() else pg_current_wal_insert_lsn()
  end::text as position`;

/** Whether the database has gone back behind what this process has seen. Evaluated once per statement. */
export function isBehind({ witnessId, beat, at, run, position }: WitnessMark): Fragment {
  return fragment`(select database_is_behind(
    ${witnessId}::uuid, ${beat}::bigint, to_timestamp(${at / 1000}::float8), ${run}::bigint, ${position}::pg_lsn
  ))`;
}

/** Whether the database grants nothing at all: it was restored or failed over, or has gone back. */
export function isHeldOff(mark: WitnessMark): Fragment {
  return fragment`(
    exists (
      select from database_epoch e
      where database_holds_off(e.hold_off_until, e.system_identifier, e.timeline)
    )
    or ${isBehind(mark)}
  )`;
}
