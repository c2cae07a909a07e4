/** The service of this slice, and what apps and other slices may use of it. */
import { grantRecorder, writeAudit } from '../access/index.ts';
import {
  changeRenewable,
  type LeaseStore,
  readClock,
  readLeasePages,
  reap,
  renewHeld,
} from '../grants/index.ts';
import type { Actor } from '../kernel/access.ts';
import {
  type BackendStatus,
  hasFailed,
  statusRank,
  type TerminationReason,
} from '../kernel/backends.ts';
import { type ErrorCode, LeaseError } from '../kernel/errors.ts';
import type { Caller, Count, FilterOf } from '../kernel/face-types.ts';
import { deadlinesFrom } from '../kernel/ladder.ts';
import { keyTopic, type Named, namespaceText, settledTopic } from '../kernel/resource.ts';
import {
  countResources,
  grantView,
  historyPage,
  holderAtMoment,
  type KeyRow,
  listKeys,
  mayRead,
  ONE,
  resourcePage,
  waiterPage,
} from '../lists/index.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import { timed } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import { rangesFrom } from '../postgres/retention-pass.ts';
import { isoOf } from '../postgres/sql.ts';
import { createConnect } from './connect.ts';
import type { KeyBackendEnd, KeyListInput, KeyPage, KeyService, KeyView } from './key-types.ts';
import { type IdleStops, stopIdleBackends } from './sql/idle-stop.ts';
import {
  recordLostBackends,
  recordOverdueBackends,
  report,
  revokeKey,
  type StoppingBackend,
  terminateBackend,
} from './sql/key-backend.ts';
import { readKeyFailures, resetKeyFailures } from './sql/key-failures.ts';
import type { ConnectDeps } from './start-backend.ts';

export { waitUntilReady } from './connect-answers.ts';
export {
  type ConnectInput,
  type NamedConnect,
  type ConnectResult,
  type KeyFailuresView,
  type KeyListInput,
  type KeyPage,
  type KeyRenewResult,
  type KeyService,
  type KeyView,
  type SpawnRequest,
} from './key-types.ts';
export { type BackendUse, touchBackends, type UsedBackend } from './sql/idle-stop.ts';
export { countCrashLoops, type CrashLoops } from './sql/key-failures.ts';
export { recordLostBackends, terminateAllOf } from './sql/key-backend.ts';
export { NotAtHome, RANDOM_ID_LENGTH } from './start-backend.ts';

interface KeyServiceDeps extends ConnectDeps {
  readonly leases: LeaseStore;
}

const BLOCKED = { face: 'key', renewable: false } as const;
const ALLOWED = { face: 'key', renewable: true } as const;

/** The keys face over the kernel: Plane's keys, without the defects of the original. */
export function createKeyService(deps: KeyServiceDeps): KeyService {
  const { store } = deps;

  function hintStopping(stopping: StoppingBackend | null): void {
    if (stopping === null) return;
    store.hints.notify(`drone:${stopping.droneId}`);
    store.hints.notify(`backend:${stopping.backendId}`, settledTopic(stopping.backendId));
  }

  return {
    ...createConnect(deps),

    renew: ({ droneId, localTimeMs, renewals }) =>
      renewHeld(deps.leases, { face: 'key', principal: droneId }, renewals, (ladder, remainingMs) =>
        deadlinesFrom(ladder, localTimeMs, remainingMs),
      ),

    blockRenewal: (input, caller, entry) =>
      changeRenewable(store, BLOCKED, input, caller, grantRecorder(entry, input)),
    allowRenewal: (input, caller, entry) =>
      changeRenewable(store, ALLOWED, input, caller, grantRecorder(entry, input)),

    async revoke(input, { actor, namespaces }, entry) {
      const request = { ...input, actor, namespaces };
      const revoked = await timed(store, 'revoke', () =>
        revokeKey(store, request, grantRecorder(entry, input)),
      );
      hintStopping(revoked.stopping);
      return {
        outcome: revoked.outcome,
        stopsBy: revoked.stopsBy === null ? null : isoOf(revoked.stopsBy),
      };
    },

    get: (input, caller) => getKey(store, input, caller),
    list: (input, caller) => listKeyPage(store, input, caller),
    count: (input, caller) => countKeys(store, input, caller),
    waiters: (input, caller) =>
      waiterPage(store, { resource: { ...input, face: 'key' }, caller }, input),
    history: (input, caller) =>
      historyPage(store, { resource: { ...input, face: 'key' }, caller }, input),
    at: (input, caller) =>
      holderAtMoment(store, { resource: { ...input, face: 'key' }, caller }, input.at),

    async failures(key, caller) {
      if (!mayRead(key, caller)) return null;
      const found = await readKeyFailures(store.reads, key);
      return found === undefined ? null : failuresView(found);
    },
    async resetFailures({ reason, ...key }, caller, actor) {
      if (!mayRead(key, caller)) return { changed: false };
      const changed = await resetFailures(store, key, { ...actor, reason });
      if (changed) store.hints.notify(keyTopic(key));
      return { changed };
    },

    async report(said) {
      const result = await timed(store, 'report', () => report(store, said));
      if (result.freed !== null) store.hints.notify(keyTopic(result.freed));
      store.hints.notify(`backend:${said.backendId}`);
      if (statusRank(said.status) >= statusRank('ready')) {
        store.hints.notify(settledTopic(said.backendId));
      }
      if (result.isOverstay) store.observer.overstay(said.backendId);
      if (result.hasFailed) store.observer.backendFailed(said.reason ?? 'exited');
      return result.outcome;
    },

    async terminate(input, caller, actor) {
      const stopping = await terminate(store, input, { ...actor, namespaces: caller.namespaces });
      hintStopping(stopping);
      return { outcome: stopping === null ? 'gone' : 'terminating' };
    },
  };
}

/** @returns null if it had ended. */
function terminate(
  store: Store,
  { backendId, mode, reason }: Parameters<KeyService['terminate']>[0],
  { namespaces, ...by }: Actor & Pick<Caller, 'namespaces'>,
) {
  const act = { resource: `backend:${backendId}`, reason, detail: { mode } };
  return terminateBackend(store, { backendId, mode, namespaces }, (tx) =>
    writeAudit(tx, { ...by, ...act, action: 'backends.terminate' }),
  );
}

/** @returns whether there were any. */
function resetFailures(
  { general }: Pick<Store, 'general'>,
  key: Named,
  by: Actor & { readonly reason: string | undefined },
): Promise<boolean> {
  return general.$transaction(async (tx) => {
    const isReset = await resetKeyFailures(tx, key);
    const resource = `key:${namespaceText(key.namespace)}/${key.name}`;
    if (isReset) await writeAudit(tx, { ...by, action: 'keys.resetFailures', resource });
    return isReset;
  });
}

/** The error that a caller gets for a failure: a database failure becomes a `LeaseError`. */
export function storeErrorOf(error: unknown): unknown {
  const codes: Partial<Record<ReturnType<typeof databaseFailureOf>, ErrorCode>> = {
    unavailable: 'store.unavailable',
    lost: 'request.outcome_unknown',
    timeout: 'request.deadline',
    contention: 'grant.contended',
  };
  const code = error instanceof LeaseError ? undefined : codes[databaseFailureOf(error)];
  return code === undefined ? error : new LeaseError(code, undefined, { cause: error });
}

/** One key, or null when none exists, it has moved to another datacenter, or the caller may not see it. */
async function getKey(store: Store, key: Named, caller: Caller): Promise<KeyView | null> {
  const { namespace, name } = key;
  const filter = {
    namespace,
    name,
    includeChildren: false,
    namespaces: caller.namespaces,
    livesIn: store.datacenter,
  };
  const [row] = await listKeys(store.reads, filter, ONE);
  return row === undefined ? null : viewOf(store, row);
}

/** A page of keys. @throws {LeaseError} `request.invalid` for a cursor of another order. */
function listKeyPage(store: Store, input: KeyListInput, caller: Caller): Promise<KeyPage> {
  const filter = filterOf(store, input, caller);
  return resourcePage(
    store,
    input,
    (order) => listKeys(store.reads, filter, order),
    (row) => viewOf(store, row),
  );
}

/** How many keys all pages have together. */
function countKeys(store: Store, input: FilterOf<KeyListInput>, caller: Caller): Promise<Count> {
  return countResources(store.reads, 'key', filterOf(store, input, caller));
}

function filterOf(store: Store, input: FilterOf<KeyListInput>, caller: Caller) {
  return {
    ...input,
    includeChildren: input.includeChildren ?? false,
    namespaces: caller.namespaces,
    livesIn: store.datacenter,
  };
}

function viewOf(store: Store, row: KeyRow): KeyView {
  return {
    ...grantView(store, row),
    tag: row.tag,
    droneId: row.droneId,
    backendId: row.backendId,
    backendStatus: row.backendStatus as BackendStatus | null,
    backendEnd: endOf(row),
    reservationId: row.reservationId,
    failing: row.failing === null ? null : failuresView(row.failing),
  };
}

/** The failures of a key with instants as ISO-8601. */
function failuresView<Row extends Record<'since' | 'failedAt' | 'startAt', number>>(row: Row) {
  const { since, failedAt, startAt } = row;
  return { ...row, since: isoOf(since), failedAt: isoOf(failedAt), startAt: isoOf(startAt) };
}

function endOf({ backendStatus, backendReason, exitCode, wasReady }: KeyRow): KeyBackendEnd | null {
  if (backendStatus !== 'terminated') return null;
  const reason = backendReason as TerminationReason | null;
  return { reason, exitCode, hasFailed: hasFailed({ reason, exitCode }, wasReady === true) };
}

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
