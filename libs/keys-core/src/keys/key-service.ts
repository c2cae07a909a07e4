import type { KeyService } from './key-types.ts';
import { keyTopic } from '../kernel/resource/resource.ts';
import type { ConnectDeps } from './connect/start-backend.ts';
import { LeaseError, type ErrorCode } from '../kernel/errors/index.ts';
import { deadlinesFrom } from '../kernel/lease/ladder.ts';
import { databaseFailureOf } from '../postgres/errors/database-errors.ts';
import { type LeaseStore, renewHeld, changeRenewable } from '../grants/index.ts';
import { timed } from '../postgres/statements/timed.ts';
import { revokeKey, terminateBackend, type StoppingBackend } from './sql/operate-key.ts';
import { readKeyFailures, resetKeyFailures } from './sql/key-failures.ts';
import { report } from './sql/report.ts';
import { isoOf } from '../postgres/sql.ts';
import { createConnect } from './connect/connect.ts';
import { historyPage, holderAtMoment, mayRead, waiterPage } from '../lists/index.ts';
import { countKeys, failuresView, getKey, listKeyPage } from './key-reads.ts';

export interface KeyServiceDeps extends ConnectDeps {
  readonly leases: LeaseStore;
}

/** The keys face over the kernel: Plane's keys, without the defects of the original. */
export function createKeyService(deps: KeyServiceDeps): KeyService {
  const { store } = deps;

  function hintStopping(stopping: StoppingBackend | null): void {
    if (stopping === null) return;
    store.hints.notify(`drone:${stopping.droneId}`);
    store.hints.notify(`backend:${stopping.backendId}`);
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
