import { readClock, readLeasePages, reap } from '../grants/index.ts';
import type { Store } from '../postgres/open-store.ts';
import { rangesFrom } from '../postgres/retention-pass.ts';
import { type IdleStops, stopIdleBackends } from './sql/idle-stop.ts';
import { recordLostBackends, recordOverdueBackends } from './sql/key-backend.ts';

/**
 * How many pages of the lease table one pass reads at most. The benchmark measured 3 to 20 µs for a
 * page of some 35 rows, on an idle and on a busy machine: with this many a pass stays under 100 ms
 * of database time on both. A million living leases fill about 28,000 pages, so that a whole round
 * is seven passes; a table of 140,000 is read whole in every pass.
 */
const PAGES_PER_PASS_MAX = 4_096;
const GRANTS_PER_STATEMENT_MAX = 1_000;
const STATEMENTS_PER_PASS_MAX = 20;

/**
 * The general reaper. It has no leader and no lease of its own, because it must not need what it
 * repairs: each controller sweeps the table by itself, from a place of its own, and skips what
 * another has locked. It is never needed for a takeover; it only records what has expired already.
 */
export function createReaper(store: Store) {
  let nextPage: number | undefined;
  let afterBackendId = '';
  return {
    /** Ends what has expired in the next part of the table. Every controller runs it each second. */
    async runOnce(): Promise<{ readonly reapedCount: number; readonly readPages: number }> {
      const sentAtMs = store.clock.nowMs();
      const { pages, asOf } = await readLeasePages(store.general);
      // Each second, and before any grant is ended: the clock watch must learn of a jump first.
      store.clockWatch.observe(asOf, sentAtMs, store.clock.nowMs());
      nextPage ??= Math.floor(store.ids.random() * pages);
      if (nextPage >= pages) nextPage = 0;
      const ranges = rangesFrom(nextPage, pages, PAGES_PER_PASS_MAX);
      let reapedCount = 0;
      for (const { fromPage, toPage } of ranges) {
        reapedCount += await reapRange(store, fromPage, toPage);
        nextPage = toPage;
      }
      const readPages = ranges.reduce((sum, range) => sum + range.toPage - range.fromPage, 0);
      const { lostBackendIds, nextAfterId } = await recordOverdueBackends(
        store.general,
        afterBackendId,
        store.clockWatch.belief(store.clock.nowMs()),
      );
      afterBackendId = nextAfterId;
      for (const backendId of lostBackendIds) store.hints.notify(`backend:${backendId}`);
      return { reapedCount, readPages };
    },
  };
}

/** @returns how many grants it ended. */
async function reapRange(store: Store, fromPage: number, toPage: number): Promise<number> {
  let reapedCount = 0;
  for (let statements = 0; statements < STATEMENTS_PER_PASS_MAX; statements += 1) {
    const startedAtMs = store.clock.nowMs();
    const { reaped, lostBackendIds } = await store.general.$transaction(async (tx) => {
      const limit = GRANTS_PER_STATEMENT_MAX;
      await readClock(store, tx);
      const belief = store.clockWatch.belief(store.clock.nowMs());
      const ended = await reap(tx, { fromPage, toPage, limit, belief });
      const keys = ended.filter((grant) => grant.face === 'key').map((grant) => grant.leaseId);
      return { reaped: ended, lostBackendIds: await recordLostBackends(tx, keys) };
    });
    store.observer.statement('reap', store.clock.nowMs() - startedAtMs);
    for (const grant of reaped) {
      store.observer.reaped(grant.face, grant.lagMs);
      if (grant.face === 'key') store.hints.notify(`key:${grant.namespace}/${grant.name}`);
    }
    for (const backendId of lostBackendIds) store.hints.notify(`backend:${backendId}`);
    reapedCount += reaped.length;
    if (reaped.length < GRANTS_PER_STATEMENT_MAX) break;
  }
  return reapedCount;
}

/** For how long a controller must have reached the database before it calls a backend idle, in milliseconds. */
const REACHED_MS_MIN = 2_000;
/** With a longer pause between two rounds the database was not reached. */
const PAUSE_MS_MAX = 3_000;

const NONE_STOPPED: IdleStops = { stopped: [], isMore: false };

/**
 * Stops idle backends, in every controller at once, as the reaper does: no backend lives on because the one controller
 * whose turn it was has died. Their drones are told at once.
 *
 * After a start, and after the database could not be reached, it waits a moment: uses could not be noted meanwhile,
 * and what is in use is used again now.
 */
export function createIdleStopper(store: Store, heartbeatMs: number) {
  let reachedSinceMs = Infinity;
  let reachedAtMs = -Infinity;

  /** Whether the database has been reached for long enough. */
  async function isReached(): Promise<boolean> {
    const nowMs = store.clock.nowMs();
    const isNew = nowMs - reachedAtMs > PAUSE_MS_MAX;
    if (!isNew && nowMs - reachedSinceMs >= REACHED_MS_MIN) return true;
    await readClock(store, store.general);
    if (isNew) reachedSinceMs = store.clock.nowMs();
    return false;
  }

  return {
    /** `onMore` is called when more are due than one round looks at. @returns how many were stopped. */
    async runOnce(_signal: AbortSignal, onMore: () => void): Promise<number> {
      const { stopped, isMore } = (await isReached())
        ? await stopIdleBackends(store, heartbeatMs)
        : NONE_STOPPED;
      reachedAtMs = store.clock.nowMs();
      for (const droneId of new Set(stopped.map((one) => one.droneId))) {
        store.hints.notify(`drone:${droneId}`);
      }
      for (const { backendId } of stopped) store.hints.notify(`backend:${backendId}`);
      if (stopped.length > 0) store.observer.idleStopped(stopped.length);
      if (isMore) onMore();
      return stopped.length;
    },
  };
}
