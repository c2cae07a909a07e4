import type { Store } from '../postgres/open-store.ts';
import { rangesFrom } from '../postgres/retention-pass.ts';
import { readLeasePages } from './sql/reap.ts';
import { dropOldRequests, readRequestPages } from './sql/requests.ts';
import { deleteFreeRows } from './sql/retention.ts';

// What is removed by walking a table page by page: an index on its age would cost each grant more than the walk.

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

/** How often old records of idempotency keys are looked for. Milliseconds. */
export const OLD_REQUESTS_EVERY_MS = 60_000;
/** The table is walked through in an hour, so that a record is kept for 25 hours at most, at any rate of grants. */
const OLD_REQUEST_ROUNDS = 60;
/** 32 MB, with 250,000 records: a smaller table is walked through in every round. */
const OLD_REQUEST_PAGES_MIN = 4_096;
const OLD_REQUEST_PAGES_PER_STATEMENT = 512;

/**
 * Removes records of idempotency keys that are older than a day. Each round reads the next part of the table, beginning
 * at a random page. @param pagesMin the smallest part, in pages.
 */
export function createOldRequestRemover(
  { general, ids, clock }: Pick<Store, 'general' | 'ids' | 'clock'>,
  pagesMin = OLD_REQUEST_PAGES_MIN,
) {
  let nextPage: number | undefined;
  return {
    /** Calls `onMore` if it has not come to the end of the part before the next round was due. */
    async runOnce(signal?: AbortSignal, onMore?: () => void): Promise<void> {
      const endMs = clock.nowMs() + OLD_REQUESTS_EVERY_MS;
      const pages = await readRequestPages(general);
      nextPage ??= Math.floor(ids.random() * pages);
      if (nextPage >= pages) nextPage = 0;
      const pagesMax = Math.max(pagesMin, Math.ceil(pages / OLD_REQUEST_ROUNDS));
      for (const range of rangesFrom(nextPage, pages, pagesMax)) {
        for (let { fromPage } = range; fromPage < range.toPage; fromPage = nextPage) {
          const toPage = Math.min(fromPage + OLD_REQUEST_PAGES_PER_STATEMENT, range.toPage);
          let dropped: number;
          do {
            if (signal?.aborted === true) return;
            if (clock.nowMs() >= endMs) {
              onMore?.();
              return;
            }
            dropped = await dropOldRequests(general, {
              fromPage,
              toPage,
              limit: ROWS_PER_STATEMENT_MAX,
            });
          } while (dropped === ROWS_PER_STATEMENT_MAX);
          nextPage = toPage;
        }
      }
    },
  };
}
