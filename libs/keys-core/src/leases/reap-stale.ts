/**
 * The use case's own reaping. A lease that expired leaves one `lease_reap` row,
 * whatever ended it: a takeover, the general reaper or this. Here each row's callback runs in a
 * transaction with the row's end, so that it commits exactly once.
 */
import {
  boundTransaction,
  claimReapRow,
  deleteReapRow,
  endStale,
  type LeasePlace,
  listReapRows,
  type NamespaceRange,
  readClock,
  recordReapFailure,
} from '../grants/index.ts';
import { errorText } from '../kernel/errors.ts';
import { joinNamespace } from '../kernel/resource.ts';
import { type KernelStore, timed } from '../postgres/kernel-store.ts';
import {
  assertNotInHook,
  callHook,
  type CoordinatorStore,
  GUEST_MS_MAX,
  guestTransaction,
  retryContention,
  withinBound,
} from '../postgres/guest-transaction.ts';
import type { ReapCallback, StaleReap } from './coordinator-types.ts';

/** How many leases a statement reads: a few milliseconds of the database's time. */
const LEASES_PER_STATEMENT_MAX = 5_000;
/** How many statements of one call look for expired leases; the next call continues from there. */
const STATEMENTS_PER_CALL_MAX = 20;
/** How many callbacks one call runs at most; the next call continues. */
const CALLBACKS_PER_CALL_MAX = 1_000;
const ROWS_PER_PAGE = 100;
/** Waiting for the locks that a callback needs, in milliseconds. */
const LOCK_MS = 1_000;

/** @see LeaseCoordinator.reapStaleLeases */
export function createStaleReaper<Tx>(store: CoordinatorStore<Tx>) {
  const places = new Map<string, LeasePlace>();
  return async (
    namespaces: readonly (readonly string[])[],
    includeChildren: boolean,
    fn: ReapCallback<Tx>,
  ): Promise<StaleReap> => {
    assertNotInHook();
    const ranges = namespaces.map((segments) => ({
      namespace: joinNamespace(segments),
      includeChildren,
    }));
    let endedCount = 0;
    for (const range of ranges) endedCount += await endRange(store, range, places);
    return { endedCount, ...(await callBack(store, ranges, fn)) };
  };
}

/** Ends what has expired in a namespace, from where the previous call stopped. @returns how many. */
async function endRange(
  store: KernelStore,
  range: NamespaceRange,
  places: Map<string, LeasePlace>,
): Promise<number> {
  const place = `${String(range.includeChildren)} ${range.namespace}`;
  let after = places.get(place);
  let endedCount = 0;
  for (let statements = 0; statements < STATEMENTS_PER_CALL_MAX; statements += 1) {
    const page = await timed(store, 'reap', () => endPage(store, range, after));
    endedCount += page.endedCount;
    after = page.readCount < LEASES_PER_STATEMENT_MAX ? undefined : (page.last ?? undefined);
    if (after === undefined) break;
  }
  if (after === undefined) places.delete(place);
  else places.set(place, after);
  return endedCount;
}

async function endPage(store: KernelStore, range: NamespaceRange, after: LeasePlace | undefined) {
  await store.witness.ready();
  return store.transitions.$transaction(async (tx) => {
    await readClock(store, tx);
    const belief = store.clockWatch.belief(store.clock.nowMs());
    return endStale(tx, range, { after, limit: LEASES_PER_STATEMENT_MAX, belief });
  });
}

async function callBack<Tx>(
  store: CoordinatorStore<Tx>,
  ranges: readonly NamespaceRange[],
  fn: ReapCallback<Tx>,
): Promise<Pick<StaleReap, 'calledCount' | 'failedCount'>> {
  const seen: string[] = [];
  let calledCount = 0;
  let failedCount = 0;
  while (seen.length < CALLBACKS_PER_CALL_MAX) {
    const page = await listReapRows(store.transitions, ranges, { seen, limit: ROWS_PER_PAGE });
    for (const leaseId of page) {
      const outcome = await callOne(store, leaseId, fn);
      if (outcome === 'called') calledCount += 1;
      if (outcome === 'failed') failedCount += 1;
    }
    seen.push(...page);
    if (page.length < ROWS_PER_PAGE) break;
  }
  return { calledCount, failedCount };
}

async function callOne<Tx>(store: CoordinatorStore<Tx>, leaseId: string, fn: ReapCallback<Tx>) {
  try {
    const isCalled = await retryContention(store, () => claimAndCall(store, leaseId, fn));
    if (isCalled) store.observer.reapCallback('done');
    return isCalled ? 'called' : 'passed';
  } catch (error) {
    store.observer.reapCallback('failed');
    await recordReapFailure(store.general, leaseId, errorText(error));
    return 'failed';
  }
}

function claimAndCall<Tx>(store: CoordinatorStore<Tx>, leaseId: string, fn: ReapCallback<Tx>) {
  return guestTransaction(store, async (guest) => {
    await boundTransaction(guest.sql, { boundMs: GUEST_MS_MAX, lockMs: LOCK_MS });
    return withinBound(store, GUEST_MS_MAX, async () => {
      const row = await claimReapRow(guest.sql, leaseId);
      if (row === undefined) return false;
      const namespace = row.namespace === '' ? [] : row.namespace.split('.');
      const grant = { leaseId, fencingToken: row.fencingToken };
      const scope = { namespace, key: row.name };
      await callHook(() => guest.call((tx) => fn(leaseId, scope, tx, grant)));
      await deleteReapRow(guest.sql, leaseId);
      return true;
    });
  });
}
