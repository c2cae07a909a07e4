import type { Actor } from '../../kernel/access.ts';
import type { HoldOffCause } from '../../kernel/limits.ts';
import { onlyRow, type Sql } from '../sql.ts';

/** The current epoch of the database. */
export interface EpochCheck {
  readonly epoch: number;
  readonly token: string;
  /** Signs what drones and clients are told about the database. */
  readonly secret: string;
  /** True when this check found that the database has changed, and began a new epoch. */
  readonly isNew: boolean;
  /** For how long no new grant is made, in milliseconds; 0 when grants are made. */
  readonly holdOffMs: number;
  /** Why grants are or were last held off; null when they never were. */
  readonly cause: HoldOffCause | null;
  /** The longest TTL that is noted in the database, in milliseconds. */
  readonly longestTtlMs: number;
  /** Every grant that expired up to here did so while the clock was watched; epoch milliseconds. */
  readonly settledUntil: number;
}

/**
 * Notices a restore or a failover with loss that the database shows by itself: its system identifier
 * or its timeline differs from what was written down. What it cannot show is noticed from outside, see
 * `witness/database-witness.ts`. Grants of the lost part of the history may still be acted
 * on, so new ones are held off until the longest of them has run out.
 *
 * The number of the new epoch is at least the minutes since 1970, so that two restores of one backup
 * have different numbers: cursors of the event stream carry them.
 *
 * Safe for several controllers at once: one statement decides, its row lock lets only one of them see
 * the change, and the others see that it was noted.
 */
export async function checkEpoch(sql: Sql<'renewals'>, longestTtlMs: number): Promise<EpochCheck> {
  await noteKnownTtl(sql, longestTtlMs);
  const rows = await sql.$queryRaw<EpochRow[]>`
    with here as materialized (
      select
        s.system_identifier::text as system_identifier,
        database_timeline() as timeline
      from pg_control_system() s
    ),
    noted as (
      insert into database_epoch as e (
        only_row, epoch, system_identifier, timeline, token, longest_ttl_ms, settled_until
      )
      select
        true, 1, h.system_identifier, h.timeline, gen_random_uuid(), ${longestTtlMs}::int,
        clock_timestamp()
      from here h
      on conflict (only_row) do update set
        epoch = greatest(e.epoch + 1, (extract(epoch from clock_timestamp()) / 60)::int),
        system_identifier = excluded.system_identifier,
        timeline = excluded.timeline,
        token = gen_random_uuid(),
        longest_ttl_ms = greatest(e.longest_ttl_ms, excluded.longest_ttl_ms),
        hold_off_since = clock_timestamp(),
        hold_off_until = clock_timestamp()
          + greatest(e.longest_ttl_ms, excluded.longest_ttl_ms) * interval '1 millisecond',
        hold_off_cause = case
          when e.system_identifier <> excluded.system_identifier then 'system_identifier' else 'timeline'
        end
      where e.system_identifier <> excluded.system_identifier or e.timeline <> excluded.timeline
      returning e.epoch, e.token, e.witness_secret, e.hold_off_until, e.hold_off_cause, e.longest_ttl_ms,
        e.settled_until
    )
    select
      coalesce(n.epoch, e.epoch) as epoch,
      coalesce(n.token, e.token)::text as token,
      coalesce(n.witness_secret, e.witness_secret) as secret,
      n.epoch is not null and n.hold_off_until is not null as "isNew",
      greatest(
        0, coalesce(extract(epoch from coalesce(n.hold_off_until, e.hold_off_until) - clock_timestamp()), 0)
      )::float8 * 1000 as "holdOffMs",
      coalesce(n.hold_off_cause, e.hold_off_cause) as cause,
      coalesce(n.longest_ttl_ms, e.longest_ttl_ms) as "longestTtlMs",
      extract(epoch from coalesce(n.settled_until, e.settled_until))::float8 * 1000 as "settledUntil"
    from (select 1) one
    left join noted n on true
    left join database_epoch e on true`;
  const { token, secret, ...here } = onlyRow(rows);
  // Another process began the first epoch of a new database during these statements, and none of them
  // shows it, or it does not have our TTL. The next ones show it: it was committed.
  if (token === null || secret === null || here.longestTtlMs < longestTtlMs) {
    return checkEpoch(sql, longestTtlMs);
  }
  return { ...here, token, secret };
}

/**
 * Notes a TTL that this process knows from before. A process notes a TTL in the database before it knows it
 * itself, so a database that has only shorter ones has lost it. If another process, which did not know
 * it, has begun a hold-off, that hold-off lasts longer.
 */
async function noteKnownTtl(sql: Sql<'renewals'>, ttlMs: number): Promise<void> {
  await sql.$queryRaw`
    update database_epoch e
    set longest_ttl_ms = ${ttlMs}::int,
        hold_off_until = case
          when e.hold_off_until > clock_timestamp()
          then greatest(e.hold_off_until, clock_timestamp() + ${ttlMs}::int * interval '1 millisecond')
          else e.hold_off_until
        end
    where e.longest_ttl_ms < ${ttlMs}::int
    returning e.epoch`;
}

/** From now on every grant has a larger fencing token than this one. */
export async function raiseTokenFloor(sql: Sql<'renewals'>, fencingToken: string): Promise<void> {
  await sql.$queryRaw`
    update lease_token_floor t
    set floor = ${fencingToken}::bigint
    where t.floor < ${fencingToken}::bigint
    returning t.floor`;
}

/** An epoch as one statement shows it: without a row when another process has just inserted it. */
type EpochRow = Omit<EpochCheck, 'token' | 'secret'> & {
  readonly token: string | null;
  readonly secret: string | null;
};

/** What is known to have been lost. */
export interface Loss {
  readonly cause: HoldOffCause;
  /** The epoch token of the database that was checked: only one of several that check it acts. */
  readonly epochToken: string;
  /** The newest known epoch; the next one is greater. */
  readonly knownEpoch: number;
  /** The longest known TTL, in milliseconds. */
  readonly longestTtlMs: number;
  /** The largest known fencing token. */
  readonly fencingToken: string;
}

/**
 * Begins another epoch of a database that has lost a part of its history: as {@link checkEpoch} does,
 * and with fencing tokens greater than all known ones. @returns whether this call did so;
 * otherwise another process has.
 */
export async function beginEpoch(sql: Sql<'renewals'>, loss: Loss): Promise<boolean> {
  const rows = await sql.$queryRaw<{ epoch: number }[]>`
    with begun as (
      update database_epoch e
      set epoch = greatest(
            e.epoch + 1, ${loss.knownEpoch}::int + 1, (extract(epoch from clock_timestamp()) / 60)::int
          ),
          token = gen_random_uuid(),
          longest_ttl_ms = greatest(e.longest_ttl_ms, ${loss.longestTtlMs}::int),
          hold_off_since = clock_timestamp(),
          hold_off_until = clock_timestamp()
            + greatest(e.longest_ttl_ms, ${loss.longestTtlMs}::int) * interval '1 millisecond',
          hold_off_cause = ${loss.cause}
      where e.token = ${loss.epochToken}::uuid
      returning e.epoch
    ),
    raised as (
      update lease_token_floor t
      set floor = ${loss.fencingToken}::bigint
      where t.floor < ${loss.fencingToken}::bigint and exists (select from begun)
    )
    select b.epoch from begun b`;
  return rows.length > 0;
}

/** A hold-off in progress. */
export interface HoldOff {
  /** Since when, in epoch milliseconds of the database; null when an earlier version began it. */
  readonly since: number | null;
  /** Until when, in epoch milliseconds of the database. */
  readonly until: number;
  readonly remainingMs: number;
  /** What showed it; null when an earlier version noted it. */
  readonly cause: HoldOffCause | null;
  /** The epoch of the database that began with it. */
  readonly epoch: number;
}

/** The hold-off in progress; null when grants are made. */
export async function readHoldOff(sql: Sql<'general' | 'guests'>): Promise<HoldOff | null> {
  const rows = await sql.$queryRaw<HoldOff[]>`
    select extract(epoch from e.hold_off_since)::float8 * 1000 as since,
      extract(epoch from e.hold_off_until)::float8 * 1000 as until,
      extract(epoch from e.hold_off_until - clock_timestamp())::float8 * 1000 as "remainingMs",
      e.hold_off_cause as cause, e.epoch
    from database_epoch e
    where e.hold_off_until > clock_timestamp()`;
  return rows[0] ?? null;
}

/**
 * Ends a hold-off before its time, if it is the one that began with this epoch.
 * @param epoch undefined for whichever there is.
 * @returns the one that it ended; null when none was there to end.
 */
export async function endHoldOff(
  sql: Sql<'general'>,
  epoch: number | undefined,
): Promise<HoldOff | null> {
  const rows = await sql.$queryRaw<HoldOff[]>`
    with held as materialized (
      select e.hold_off_since, e.hold_off_until, e.hold_off_cause, e.epoch, clock_timestamp() as as_of
      from database_epoch e
      for update of e
    ),
    ended as (
      update database_epoch e
      set hold_off_until = null
      from held h
      where h.hold_off_until > h.as_of and h.epoch = coalesce(${epoch ?? null}::int, h.epoch)
      returning e.epoch
    )
    select extract(epoch from h.hold_off_since)::float8 * 1000 as since,
      extract(epoch from h.hold_off_until)::float8 * 1000 as until,
      extract(epoch from h.hold_off_until - h.as_of)::float8 * 1000 as "remainingMs",
      h.hold_off_cause as cause, h.epoch
    from held h
    join ended n on true`;
  return rows[0] ?? null;
}

/** How far the database has come, as it is sent to holders, which send it back. */
export interface WitnessService {
  /** For an answer; undefined when nothing is known yet. */
  told(): string | undefined;
  /** Checks whether the database is still as far as a holder was told. Ignores stamps of other databases. */
  consider(witness: string | undefined): Promise<void>;
}

/** New grants are not made for a while: the database was restored or failed over. */
export interface HoldOffView extends Omit<HoldOff, 'since' | 'until'> {
  /** ISO-8601; null when an earlier version began it. */
  readonly since: string | null;
  /** ISO-8601. */
  readonly until: string;
}

export interface EndHoldOffInput {
  readonly reason: string;
  /** The epoch of the hold-off that the caller has seen: another one goes on. Any by default. */
  readonly epoch?: number | undefined;
}

export interface EndedHoldOff {
  /** Null when nothing was held off, or by another hold-off. */
  readonly ended: HoldOffView | null;
  /** What holds grants off now; null while they are made. */
  readonly remaining: HoldOffView | null;
}

export interface HoldOffService {
  /** Null while grants are made. */
  get(): Promise<HoldOffView | null>;
  /** Ends it before its time. */
  end(input: EndHoldOffInput, actor: Actor): Promise<EndedHoldOff>;
}

/**
 * The longest TTL that was ever requested for a grant. After a restore new grants are held off for
 * this long, so it must not be forgotten with the part of the database that was lost: it is noted in the
 * database, kept in the memory of every controller, and passed to `keep`, which stores it outside of both.
 */
export interface LongestTtl {
  readonly ms: number;
  /** Notes a longer TTL. Must be awaited before it is granted. */
  note(ttlMs: number): Promise<void>;
}

export function createLongestTtl(options: {
  readonly sql: Sql<'renewals'>;
  /** What an earlier run of this process kept, in milliseconds. */
  readonly rememberedMs: number;
  /** Keeps a longer one outside of the database. */
  readonly keep: (ttlMs: number) => Promise<void>;
}): LongestTtl {
  let longestMs = options.rememberedMs;
  return {
    get ms() {
      return longestMs;
    },
    async note(ttlMs) {
      if (ttlMs <= longestMs) return;
      await noteLongestTtl(options.sql, ttlMs);
      await options.keep(ttlMs);
      longestMs = Math.max(longestMs, ttlMs);
    },
  };
}

/** Raises the value in the database, if it is less. */
async function noteLongestTtl(sql: Sql<'renewals'>, ttlMs: number): Promise<void> {
  await sql.$queryRaw`
    update database_epoch set longest_ttl_ms = ${ttlMs}::int
    where longest_ttl_ms < ${ttlMs}::int
    returning epoch`;
}
