import { changeRenewable, type LeaseStore, renewHeld } from '../grants/index.ts';
import { type ErrorCode, LeaseError } from '../kernel/errors.ts';
import type { Caller, Count, FilterOf } from '../kernel/face-types.ts';
import {
  type BackendStatus,
  hasFailed,
  statusRank,
  type TerminationReason,
} from '../kernel/backends.ts';
import { deadlinesFrom } from '../kernel/ladder.ts';
import { keyTopic, type Named, settledTopic } from '../kernel/resource.ts';
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
import type { Store } from '../postgres/open-store.ts';
import { isoOf } from '../postgres/sql.ts';
import { timed } from '../postgres/kernel-store.ts';
import { createConnect } from './connect.ts';
import type { KeyBackendEnd, KeyListInput, KeyPage, KeyService, KeyView } from './key-types.ts';
import { report, revokeKey, type StoppingBackend, terminateBackend } from './sql/key-backend.ts';
import { readKeyFailures, resetKeyFailures } from './sql/key-failures.ts';
import type { ConnectDeps } from './start-backend.ts';

export interface KeyServiceDeps extends ConnectDeps {
  readonly leases: LeaseStore;
}

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

    blockRenewal: (input, caller) =>
      changeRenewable(store, { face: 'key', renewable: false }, input, caller),
    allowRenewal: (input, caller) =>
      changeRenewable(store, { face: 'key', renewable: true }, input, caller),

    async revoke(input, caller) {
      const revoked = await timed(store, 'revoke', () =>
        revokeKey(store, { ...input, actor: caller.actor, namespaces: caller.namespaces }),
      );
      hintStopping(revoked.stopping);
      return {
        outcome: revoked.outcome,
        stopsBy: revoked.stopsBy === null ? null : isoOf(revoked.stopsBy),
        resource: revoked.resource,
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
    async resetFailures(key, caller) {
      if (!mayRead(key, caller)) return { changed: false };
      const changed = await resetKeyFailures(store.general, key);
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

    async terminate(input, caller) {
      hintStopping(await terminateBackend(store, { ...input, namespaces: caller.namespaces }));
    },
  };
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
