import {
  boundTransaction,
  claimReapRow,
  createGroupGranter,
  deleteReapRow,
  endStale,
  isLeaseId,
  type LeasePlace,
  type LeaseStore,
  listReapRows,
  type NamespaceRange,
  readClock,
  recordReapFailure,
} from '../grants/index.ts';
import { errorText, invariant, LeaseError } from '../kernel/errors.ts';
import { serviceLadder } from '../kernel/ladder.ts';
import {
  type GrantRef,
  type GrantRequest,
  type ReleaseOutcome,
  askedAs,
  SLOT_MODES,
  type SlotMode,
} from '../kernel/lease.ts';
import { LIMITS } from '../kernel/limits.ts';
import { assertResource, joinNamespace } from '../kernel/resource.ts';
import { assertText, jsonProblem } from '../kernel/text.ts';
import {
  assertNotInHook,
  callHook,
  type CoordinatorStore,
  GUEST_MS_MAX,
  guestTransaction,
  retryContention,
  withinBound,
} from '../postgres/guest-transaction.ts';
import { type KernelStore, timed } from '../postgres/kernel-store.ts';
import { assertTtl, heldAnswer, leaseDeadlines } from './acquire-answers.ts';
import { askForOne, createAcquirer } from './acquirer.ts';
import { askForAll, type HeldAllAnswer } from './acquiring-all.ts';
import {
  acquireOnce,
  type AcquireOnceDeps,
  acquireOrRenewOnce,
  assertTogether,
  assertWait,
  type CoordinatedGrant,
  grantAllHooked,
  grantOneHooked,
  refOf,
  usedKey,
} from './coordinator-acquire.ts';
import {
  type Asked,
  orUnknown,
  releaseWithHook,
  renewWithHook,
} from './coordinator-transactions.ts';
import type {
  AnyUseCase,
  CoordinatedLease,
  CoordinatorAcquire,
  CoordinatorAcquireAll,
  CoordinatorAcquireOrRenew,
  CoordinatorHeartbeat,
  LeaseCoordinator,
  LeaseUseCase,
  ReapCallback,
  StaleReap,
} from './coordinator-types.ts';
import type { HeldAnswer, LeaseDeadlines } from './lease-types.ts';
import { lossOf, workWhileHeld } from './while-held.ts';

export interface LeaseCoordinatorDeps<Tx> {
  readonly store: CoordinatorStore<Tx>;
  readonly leases: LeaseStore;
  /** The holder that others see for its leases; no other process may have the same one. */
  readonly holder: string;
  /** Who owns it: only this principal renews and releases it. */
  readonly principal: string;
  /** The actor in the history; the holder by default. */
  readonly actor?: string | undefined;
}

/** @see LeaseCoordinator */
export function createLeaseCoordinator<Tx>(deps: LeaseCoordinatorDeps<Tx>): LeaseCoordinator<Tx> {
  assertText('holder', deps.holder, { bytesMin: 1, bytesMax: LIMITS.holderBytesMax });
  const coordinator = new Coordinator(deps);
  return {
    acquire: (lease, waitMs, options) => coordinator.acquire(lease, waitMs, options?.signal),
    acquireAll: (all, waitMs, options) => coordinator.acquireAll(all, waitMs, options?.signal),
    heartbeat: (lease) => coordinator.heartbeat(lease),
    whileHeld: (lease, work) => coordinator.whileHeld(lease, work),
    releaseOk: (lease, success) => coordinator.releaseOk(lease, success),
    releaseFail: (lease, failure) => coordinator.releaseFail(lease, failure),
    acquireOrRenew: (lease) => coordinator.acquireOrRenew(lease),
    reapStaleLeases: createStaleReaper(deps.store),
  };
}

interface Ending<Tx> {
  readonly result: 'ok' | 'failed';
  readonly detail: string | null;
  readonly hook: ((tx: Tx, grant: GrantRef) => unknown) | undefined;
}

class Coordinator<Tx> {
  readonly #deps: LeaseCoordinatorDeps<Tx>;
  readonly #one: AcquireOnceDeps<Tx, HeldAnswer>;
  readonly #several: AcquireOnceDeps<Tx, HeldAllAnswer>;
  readonly #held = new WeakMap<object, GrantRef>();
  /** The deadlines of leases that were not released, and are not known to be lost. */
  readonly #deadlines = new WeakMap<object, LeaseDeadlines>();

  constructor(deps: LeaseCoordinatorDeps<Tx>) {
    this.#deps = deps;
    const { store } = deps;
    const one = askForOne(deps.leases, 'lease');
    const several = askForAll(createGroupGranter(store));
    this.#one = {
      store,
      asking: one,
      acquirer: createAcquirer(store, one),
      grantHooked: grantOneHooked,
    };
    this.#several = {
      store,
      asking: several,
      acquirer: createAcquirer(store, several),
      grantHooked: grantAllHooked,
    };
  }

  async acquire(
    lease: AnyUseCase<Tx>,
    waitMs: number,
    signal = new AbortController().signal,
  ): Promise<CoordinatorAcquire> {
    assertNotInHook();
    assertWait(waitMs);
    const acquired = await this.#acquire(this.#one, [lease], { waitMs, signal });
    if (acquired.outcome === 'held') return acquired;
    const { leases, waitedMs } = acquired;
    const [own] = leases;
    invariant(own !== undefined, 'a request for a lease is granted one');
    return { outcome: 'granted', waitedMs, ...own };
  }

  async acquireAll(
    leases: readonly AnyUseCase<Tx>[],
    waitMs: number,
    signal = new AbortController().signal,
  ): Promise<CoordinatorAcquireAll> {
    assertNotInHook();
    assertWait(waitMs);
    return this.#acquire(this.#several, leases, { waitMs, signal });
  }

  async #acquire<Held extends HeldAnswer>(
    deps: AcquireOnceDeps<Tx, Held>,
    leases: readonly AnyUseCase<Tx>[],
    { waitMs, signal }: { readonly waitMs: number; readonly signal: AbortSignal },
  ): Promise<Exclude<CoordinatorAcquireAll, HeldAnswer> | Held> {
    const requests = leases.map((lease) => this.#requestOf(lease));
    assertTogether(requests);
    const isUsed = (lease: AnyUseCase<Tx>, place: number): boolean =>
      this.#held.get(lease)?.leaseId === requests[place]?.leaseId;
    if (leases.some(isUsed)) throw usedKey();
    const giveBack = (grants: readonly GrantRef[]): Promise<unknown> =>
      Promise.all(
        leases.map(async (lease, place) => {
          const ref = grants[place];
          if (ref === undefined) return;
          this.#held.set(lease, ref);
          await this.releaseFail(lease, 'the wait was given up');
        }),
      );
    const wanted = { leases, requests, signal };
    const acquired = await acquireOnce(deps, wanted, { waitMs, giveBack });
    if (acquired.outcome === 'held') return acquired;
    const { grants, localTimeMs, waitedMs } = acquired;
    const settled = leases.flatMap((lease, place) => {
      const grant = grants[place];
      return grant === undefined ? [] : this.#settle(lease, grant, localTimeMs);
    });
    for (const lease of leases) this.#tellDeadline(lease);
    return { outcome: 'granted', leases: settled, waitedMs };
  }

  async heartbeat(lease: AnyUseCase<Tx>): Promise<CoordinatorHeartbeat> {
    assertNotInHook();
    const { store, leases, principal } = this.#deps;
    const ref = this.#refOf(lease);
    const request = { ...ref, principal };
    const plain = async (): Promise<Asked<Awaited<ReturnType<typeof leases.renew>>>> => {
      const localTimeMs = store.clock.nowMs();
      return { outcome: await orUnknown(leases.renew('lease', request)), localTimeMs };
    };
    const { willHeartbeat } = lease;
    const { outcome, localTimeMs } =
      willHeartbeat === undefined
        ? await plain()
        : await orPlain(
            renewWithHook(store, request, (tx, at, grant) => lease.willHeartbeat?.(tx, at, grant)),
            ref,
            plain,
          );
    if (outcome.outcome === 'refused') {
      // One whose renewal is blocked lasts until its deadline.
      if (outcome.reason !== 'renewal_blocked') this.#forgetDeadline(lease, ref);
      return outcome;
    }
    const made = this.#settle(lease, { ...outcome, ...ref }, localTimeMs);
    this.#tellDeadline(lease);
    return { outcome: 'renewed', ...made };
  }

  async whileHeld<Success>(
    lease: LeaseUseCase<Success, Tx>,
    work: (signal: AbortSignal) => Promise<Success>,
  ): Promise<Success> {
    assertNotInHook();
    const { clock } = this.#deps.store;
    const ref = this.#refOf(lease);
    const deadlines = this.#deadlines.get(lease);
    if (deadlines === undefined) throw new LeaseError('lease.not_held');
    let isLost = false;
    const heartbeat = async (): Promise<CoordinatorHeartbeat> => {
      const outcome = await this.heartbeat(lease);
      // It was under way when the work was lost, which may not have ended.
      if (isLost) this.#forgetDeadline(lease, ref);
      return outcome;
    };
    const ended = await workWhileHeld({ clock, deadlines, heartbeat }, work);
    switch (ended.outcome) {
      case 'done': {
        const released = await this.releaseOk(lease, ended.result);
        if (released !== 'released') throw lossOf(released);
        return ended.result;
      }
      case 'failed':
        // The caller gets the error of the work; if the release fails, the lease runs out.
        await this.releaseFail(lease, ended.failure).catch(() => undefined);
        throw ended.failure;
      case 'lost':
        isLost = true;
        this.#forgetDeadline(lease, ref);
        throw ended.error;
    }
  }

  releaseOk<Success>(lease: LeaseUseCase<Success, Tx>, success: Success): Promise<ReleaseOutcome> {
    return this.#release(lease, {
      result: 'ok',
      detail: null,
      hook: lease.willReleaseOk && ((tx, grant) => lease.willReleaseOk?.(tx, success, grant)),
    });
  }

  releaseFail(lease: AnyUseCase<Tx>, failure: unknown): Promise<ReleaseOutcome> {
    return this.#release(lease, {
      result: 'failed',
      detail: errorText(failure),
      hook: lease.willReleaseFail && ((tx, grant) => lease.willReleaseFail?.(tx, failure, grant)),
    });
  }

  async #release(lease: object, { result, detail, hook }: Ending<Tx>): Promise<ReleaseOutcome> {
    assertNotInHook();
    const { store, leases, principal } = this.#deps;
    const ref = this.#refOf(lease);
    const request = { ...ref, principal, actor: this.#actor(), result, detail };
    const plain = (): Promise<ReleaseOutcome> => orUnknown(leases.release('lease', request));
    const outcome =
      hook === undefined
        ? await plain()
        : await orPlain(
            releaseWithHook(store, request, (tx) => hook(tx, ref)),
            ref,
            plain,
          );
    this.#deadlines.delete(lease);
    return outcome;
  }

  async acquireOrRenew(lease: AnyUseCase<Tx>): Promise<CoordinatorAcquireOrRenew> {
    assertNotInHook();
    const { willInsert, willHeartbeat } = lease;
    const found = await acquireOrRenewOnce(this.#deps.store, this.#requestOf(lease), {
      willInsert: willInsert && ((tx, at, grant) => lease.willInsert?.(tx, at, grant)),
      willHeartbeat: willHeartbeat && ((tx, at, grant) => lease.willHeartbeat?.(tx, at, grant)),
    });
    if (!('localTimeMs' in found)) return heldAnswer('lease', found, 0);
    const { outcome, localTimeMs } = found;
    const remainingMs = outcome.expiresAt - outcome.asOf;
    const grant = { ...refOf(outcome), ladder: outcome, remainingMs };
    const made = this.#settle(lease, grant, localTimeMs);
    this.#tellDeadline(lease);
    return { outcome: outcome.outcome, ...made };
  }

  #requestOf(lease: AnyUseCase<Tx>): GrantRequest {
    const { holder, principal } = this.#deps;
    return requestOf(lease, { holder, principal, actor: this.#actor() });
  }

  #actor(): string {
    return this.#deps.actor ?? this.#deps.holder;
  }

  #refOf(lease: object): GrantRef {
    const ref = this.#held.get(lease);
    if (ref === undefined) throw new LeaseError('lease.not_held');
    return ref;
  }

  /** A lease that is known to be over: no other work begins under it. A newer grant stays. */
  #forgetDeadline(lease: object, { fencingToken }: GrantRef): void {
    if (this.#held.get(lease)?.fencingToken === fencingToken) this.#deadlines.delete(lease);
  }

  /** Remembers a grant or a renewal that is committed. The use case is told once all are remembered. */
  #settle(lease: AnyUseCase<Tx>, grant: CoordinatedGrant, localTimeMs: number): CoordinatedLease {
    const ref = refOf(grant);
    const deadlines = leaseDeadlines(grant.ladder, localTimeMs, grant.remainingMs);
    this.#held.set(lease, ref);
    this.#deadlines.set(lease, deadlines);
    return { ...ref, deadlines };
  }

  /** Tells the use case until when it holds its lease. What it throws is uncaught: the lease is committed. */
  #tellDeadline(lease: AnyUseCase<Tx>): void {
    const deadlines = this.#deadlines.get(lease);
    if (deadlines === undefined) return;
    try {
      lease.setDeadline?.(deadlines.loseAtMs);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}

/** Repeats the call without its hook for a grant that is not in force: the answer shows how it ended. */
async function orPlain<Result>(
  withHook: Promise<Result>,
  ref: GrantRef,
  plain: () => Promise<Result>,
): Promise<Result> {
  try {
    return await withHook;
  } catch (error) {
    const isOver = error instanceof LeaseError && error.code === 'lease.not_held';
    if (isOver && error.details['leaseId'] === ref.leaseId) return plain();
    throw error;
  }
}

/**
 * The grant request of a use case.
 * @throws {LeaseError} `request.invalid`, `lease.ttl_out_of_range`.
 */
function requestOf(
  lease: AnyUseCase<never>,
  by: Pick<GrantRequest, 'holder' | 'principal' | 'actor'>,
): GrantRequest {
  const { namespace, key } = lease.scope();
  const leaseId = lease.key();
  const ttlMs = lease.durationMs();
  assertTtl(ttlMs);
  if (!isLeaseId(leaseId)) {
    throw new LeaseError('request.invalid', 'key() must be a UUID', {
      details: { field: 'key' },
    });
  }
  const resource = { face: 'lease', namespace: joinNamespace(namespace), name: key } as const;
  assertResource(resource);
  return {
    ...resource,
    ...by,
    leaseId: leaseId.toLowerCase(),
    tag: '',
    ...aboutOf(lease),
    ladder: serviceLadder(ttlMs),
    ...askedAs(modeOf(lease)),
  };
}

/** @throws {LeaseError} `request.invalid`. */
function modeOf(lease: AnyUseCase<never>): SlotMode | undefined {
  const mode = lease.mode?.();
  if (mode === undefined || SLOT_MODES.includes(mode)) return mode;
  throw new LeaseError('request.invalid', `mode() must be one of ${SLOT_MODES.join(', ')}`, {
    details: { field: 'mode' },
  });
}

/** The comment and metadata of a use case, as they are stored. */
function aboutOf(lease: AnyUseCase<never>): Pick<GrantRequest, 'comment' | 'metadata'> {
  const comment = lease.comment?.() ?? null;
  assertText('comment', comment ?? '', { bytesMax: LIMITS.commentBytesMax });
  return { comment, metadata: jsonOf(lease.metadata?.()) };
}

function jsonOf(metadata: unknown): unknown {
  if (metadata === undefined) return null;
  const invalid = (problem: string, cause?: unknown): LeaseError =>
    new LeaseError('request.invalid', `metadata ${problem}`, {
      details: { field: 'metadata' },
      cause,
    });
  let json: unknown;
  try {
    json = JSON.parse(JSON.stringify(metadata));
  } catch (error) {
    throw invalid('must be JSON', error);
  }
  const problem = jsonProblem(json, {
    bytesMax: LIMITS.metadataBytesMax,
    depthMax: LIMITS.metadataDepthMax,
  });
  if (problem !== undefined) throw invalid(problem);
  return json;
}

/**
 * The use case's own reaping. A lease that expired leaves one `lease_reap` row,
 * whatever ended it: a takeover, the general reaper or this. Here each row's callback runs in a
 * transaction with the row's end, so that it commits exactly once.
 */

/** How many leases a statement reads: a few milliseconds of the database's time. */
const LEASES_PER_STATEMENT_MAX = 5_000;
/** How many statements of one call look for expired leases; the next call continues from there. */
const STATEMENTS_PER_CALL_MAX = 20;
/** How many callbacks of each kind one call runs at most; the next call continues. */
const CALLBACKS_PER_CALL_MAX = 1_000;
const ROWS_PER_PAGE = 100;
/** Waiting for the locks that a callback needs, in milliseconds. */
const LOCK_MS = 1_000;

/** @see LeaseCoordinator.reapStaleLeases */
function createStaleReaper<Tx>(store: CoordinatorStore<Tx>) {
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
    const page = await timed(store, 'reap', () => orUnknown(endPage(store, range, after)));
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
  for (const kind of ['untried', 'failed'] as const) {
    const limit = seen.length + CALLBACKS_PER_CALL_MAX;
    while (seen.length < limit) {
      const wanted = { kind, seen, limit: ROWS_PER_PAGE };
      const page = await listReapRows(store.transitions, ranges, wanted);
      for (const leaseId of page) {
        const outcome = await callOne(store, leaseId, fn);
        if (outcome === 'called') calledCount += 1;
        if (outcome === 'failed') failedCount += 1;
      }
      seen.push(...page);
      if (page.length < ROWS_PER_PAGE) break;
    }
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
