import { LeaseError, type ErrorCode } from '../kernel/errors/index.ts';
import { deadlinesFrom, type Ladder } from '../kernel/lease/ladder.ts';
import type { RenewOutcome } from '../kernel/lease/outcomes.ts';
import { databaseFailureOf } from '../postgres/errors/database-errors.ts';
import { type LeaseStore, setRenewable } from '../grants/index.ts';
import { timed } from '../postgres/statements/timed.ts';
import type { Store } from '../postgres/open-store.ts';
import { revokeKey, terminateBackend, type StoppingBackend } from './sql/operate-key.ts';
import { report } from './sql/report.ts';
import { isoOf } from '../postgres/rows.ts';
import { createConnect } from './connect/connect.ts';
import { keyTopic } from '../kernel/resource/key-topic.ts';
import type { ChooseDrone } from './connect/start-backend.ts';
import { historyPage, waiterPage } from '../lists/index.ts';
import { getKey, listKeyPage } from './key-reads.ts';
import type { Acted, Caller } from '../kernel/face-types.ts';
import type { KeyRenewResult, KeyService } from './key-types.ts';

export interface KeyServiceDeps {
  readonly store: Store;
  readonly leases: LeaseStore;
  /** The ladder of new grants; a living grant keeps its own. */
  readonly ladder: Ladder;
  readonly heartbeatMs: number;
  readonly chooseDrone: ChooseDrone;
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

    async renew({ droneId, localTimeMs, renewals }) {
      const outcomes = await deps.leases.renewAll(
        'key',
        renewals.map((ref) => ({ ...ref, principal: droneId })),
      );
      return outcomes.flatMap((outcome) =>
        outcome === undefined ? [] : renewResult(outcome, localTimeMs),
      );
    },

    blockRenewal: (input, caller) => changeRenewable(deps, false, input, caller),
    allowRenewal: (input, caller) => changeRenewable(deps, true, input, caller),

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
    waiters: (input, caller) =>
      waiterPage(store, { resource: { ...input, face: 'key' }, caller }, input),
    history: (input, caller) =>
      historyPage(store, { resource: { ...input, face: 'key' }, caller }, input),

    async report(said) {
      const result = await timed(store, 'report', () =>
        report(store, {
          ...said,
          reason: said.reason ?? null,
          address: said.address ?? null,
          exitCode: said.exitCode ?? null,
          detail: said.detail ?? null,
          isRefusal: said.refused === true,
        }),
      );
      if (result.freed !== null) store.hints.notify(keyTopic(result.freed));
      store.hints.notify(`backend:${said.backendId}`);
      if (result.isOverstay) store.observer.overstay(said.backendId);
      return result.outcome;
    },

    async terminate(input, caller) {
      hintStopping(await terminateBackend(store, { ...input, namespaces: caller.namespaces }));
    },
  };
}

function renewResult(outcome: RenewOutcome, localTimeMs: number): KeyRenewResult {
  if (outcome.outcome === 'refused') return outcome;
  const { leaseId, ladder, remainingMs } = outcome;
  return {
    leaseId,
    outcome: 'renewed',
    deadlines: deadlinesFrom(ladder, localTimeMs, remainingMs),
  };
}

async function changeRenewable(
  { store }: KeyServiceDeps,
  renewable: boolean,
  input: { readonly leaseId: string; readonly reason?: string | undefined },
  caller: Caller,
): Promise<{ changed: boolean } & Acted> {
  const kind = renewable ? 'allow_renewal' : 'block_renewal';
  const changed = await timed(store, kind, () =>
    setRenewable(store.prisma, 'key', renewable, [
      {
        leaseId: input.leaseId,
        actor: caller.actor,
        reason: input.reason ?? null,
        namespaces: caller.namespaces,
      },
    ]),
  );
  const resource = changed.get(input.leaseId) ?? null;
  return { changed: resource !== null, resource };
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
