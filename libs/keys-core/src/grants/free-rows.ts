import type { Store } from '../postgres/open-store.ts';
import { rangesFrom } from '../postgres/retention-pass.ts';
import { readLeasePages } from './sql/reap.ts';
import { deleteFreeRows } from './sql/retention.ts';

/** As many as the reaper reads: under 100 ms of database time where nothing is to be deleted. */
const PAGES_PER_PASS_MAX = 4_096;
/** One statement deletes at most this many rows, so that none holds locks for long. */
const ROWS_PER_STATEMENT_MAX = 1_000;
const STATEMENTS_PER_PASS_MAX = 20;

/**
 * Deletes the rows of resources that have long been free, beginning at a random page, and skips rows
 * that others have locked. Only the size of the table depends on it.
 */
export function createFreeRowRemover(
  store: Pick<Store, 'general' | 'ids' | 'datacenter' | 'clock' | 'clockWatch'>,
) {
  let nextPage: number | undefined;
  return {
    /**
     * Deletes free rows in the next part of the table, and their names. Calls `onMore` if there are more of
     * them there. @returns how many it deleted.
     */
    async runOnce(signal?: AbortSignal, onMore?: () => void): Promise<number> {
      const { pages } = await readLeasePages(store.general);
      nextPage ??= Math.floor(store.ids.random() * pages);
      if (nextPage >= pages) nextPage = 0;
      let deletedCount = 0;
      let statementsLeft = STATEMENTS_PER_PASS_MAX;
      for (const { fromPage, toPage } of rangesFrom(nextPage, pages, PAGES_PER_PASS_MAX)) {
        let deleted: number;
        do {
          if (signal?.aborted === true) return deletedCount;
          // The rest of this range is for the next pass.
          if (statementsLeft === 0) {
            onMore?.();
            return deletedCount;
          }
          statementsLeft -= 1;
          deleted = await deleteFreeRows(store.general, {
            fromPage,
            toPage,
            limit: ROWS_PER_STATEMENT_MAX,
            datacenter: store.datacenter,
            belief: store.clockWatch.belief(store.clock.nowMs()),
          });
          deletedCount += deleted;
        } while (deleted === ROWS_PER_STATEMENT_MAX);
        nextPage = toPage;
      }
      return deletedCount;
    },
  };
}
