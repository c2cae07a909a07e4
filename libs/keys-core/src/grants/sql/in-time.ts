/**
 * What statements have in common that change grants in force without locking them first. They write each row
 * once: a lock is a record of its own in the write-ahead log, and a second visit of the page.
 *
 * Such a statement judges before it has the row, and the row may be locked at that moment. What makes
 * that safe: a grant that was judged had {@link SPARE_MS} left, and a statement that has taken as long
 * fails as a whole, whatever held it up. So no grant had expired by the time its row was taken.
 *
 * It waits for a locked row, but hardly: after {@link LOCK_WAIT_MS} it fails as a whole. So it needs no
 * order of locking: of two that wait for each other, both give up. A row that was changed while it
 * waited is judged again, by PostgreSQL, or not found at all.
 */
import { sqlStateOf } from '../../postgres/database-errors.ts';
import { type Fragment, fragment } from '../../postgres/sql.ts';

/** How long a grant must still last, and so how long the statement may take. */
const SPARE_MS = 250;
/** A row that is locked for longer is left to the full statement, which passes over it. */
const LOCK_WAIT_MS = 20;

/** It took too long, met a locked row, or another batch with the same rows. */
const GAVE_UP = new Set(['22012', '55P03', '40P01']);

/** After such a statement has failed, for how long the full one is sent at once: the database is busy. */
const FULL_ONLY_MS = 1_000;

/** The first part of such a statement: when it began. */
export const BEGUN = fragment`
    begun as materialized (
      select clock_timestamp() as at, set_config('lock_timeout', ${String(LOCK_WAIT_MS)}, true)
    )`;

/** Whether a grant `l` that has not been ended lasts long enough to be changed by such a statement. */
export const LASTS = fragment`
        (select b.at from begun b) < l.expires_at - ${SPARE_MS}::int * interval '1 millisecond'`;

/** A column that fails the statement when it took too long until `now`, after a row was taken. */
export function isInTime(now: Fragment): Fragment {
  return fragment`
      -- Too late is a division by zero.
      1 / (${now} < (select b.at from begun b) + ${SPARE_MS}::int * interval '1 millisecond')::int
        as "isInTime"`;
}

/** Carries out such a statement. @returns undefined when it gave up, and did nothing. */
export async function unlessLate<Result>(
  statement: () => Promise<Result>,
): Promise<Result | undefined> {
  try {
    return await statement();
  } catch (error) {
    const state = sqlStateOf(error);
    if (state === undefined || !GAVE_UP.has(state)) throw error;
    return undefined;
  }
}

/** What a store remembers of such statements of one kind. */
export interface ShortLane {
  /** Until when the short statement is not tried, by the store's clock. */
  fullUntilMs: number;
}

/**
 * The answer of the short statement; undefined when it gave up, or has given up a moment ago. `nowMs` is the
 * store's clock.
 */
export async function tryShort<Result>(
  lane: ShortLane,
  nowMs: () => number,
  statement: () => Promise<Result | undefined>,
): Promise<Result | undefined> {
  if (nowMs() < lane.fullUntilMs) return undefined;
  const result = await statement();
  if (result === undefined) lane.fullUntilMs = nowMs() + FULL_ONLY_MS;
  return result;
}
