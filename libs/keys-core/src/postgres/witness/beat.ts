import type { ClockBelief } from '../clock/clock-watch.ts';
import { removeOld, type RetentionPass } from '../retention-pass.ts';
import { fragment, onlyRow, type Sql } from '../sql.ts';
import type { LogPlace, WitnessMark } from './witness-stamp.ts';
import { isBehind, LOG_PLACE } from '../clock/expiry.ts';

/** For how many days after its last beat a row is kept: longer than any TTL. See `database_is_behind`. */
const KEPT_DAYS = 2;

/** How far the database has come. Instants are epoch milliseconds of the database. */
export interface DatabasePlace extends LogPlace {
  readonly asOf: number;
}

const PLACE = fragment`
  extract(epoch from clock_timestamp())::float8 * 1000 as "asOf", ${LOG_PLACE}`;

/** Inserts a process's own row, with beat 1. Its id must be new. */
export async function insertWitness(
  sql: Sql<'renewals'>,
  witnessId: string,
): Promise<DatabasePlace> {
  return onlyRow(
    await sql.$queryRaw<DatabasePlace[]>`
      insert into database_witness (id, beat, at)
      values (${witnessId}::uuid, 1, clock_timestamp())
      returning ${PLACE}`,
  );
}

export interface BeatRequest {
  readonly mark: WitnessMark;
  /** Greater than every beat that was tried: the outcome of an earlier try may be unknown. */
  readonly nextBeat: number;
  /** Of the epoch that the mark belongs to. */
  readonly epochToken: string;
  readonly belief: ClockBelief;
}

/** What a beat found. */
export interface BeatAnswer extends DatabasePlace {
  /** Whether the row has the next beat now. */
  readonly isMoved: boolean;
  /** Whether the row was there: it is removed when its process was suspended for days. */
  readonly isThere: boolean;
  /** Whether the database has lost something that the mark shows. */
  readonly isBehind: boolean;
  /** Whether the system identifier or the timeline differs from the noted one. */
  readonly isOther: boolean;
  /** Of the database's epoch; null when it has none. */
  readonly epoch: number | null;
  readonly epochToken: string | null;
  readonly secret: string | null;
  readonly longestTtlMs: number;
  readonly settledUntil: number;
  /** The start of the longest watch of another process that overlaps this one's; null when none exists. */
  readonly othersSince: number | null;
}

/**
 * Advances a process's own row by a beat, and reads how far the database has come.
 *
 * - **Moves nothing** when the database is behind the mark, is of another epoch, or another process
 *   has moved the row: then `isMoved` is false, and the other fields show which.
 * - **The watch** is written only when this very statement has not met a jump.
 * - **Settles** what has expired when this process has watched for as long as the longest TTL; and takes
 *   back what was settled ahead of a clock that has gone back.
 * - **Index**: the primary keys. The witnesses of others, a few rows, are read whole.
 */
export async function beat(sql: Sql<'renewals'>, request: BeatRequest): Promise<BeatAnswer> {
  const { mark, nextBeat, epochToken, belief } = request;
  const since = fragment`to_timestamp(${belief.watchedSince / 1000}::float8)`;
  const isWatched = fragment`clock_timestamp() <= to_timestamp(${belief.until / 1000}::float8)`;
  return onlyRow(
    await sql.$queryRaw<BeatAnswer[]>`
      with found as materialized (
        select ${isBehind(mark)} as is_behind,
          s.system_identifier::text as system_identifier, database_timeline() as timeline
        from pg_control_system() s
      ),
      moved as (
        update database_witness w
        set beat = ${nextBeat}::bigint, at = clock_timestamp(),
            watched_since = case when ${isWatched} then ${since} end
        where w.id = ${mark.witnessId}::uuid
          and w.beat >= ${mark.beat}::bigint and w.beat < ${nextBeat}::bigint
          and not (select f.is_behind from found f)
          and exists (select from database_epoch e where e.token = ${epochToken}::uuid)
        returning w.beat
      ),
      settled as (
        update database_epoch e
        set settled_until = clock_timestamp()
        where e.token = ${epochToken}::uuid
          and (e.settled_until > clock_timestamp() or (
            ${isWatched} and exists (select from moved)
            and e.settled_until < clock_timestamp() - interval '1 second'
            and ${since} <= clock_timestamp() - e.longest_ttl_ms * interval '1 millisecond'
          ))
        returning e.settled_until
      )
      select ${PLACE},
        exists (select from moved) as "isMoved",
        exists (select from database_witness w where w.id = ${mark.witnessId}::uuid) as "isThere",
        f.is_behind as "isBehind",
        coalesce(e.system_identifier <> f.system_identifier or e.timeline <> f.timeline, false) as "isOther",
        e.epoch, e.token::text as "epochToken", e.witness_secret as secret,
        coalesce(e.longest_ttl_ms, 0) as "longestTtlMs",
        coalesce(extract(epoch from coalesce((select s.settled_until from settled s), e.settled_until)), 0)::float8 * 1000
          as "settledUntil",
        (
          select extract(epoch from min(o.watched_since))::float8 * 1000 from database_witness o
          where o.id <> ${mark.witnessId}::uuid and o.at >= ${since} and o.watched_since < ${since}
        ) as "othersSince"
      from found f
      left join database_epoch e on true`,
  );
}

/** Whether the database has lost something that somebody else's mark shows. */
export async function isBehindMark(sql: Sql<'renewals'>, mark: WitnessMark): Promise<boolean> {
  const rows = await sql.$queryRaw<{ isBehind: boolean }[]>`select ${isBehind(mark)} as "isBehind"`;
  return onlyRow(rows).isBehind;
}

/** Removes the rows of processes whose last beat is too old. */
export async function removeOldWitnesses(sql: Sql<'general'>, pass: RetentionPass): Promise<void> {
  await removeOld(sql, pass, 'witnesses', {
    old: fragment`
      select w.id from database_witness w
      where w.at < clock_timestamp() - ${KEPT_DAYS}::int * interval '1 day'`,
    deletes: fragment`gone as (delete from database_witness w using old where w.id = old.id returning w.id)`,
  });
}
