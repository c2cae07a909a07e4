/** The service of this slice, and what apps and other slices may use of it. */
import type { Logger } from '@leasehold/service-kit';
import { writeAudit } from '../access/index.ts';
import { assertRecurrence, createLeaseStore, revoke, windowsFrom } from '../grants/index.ts';
import { type Actor, ORDERED_ROLES, SYSTEM_ACTOR } from '../kernel/access.ts';
import { newTimedId } from '../kernel/clock.ts';
import { invalidField, LeaseError } from '../kernel/errors.ts';
import type { Caller, DatedPage, PageInput } from '../kernel/face-types.ts';
import type { FreezePass, FreezePlace, FreezeWindow, Recurrence } from '../kernel/freeze.ts';
import { LIMITS } from '../kernel/limits.ts';
import { type Named, RESERVED_NAMESPACE } from '../kernel/resource.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import { readNow } from '../postgres/database-settings.ts';
import { pause, SILENT_OBSERVER } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import { isUuid, pageOf, placeAfter } from '../postgres/paging.ts';
import { isoOf } from '../postgres/sql.ts';
import type { LeaseUseCase } from './coordinator-types.ts';
import { createLeaseCoordinator } from './coordinator.ts';
import {
  type FreezeRow,
  insertFreeze,
  type NewFreeze,
  readFreezes,
  readFrozenGrants,
  readOverridden,
  removeFreeze,
  takeFreezes,
} from './sql/freezes.ts';
import { REVOCATIONS_TOPIC } from './sql/revocations.ts';

export { assertTtl, heldAnswer } from './acquire-answers.ts';
export { createLeaseOperations } from './lease-operations.ts';
export { createLeaseService } from './acquiring.ts';
export {
  type AcquireAllAnswer,
  createLeasesTogether,
  type HeldAllAnswer,
  type LeasesTogether,
} from './acquiring-all.ts';
export type {
  AcquireAnswer,
  Blocker,
  CallerLife,
  ContentionHolder,
  ContentionView,
  EnvironmentQueue,
  FailingCallback,
  GrantedLease,
  HeldAnswer,
  LeaseDeadlines,
  LeaseDeclaration,
  LeaseListInput,
  LeaseOperations,
  LeaseRenewResult,
  LeaseService,
  LeaseTree,
  LeaseView,
  LeaseWhy,
  MostWaitedView,
  OppositeOrders,
  PermitsInForce,
  PoolView,
  QueuedView,
  ReleaseInput,
  RevocationNotice,
  SupersededView,
  WaitingAnswer,
  MostWaitedPage,
} from './lease-types.ts';
export { createRevocationWatch, type RevocationWatch } from './revocations.ts';
export { countFailingCallbacks, countWaiters, failingCallbacksSince } from './sql/contention.ts';
export { dropOldDeclarations } from './sql/declarations.ts';
export { readPermitShares } from './sql/permits.ts';
export { removeOldFreezes } from './sql/freezes.ts';
export type { NamespaceCounts as LeaseTreeNode } from '../lists/index.ts';

/** Freezes of environments, as people make, list and end them. What they do to acquires: `grants/sql/freezes.ts`. */

/** What is to be frozen, and when. Bounds of texts have been checked by the caller. */
export interface FreezeInput extends FreezePlace {
  /** The only action that is frozen; without it all are. */
  readonly action?: string | undefined;
  readonly reason: string;
  /** ISO-8601; by default now. Not of a recurring freeze. */
  readonly from?: string | undefined;
  readonly until?: string | undefined;
  readonly recurrence?: Recurrence | undefined;
  /** Who may override it; by default operators and administrators. */
  readonly allowRoles?: readonly string[] | undefined;
  readonly allowPeople?: readonly string[] | undefined;
  /** Whether those who hold it now are told to stop. Otherwise a freeze stops nobody who has begun. */
  readonly stopRunning?: boolean | undefined;
}

/** Instants are ISO-8601 in UTC. */
export interface FreezeView extends FreezePlace {
  readonly freezeId: string;
  /** The only action that is frozen; null for all. */
  readonly action: string | null;
  readonly reason: string;
  /** Null for a freeze with one window. */
  readonly recurrence: Recurrence | null;
  /** `frozen`: within a window. `upcoming`: before one. `over`: after the only one. */
  readonly state: 'frozen' | 'upcoming' | 'over' | 'removed';
  /** The present or next window and those after it, at most three; of a freeze that is over its last one. */
  readonly windows: readonly FreezeWindow[];
  readonly allow: FreezePass;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly removedBy: string | null;
  readonly removedAt: string | null;
  readonly removedReason: string | null;
  readonly datacenter: string;
}

export interface FreezeListInput extends PageInput {
  /** Those that are about this environment: its own, and those of namespaces that it is in. */
  readonly environment?: Named | undefined;
  /** Those of this namespace and its children. */
  readonly namespace?: string | undefined;
  /** Whether those that are over or removed are listed too. */
  readonly withHistory?: boolean | undefined;
}

export interface FreezeService {
  /**
   * Freezes environments: from the commit on nobody acquires one of them within its windows. An acquire that is
   * being decided at this moment is decided first.
   * @returns the freeze, and how many holders were told to stop.
   * @throws {LeaseError} `request.invalid`, `quota.exceeded`, `store.unavailable`; `request.outcome_unknown` with the
   * `freezeId` when it is frozen, and perhaps not every holder was told to stop.
   */
  freeze(
    input: FreezeInput,
    caller: Caller,
    actor: Actor,
  ): Promise<{ readonly freeze: FreezeView; readonly stopped: number }>;
  /** Ends a freeze now. It is kept for the history. @throws {LeaseError} `freeze.not_found`. */
  unfreeze(
    input: { readonly freezeId: string; readonly reason: string },
    caller: Caller,
    actor: Actor,
  ): Promise<{ readonly freeze: FreezeView }>;
  /** @throws {LeaseError} `request.invalid` for a foreign cursor. */
  list(input: FreezeListInput, caller: Caller): Promise<DatedPage<FreezeView>>;
  /** The ids of the freezes that a grant has overridden. */
  overriddenBy(leaseId: string): Promise<string[]>;
}

/** For how long a new freeze waits for acquires that are being decided, in milliseconds: less than a statement may take. */
const LOCK_MS = 1_500;
const REVOKED_PER_STATEMENT = 500;
const SHOWN_WINDOWS = 3;
const DEFAULT_ROLES = ['operator', 'admin'];

export function createFreezeService(store: Store): FreezeService {
  return {
    async freeze(input, caller, by) {
      const row = await addFreeze(store, input, caller, by);
      const stopped = input.stopRunning === true ? await stopHolders(store, row, caller) : 0;
      return { freeze: viewOf(store, row), stopped };
    },

    async unfreeze({ freezeId, reason }, { namespaces }, by) {
      const row = await store.general.$transaction(async (tx) => {
        const { actor } = by;
        const removed = await removeFreeze(tx, freezeId, { actor, reason, namespaces });
        if (removed === undefined) throw new LeaseError('freeze.not_found');
        const { namespace, name, reason: why } = removed;
        await writeAudit(tx, {
          ...by,
          action: 'environments.unfreeze',
          resource: `freeze:${freezeId}`,
          reason,
          detail: { namespace, name, why },
        });
        return removed;
      });
      return { freeze: viewOf(store, row) };
    },

    async list({ environment, namespace, withHistory, cursor, limit }, { namespaces }) {
      const rows = await readFreezes(store.reads, {
        environment,
        namespace,
        namespaces,
        isHistoryWanted: withHistory === true,
        after: cursor === undefined ? null : placeAfter(cursor, isUuid),
        limit: limit + 1,
      });
      const { items, nextCursor } = pageOf(rows, limit, (row) => [
        isoOf(row.createdAt),
        row.freezeId,
      ]);
      return {
        items: items.map((row) => viewOf(store, row)),
        nextCursor,
        asOf: await readNow(store.reads),
      };
    },

    overriddenBy: (leaseId) => readOverridden(store.general, leaseId),
  };
}

async function addFreeze(
  store: Store,
  input: FreezeInput,
  caller: Caller,
  by: Actor,
): Promise<FreezeRow> {
  const { reason, ...detail } = input;
  const { namespace, name, action = null, recurrence = null } = detail;
  const { allowRoles = DEFAULT_ROLES, allowPeople = [] } = input;
  assertRoles(allowRoles);
  const freezeId = newTimedId(store);
  try {
    return await store.general.$transaction(async (tx) => {
      // Before the lock: nobody acquires an environment meanwhile.
      await writeAudit(tx, {
        ...by,
        action: 'environments.freeze',
        resource: `freeze:${freezeId}`,
        reason,
        detail: { ...detail },
      });
      const { asOf, ...counts } = await takeFreezes(tx, caller.actor, LOCK_MS);
      assertRoom(counts, caller);
      const window = windowOf(input, asOf);
      if (input.stopRunning === true && window.fromMs > asOf) {
        throw invalidField('stopRunning', 'can only be asked of a freeze that begins at once');
      }
      const freeze: NewFreeze = {
        freezeId,
        namespace,
        name,
        action,
        reason,
        recurrence,
        window,
        allow: { roles: allowRoles, people: allowPeople },
        createdBy: caller.actor,
      };
      return insertFreeze(tx, freeze);
    });
  } catch (error) {
    if (error instanceof LeaseError || databaseFailureOf(error) !== 'contention') throw error;
    throw new LeaseError(
      'store.unavailable',
      'Acquires of environments took too long. Nothing was frozen.',
      {
        cause: error,
      },
    );
  }
}

/**
 * Whether there may be one more freeze. Who is limited to namespaces may make fewer: the others are for the rest.
 * @throws {LeaseError} `quota.exceeded`.
 */
function assertRoom(
  { count, ownCount }: { readonly count: number; readonly ownCount: number },
  { namespaces }: Caller,
): void {
  const { freezesMax, freezesOfOneMax } = LIMITS;
  if (count >= freezesMax) {
    throw tooMany(`There are ${String(freezesMax)} freezes already`, freezesMax);
  }
  if (namespaces !== null && ownCount >= freezesOfOneMax) {
    const what = `You have made ${String(freezesOfOneMax)} of the present freezes already`;
    throw tooMany(what, freezesOfOneMax);
  }
}

function tooMany(what: string, max: number): LeaseError {
  const message = `${what}. Remove one that nobody needs.`;
  return new LeaseError('quota.exceeded', message, { details: { limit: 'freezes', max } });
}

/** The only window, or the first one. @throws {LeaseError} `request.invalid`. */
function windowOf(
  { from, until, recurrence }: FreezeInput,
  asOf: number,
): { readonly fromMs: number; readonly untilMs: number } {
  if (recurrence !== undefined) {
    if (from !== undefined || until !== undefined) {
      throw invalidField('recurrence', 'must be given without from and until');
    }
    assertRecurrence(recurrence, asOf);
    const [window] = windowsFrom(recurrence, asOf, 1);
    if (window === undefined) throw invalidField('schedule', 'must name times that come');
    return window;
  }
  if (until === undefined) throw invalidField('until', 'must be given, unless the freeze recurs');
  const fromMs = from === undefined ? Math.floor(asOf) : Date.parse(from);
  const untilMs = Date.parse(until);
  if (untilMs <= asOf) {
    throw invalidField('until', 'must be in the future, by the clock of the database');
  }
  if (untilMs <= fromMs) throw invalidField('until', 'must be after from');
  if (untilMs - fromMs > LIMITS.freezeOnceMsMax) {
    throw invalidField('until', 'must be at most 366 days after from');
  }
  return { fromMs, untilMs };
}

function assertRoles(roles: readonly string[]): void {
  const known: readonly string[] = ORDERED_ROLES;
  if (roles.every((role) => known.includes(role))) return;
  throw invalidField('allowRoles', `must be of ${ORDERED_ROLES.join(', ')}`);
}

/** @throws {LeaseError} `request.outcome_unknown`: the freeze is committed, and so stays whatever becomes of this. */
async function stopHolders(store: Store, freeze: FreezeRow, caller: Caller): Promise<number> {
  const { freezeId } = freeze;
  try {
    return await revokeHolders(store, freeze, caller);
  } catch (cause) {
    const message = `It is frozen, by the freeze ${freezeId}, and not every holder may have been told to stop. Revoke their leases.`;
    throw new LeaseError('request.outcome_unknown', message, { details: { freezeId }, cause });
  } finally {
    // Also of a statement whose answer was lost.
    store.hints.notify(REVOCATIONS_TOPIC);
  }
}

/** Revokes gracefully what is held of the environments of a freeze. Nobody else acquires one any more. */
async function revokeHolders(
  store: Store,
  freeze: FreezeRow,
  { actor, namespaces }: Caller,
): Promise<number> {
  let stopped = 0;
  for (;;) {
    const leaseIds = await readFrozenGrants(store.general, freeze, REVOKED_PER_STATEMENT);
    const requests = leaseIds.map((leaseId) => ({
      leaseId,
      mode: 'graceful' as const,
      abandon: false,
      actor,
      reason: freeze.reason,
      namespaces,
    }));
    const revoked = await revoke(store.general, 'environment', requests);
    stopped += revoked.size;
    if (revoked.size === 0 || leaseIds.length < REVOKED_PER_STATEMENT) return stopped;
  }
}

function viewOf({ datacenter }: Pick<Store, 'datacenter'>, row: FreezeRow): FreezeView {
  const recurrence = recurrenceOf(row);
  const isEnded = row.removedAt !== null || row.isOver;
  const stored = [{ fromMs: row.windowFrom, untilMs: row.windowUntil }];
  const windows =
    recurrence === null || isEnded ? stored : windowsFrom(recurrence, row.asOf, SHOWN_WINDOWS);
  return {
    freezeId: row.freezeId,
    namespace: row.namespace,
    name: row.name,
    action: row.action,
    reason: row.reason,
    recurrence,
    state: stateOf(row, windows[0]?.fromMs),
    windows: windows.map(({ fromMs, untilMs }) => ({ from: isoOf(fromMs), until: isoOf(untilMs) })),
    allow: { roles: row.passRoles, people: row.passPeople },
    createdBy: row.createdBy,
    createdAt: isoOf(row.createdAt),
    removedBy: row.removedBy,
    removedAt: row.removedAt === null ? null : isoOf(row.removedAt),
    removedReason: row.removedReason,
    datacenter,
  };
}

function recurrenceOf({ schedule, durationMs, zone }: FreezeRow): Recurrence | null {
  if (schedule === null || durationMs === null || zone === null) return null;
  return { schedule, durationMs, zone };
}

function stateOf(
  { removedAt, isOver, asOf }: FreezeRow,
  fromMs: number | undefined,
): FreezeView['state'] {
  if (removedAt !== null) return 'removed';
  if (isOver || fromMs === undefined) return 'over';
  return fromMs <= asOf ? 'frozen' : 'upcoming';
}

/**
 * Does work in one controller at a time, under a lease of this name in Leasehold's own namespace. The
 * lease is renewed meanwhile, and released when the work ends. `signal` aborts with `stopping`, and
 * when the lease is lost: a sixth of its duration before it expires, and after a revocation by force at
 * the next renewal, when another controller may have it already.
 *
 * If another controller has the lease, this waits until it is released or expires, and returns: the
 * caller tries again. After a revocation it returns late, so that another controller comes first.
 * @throws {LeaseError} `grant.hold_off`; what `work` throws.
 */
export type WhileLeader = (
  name: string,
  work: (signal: AbortSignal) => Promise<void>,
  stopping: AbortSignal,
) => Promise<void>;

interface WhileLeaderDeps {
  readonly store: Store;
  /** The name of this controller for people who look at its leases. */
  readonly holder: string;
  /** How long after a controller has died another one takes over. */
  readonly ttlMs: number;
  readonly log: Logger;
}

export function createWhileLeader({ store, holder, ttlMs, log }: WhileLeaderDeps): WhileLeader {
  const { clock, hints, ids } = store;
  // Metrics and statistics are about callers.
  const quiet = { ...store, observer: SILENT_OBSERVER };
  const coordinator = createLeaseCoordinator({
    store: quiet,
    leases: createLeaseStore(quiet),
    holder,
    principal: SYSTEM_ACTOR,
    actor: SYSTEM_ACTOR,
  });
  return async (name, work, stopping) => {
    const topic = `leader:${name}`;
    const leaseId = ids.uuid();
    const lease: LeaseUseCase = {
      key: () => leaseId,
      scope: () => ({ namespace: [RESERVED_NAMESPACE], key: name }),
      durationMs: () => ttlMs,
    };
    // Listens before it asks for the lease, so that no hint in between is missed.
    const seen = { isOver: false };
    const closeHint = hints.on(topic, () => {
      seen.isOver = true;
    });
    const answer = await coordinator.acquire(lease, 0).finally(closeHint);
    if (answer.outcome === 'held') {
      if (!seen.isOver) await hints.next(topic, clock.nowMs() + answer.remainingMs, stopping);
      return;
    }
    let working = Promise.resolve();
    const held = coordinator.whileHeld(lease, async (lost) => {
      working = work(AbortSignal.any([lost, stopping]));
      await working;
      lost.throwIfAborted();
    });
    try {
      await held.finally(() => hints.notify(topic));
    } catch (error) {
      // Waits for the work that was under way when the lease was lost.
      await working.catch(() => undefined);
      if (!(error instanceof LeaseError && error.code === 'lease.lost')) throw error;
      log.warn(
        { err: error, lease: name },
        'a lease of this controller was lost; its work ends here',
      );
      if (error.details['reason'] === 'revoked') await pause(store, ttlMs, stopping);
    }
  };
}
