import type { Clock } from '../kernel/clock.ts';
import { type Fragment, fragment, onlyRow, type Sql } from './sql.ts';

// Walking the lease table page by page: there is no index for what has to be found, see ADR 25.

interface PageRange {
  readonly fromPage: number;
  /** Exclusive. */
  readonly toPage: number;
}

/**
 * The pages of one pass: from where the last one ended, then from the beginning. Without the second
 * part only the end of a growing table would be read, a few new pages in each pass.
 */
export function rangesFrom(fromPage: number, pages: number, pagesMax: number): PageRange[] {
  const toPage = Math.min(fromPage + pagesMax, pages);
  const restCount = Math.min(pagesMax - (toPage - fromPage), fromPage);
  const first = { fromPage, toPage };
  return restCount > 0 ? [first, { fromPage: 0, toPage: restCount }] : [first];
}

/** What one statement deletes at most, so that none holds locks for long. */
export const ROWS_PER_STATEMENT_MAX = 1_000;
/** So that kinds take turns, and a controller that stops is not delayed. */
const MS_PER_KIND_MAX = 1_000;

/** One round of removing what nobody needs any more. */
export interface RetentionPass {
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Aborts when nothing more is to be removed. */
  readonly signal?: AbortSignal | undefined;
  /** Whether what looks old is old; asked before each statement. Where it is not, nothing is removed. */
  readonly isAgeBelieved?: (() => Promise<boolean>) | undefined;
  /** Called after the turn of a kind: whether there are more rows for another turn. */
  readonly onTurn?: ((kind: string, isMore: boolean) => void) | undefined;
  /** Called with a kind that could not be removed; this does not prevent the next kinds. */
  readonly onFailure: (kind: string, error: unknown) => void;
}

/**
 * Repeats a statement that removes at most {@link ROWS_PER_STATEMENT_MAX} rows of a kind until it
 * finds fewer, or its time is up. @returns how many were removed.
 */
export async function removeAll(
  pass: RetentionPass,
  kind: string,
  remove: () => Promise<number>,
): Promise<number> {
  const endMs = pass.clock.nowMs() + MS_PER_KIND_MAX;
  let total = 0;
  let isMore = false;
  try {
    while (pass.signal?.aborted !== true) {
      if ((await pass.isAgeBelieved?.()) === false) break;
      const removed = await remove();
      total += removed;
      isMore = removed >= ROWS_PER_STATEMENT_MAX;
      if (!isMore || pass.clock.nowMs() >= endMs) break;
    }
    pass.onTurn?.(kind, isMore);
    return total;
  } catch (error) {
    pass.onFailure(kind, error);
    return total;
  }
}

/** A kind of old rows: which they are, and how they are deleted. */
interface OldRows {
  /** Selects their keys, in the order in which they go. */
  readonly old: Fragment;
  /** The parts of the statement that delete what `old` has; the last one is called `gone`. */
  readonly deletes: Fragment;
  /** Locks them; rows that another controller is removing are skipped. */
  readonly lock?: Fragment;
}

/** {@link removeAll}, by a statement that selects, locks and deletes. */
export function removeOld(
  sql: Sql<'general'>,
  pass: RetentionPass,
  kind: string,
  { old, deletes, lock = fragment`for update skip locked` }: OldRows,
): Promise<number> {
  return removeAll(pass, kind, async () => {
    const rows = await sql.$queryRaw<{ removed: number }[]>`
      with old as (${old} limit ${ROWS_PER_STATEMENT_MAX} ${lock}),
      ${deletes}
      select count(*)::int as removed from gone`;
    return onlyRow(rows).removed;
  });
}
