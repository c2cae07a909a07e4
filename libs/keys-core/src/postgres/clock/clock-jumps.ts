/** Steps of the database's clock, written down so that every controller can show them. */
import type { Clock } from '../../kernel/clock.ts';
import { removeOld, type RetentionPass } from '../retention-pass.ts';
import { fragment, isoOf, onlyRow, type Sql } from '../sql.ts';
import type { ClockWatch } from './clock-watch.ts';

/** A step of the database's clock. Instants are ISO-8601, by the clock after the step. */
export interface ClockJumpView {
  /** When it was met. */
  readonly at: string;
  /** How far the clock stepped, in milliseconds; negative when it stepped back. */
  readonly jumpMs: number;
  /** Until when, at the latest, the expiry of a grant from before the step may not be believed. */
  readonly unsureUntil: string;
  /** The time until then; 0 when every expiry is believed again. */
  readonly remainingMs: number;
}

/** For how long a step is shown, in hours: a day and a night on call. */
const SHOWN_HOURS = 24;
const KEPT_DAYS = 30;
/** Two processes that differ by less have met the same step. */
const SAME_JUMP_MS = 1_000;
const SAME_WITHIN_S = 10;

/**
 * Writes down a step that this process has met a moment ago. Grants from before it are doubted for their own
 * TTL (see `clock-watch.ts`), so all are believed after the longest TTL that was ever asked for. That is one row:
 * a statement that read all grants could be too slow to be written at all, and retention goes by what is written.
 */
async function noteClockJump(sql: Sql<'general'>, jumpMs: number): Promise<void> {
  await sql.$queryRaw`
    insert into clock_jump (at, jump_ms, unsure_until)
    select c.at, ${Math.round(jumpMs)}::bigint,
      c.at + coalesce((select e.longest_ttl_ms from database_epoch e), 0) * interval '1 millisecond'
    from (select clock_timestamp() as at) c
    returning 1 as noted`;
}

/** The latest step, unless it is long ago; null without one. */
export async function readClockJump(sql: Sql<'general' | 'guests'>): Promise<ClockJumpView | null> {
  const [row] = await sql.$queryRaw<
    { at: number; jumpMs: number; unsureUntil: number; remainingMs: number }[]
  >`
    with newest as (
      select j.at, j.jump_ms from clock_jump j order by j.id desc limit 1
    ),
    met as (
      select n.at, n.jump_ms, max(j.unsure_until) as unsure_until
      from newest n
      join clock_jump j on abs(j.jump_ms - n.jump_ms) <= ${SAME_JUMP_MS}::int
        and abs(extract(epoch from j.at - n.at)) <= ${SAME_WITHIN_S}::int
      group by n.at, n.jump_ms
    )
    select extract(epoch from m.at)::float8 * 1000 as at, m.jump_ms::float8 as "jumpMs",
      extract(epoch from m.unsure_until)::float8 * 1000 as "unsureUntil",
      greatest(0, extract(epoch from m.unsure_until - clock_timestamp()))::float8 * 1000 as "remainingMs"
    from met m
    where clock_timestamp() < greatest(m.at + ${SHOWN_HOURS}::int * interval '1 hour', m.unsure_until)`;
  if (row === undefined) return null;
  const { at, jumpMs, unsureUntil, remainingMs } = row;
  return {
    at: isoOf(at),
    jumpMs,
    unsureUntil: isoOf(unsureUntil),
    remainingMs: Math.ceil(remainingMs),
  };
}

/** A step forward by less makes nothing look old that is not: what is removed soonest is kept for an hour. */
const AGING_STEP_MS_MIN = 3_600_000;
/** By then every process that has met a step has written it down. */
const WATCHED_MS_MIN = 60_000;

/** What is asked before old rows are removed, see {@link readAgeBelief}. */
export interface AgeWitness {
  readonly general: Sql<'general'>;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly clockWatch: Pick<ClockWatch, 'observe' | 'belief'>;
}

/**
 * Whether what is old by the database's clock is old: not after a step forward, until it has been undone, or has lasted
 * for as long as it was far, or for {@link KEPT_DAYS}. What is kept for longer than twice the step is then at least half
 * as old as it looks, anything else as old as it is kept for. Not believed either while this process has not watched the
 * clock for a minute: a step may not be written down yet. Reads few rows: steps are rare.
 */
export async function readAgeBelief({
  general,
  clock,
  clockWatch,
}: AgeWitness): Promise<'believed' | 'stepped' | 'unwatched'> {
  const sentAtMs = clock.nowMs();
  const { asOf, isStepped } = onlyRow(
    await general.$queryRaw<{ asOf: number; isStepped: boolean }[]>`
      select extract(epoch from c.now)::float8 * 1000 as "asOf", exists (
        select from clock_jump j
        where j.jump_ms >= ${AGING_STEP_MS_MIN}::int
          and c.now >= j.at
          and c.now < j.at + least(j.jump_ms * interval '1 millisecond', ${KEPT_DAYS}::int * interval '1 day')
          and not exists (
            select from clock_jump b
            where b.id > j.id and j.jump_ms + b.jump_ms < ${AGING_STEP_MS_MIN}::int
          )
      ) as "isStepped"
      from (select clock_timestamp() as now) c`,
  );
  const receivedAtMs = clock.nowMs();
  clockWatch.observe(asOf, sentAtMs, receivedAtMs);
  if (isStepped) return 'stepped';
  const { watchedSince } = clockWatch.belief(receivedAtMs);
  return asOf - watchedSince < WATCHED_MS_MIN ? 'unwatched' : 'believed';
}

/** Removes what nobody looks at any more. */
export async function removeOldClockJumps(sql: Sql<'general'>, pass: RetentionPass): Promise<void> {
  await removeOld(sql, pass, 'clock jumps', {
    old: fragment`
      select j.id from clock_jump j
      where j.at < clock_timestamp() - ${KEPT_DAYS}::int * interval '1 day'`,
    deletes: fragment`gone as (delete from clock_jump j using old where j.id = old.id returning j.id)`,
  });
}

/** Notes steps: those that could not be written are tried again. */
export interface ClockJumpNotes {
  /** Remembers a step. It is written by the next {@link flush}. */
  add(jumpMs: number): void;
  flush(): Promise<void>;
}

export function createClockJumpNotes(sql: Sql<'general'>): ClockJumpNotes {
  const waiting: number[] = [];
  let flushing: Promise<void> | undefined;
  const writeAll = async (): Promise<void> => {
    for (let jumpMs = waiting[0]; jumpMs !== undefined; jumpMs = waiting[0]) {
      await noteClockJump(sql, jumpMs);
      waiting.shift();
    }
  };
  return {
    add(jumpMs) {
      // A clock that steps all the time is not written down without end.
      if (waiting.length < WAITING_MAX) waiting.push(jumpMs);
    },
    flush() {
      flushing ??= writeAll().finally(() => {
        flushing = undefined;
      });
      return flushing;
    },
  };
}

/** How many steps wait to be written while the database does not answer. */
const WAITING_MAX = 100;
