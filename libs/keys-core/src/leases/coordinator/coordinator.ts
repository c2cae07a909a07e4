import { LeaseError } from '../../kernel/errors.ts';
import { serviceLadder, type Ladder } from '../../kernel/ladder.ts';
import { LIMITS } from '../../kernel/limits.ts';
import type { Grant, GrantOutcome, GrantRef, GrantRequest } from '../../kernel/outcomes.ts';
import type { ReleaseOutcome } from '../../kernel/outcomes.ts';
import { assertResource, joinNamespace } from '../../kernel/resource.ts';
import { assertText, jsonProblem } from '../../kernel/text.ts';
import {
  type LeaseStore,
  isLeaseId,
  observeHandover,
  prepareGrants,
  readGrant,
} from '../../grants/index.ts';
import {
  assertNotInHook,
  type CoordinatorStore,
} from '../../postgres/service/guest-transaction.ts';
import { heldAnswer } from '../acquire-answers.ts';
import {
  acquireOrRenewOnce,
  grantWithHook,
  releaseWithHook,
  renewWithHook,
  type Asked,
} from './coordinator-transactions.ts';
import type {
  CoordinatedLease,
  CoordinatorAcquire,
  CoordinatorAcquireOrRenew,
  CoordinatorHeartbeat,
  LeaseCoordinator,
} from './coordinator-types.ts';
import { assertTtl, leaseDeadlines } from '../deadlines.ts';
import type { Refused } from '../line.ts';
import { createStaleReaper, errorText } from './reap-stale.ts';
import type { LeaseDeadlines } from '../lease-types.ts';
import type { LeaseUseCase } from './use-case.ts';
import { createWaitingRoom, type WaitingRoom } from '../waiting.ts';
import { lossOf, workWhileHeld } from './while-held.ts';

export interface LeaseCoordinatorDeps<Tx> {
  readonly store: CoordinatorStore<Tx>;
  readonly leases: LeaseStore;
  /** Who holds what this coordinator acquires, as others are told; unlike that of any other process. */
  readonly holder: string;
  /** Who owns it: only this principal renews and releases it. */
  readonly principal: string;
  /** Who is written into the history. The holder unless said. */
  readonly actor?: string | undefined;
}

/** @see LeaseCoordinator */
export function createLeaseCoordinator<Tx>(deps: LeaseCoordinatorDeps<Tx>): LeaseCoordinator<Tx> {
  assertText('holder', deps.holder, { bytesMin: 1, bytesMax: LIMITS.holderBytesMax });
  const coordinator = new Coordinator(deps);
  const reaper = createStaleReaper(deps.store);
  return {
    acquire: (lease, waitMs, options) => coordinator.acquire(lease, waitMs, options?.signal),
    heartbeat: (lease) => coordinator.heartbeat(lease),
    whileHeld: (lease, work) => coordinator.whileHeld(lease, work),
    releaseOk: (lease, success) => coordinator.releaseDone(lease, success),
    releaseFail: (lease, failure) => coordinator.releaseFailed(lease, failure),
    acquireOrRenew: (lease) => coordinator.acquireOrRenew(lease),
    async reapStaleLeases(namespaces, includeChildren, fn) {
      assertNotInHook();
      return reaper.run(namespaces, includeChildren, fn);
    },
  };
}

/** What all methods but the hooks of a release take of a use case. */
type AnyUseCase<Tx> = Omit<LeaseUseCase<never, Tx>, 'willReleaseOk'>;

interface Ending<Tx> {
  readonly result: 'ok' | 'failed';
  readonly detail: string | null;
  readonly hook: ((tx: Tx, grant: GrantRef) => unknown) | undefined;
}

/** An acquire under way. */
interface Call<Tx> {
  readonly lease: AnyUseCase<Tx>;
  readonly request: GrantRequest;
  readonly signal: AbortSignal;
  readonly startedAtMs: number;
  /** The reading of the clock before the latest try. */
  askedAtMs: number;
  /** What the hook has thrown, in a box: it may have thrown nothing that can be recognized. */
  hookFailure: { readonly error: unknown } | undefined;
}

class Coordinator<Tx> {
  readonly #deps: LeaseCoordinatorDeps<Tx>;
  readonly #room: WaitingRoom;
  readonly #held = new WeakMap<object, GrantRef>();
  /** Of those that were not released. */
  readonly #deadlines = new WeakMap<object, LeaseDeadlines>();

  constructor(deps: LeaseCoordinatorDeps<Tx>) {
    this.#deps = deps;
    this.#room = createWaitingRoom(deps.store);
  }

  async acquire(
    lease: AnyUseCase<Tx>,
    waitMs: number,
    signal = new AbortController().signal,
  ): Promise<CoordinatorAcquire> {
    assertNotInHook();
    assertWait(waitMs);
    const call: Call<Tx> = {
      lease,
      request: this.#requestOf(lease),
      signal,
      startedAtMs: this.#deps.store.clock.nowMs(),
      askedAtMs: 0,
      hookFailure: undefined,
    };
    if (this.#held.get(lease)?.leaseId === call.request.leaseId) {
      throw usedKey();
    }
    assertWanted(signal);
    const outcome = await this.#ask(call, call.request);
    switch (outcome.outcome) {
      case 'granted':
        return this.#granted(call, outcome.grant);
      case 'held':
      case 'queued':
        return waitMs === 0 ? this.#refused(call, outcome) : this.#wait(call, waitMs, outcome);
      case 'recorded':
        throw new LeaseError('grant.contended');
    }
  }

  /** One try, with its hook if there is one. A grant that nobody wants any more is given back. */
  async #ask(call: Call<Tx>, request: GrantRequest): Promise<GrantOutcome> {
    const { outcome, localTimeMs } = await this.#askOnce(call, request);
    const found = ownGrant(outcome, request);
    call.askedAtMs = localTimeMs;
    if (found.outcome === 'granted' && call.signal.aborted) {
      this.#held.set(call.lease, refOf(found.grant));
      await this.releaseFailed(call.lease, 'the wait was given up');
      throw new LeaseError('lease.wait_cancelled');
    }
    return found;
  }

  async #askOnce(call: Call<Tx>, request: GrantRequest): Promise<Asked<GrantOutcome>> {
    const { store, leases } = this.#deps;
    const { lease, signal } = call;
    if (lease.willInsert === undefined) {
      // Before the deadlines begin to count: a process that has just started looks at the database first.
      await prepareGrants(store, [request]);
      const localTimeMs = store.clock.nowMs();
      return { outcome: await leases.grant(request, signal), localTimeMs };
    }
    const hook: typeof lease.willInsert = async (tx, at, grant) => {
      try {
        await lease.willInsert?.(tx, at, grant);
      } catch (error) {
        call.hookFailure = { error };
        throw error;
      }
    };
    return grantWithHook(store, request, hook, () => {
      assertWanted(signal);
    });
  }

  async #wait(call: Call<Tx>, waitMs: number, first: Refused): Promise<CoordinatorAcquire> {
    const { store } = this.#deps;
    const { request, signal, startedAtMs } = call;
    const elapsedMs = (): number => store.clock.nowMs() - startedAtMs;
    const waited = (outcome: 'granted' | 'gave_up'): void => {
      store.observer.waited('lease', elapsedMs(), outcome);
    };
    try {
      const outcome = await this.#room.wait({
        request: { ...request, idempotencyKey: store.ids.uuid() },
        giveUpAtMs: startedAtMs + waitMs,
        life: { signal, isAlive: () => !signal.aborted },
        attempt: (turn) => this.#turn(call, turn),
        answerOf: (refused) => heldAnswer('lease', refused ?? first, elapsedMs()),
      });
      if (outcome.outcome === 'gave_up') {
        waited('gave_up');
        return this.#refused(call, outcome.refused ?? first);
      }
      const grant =
        outcome.outcome === 'granted' ? outcome.grant : await this.#findGrant(call, request);
      waited('granted');
      if (outcome.outcome === 'granted') observeHandover(store, outcome.grant, elapsedMs());
      return this.#granted(call, grant);
    } catch (error) {
      waited('gave_up');
      if (call.hookFailure !== undefined && causeOf(error) === call.hookFailure.error) {
        throw call.hookFailure.error;
      }
      throw signal.aborted ? new LeaseError('lease.wait_cancelled') : error;
    }
  }

  /** A try from the place in line. What a hook throws ends the wait, whatever it looks like. */
  async #turn(call: Call<Tx>, turn: GrantRequest): Promise<GrantOutcome> {
    call.hookFailure = undefined;
    try {
      return await this.#ask(call, turn);
    } catch (error) {
      const { hookFailure } = call as Pick<Call<Tx>, 'hookFailure'>;
      if (hookFailure?.error !== error) throw error;
      throw new LeaseError('internal.error', undefined, { cause: error });
    }
  }

  /** The place in line is gone: to the grant that it became, whose answer was lost, or permanently. */
  async #findGrant(call: Call<Tx>, request: GrantRequest): Promise<CoordinatedGrant> {
    call.askedAtMs = this.#deps.store.clock.nowMs();
    const grant = await readGrant(this.#deps.store.prisma, request.leaseId);
    if (grant !== undefined && !isOwnedBy(grant, request)) throw usedKey();
    if (grant === undefined || grant.remainingMs <= 0) throw new LeaseError('grant.contended');
    return grant;
  }

  async heartbeat(lease: AnyUseCase<Tx>): Promise<CoordinatorHeartbeat> {
    assertNotInHook();
    const { store, leases, principal } = this.#deps;
    const ref = this.#refOf(lease);
    const request = { ...ref, principal };
    const plain = async (): Promise<Asked<Awaited<ReturnType<typeof leases.renew>>>> => {
      const localTimeMs = store.clock.nowMs();
      return { outcome: await leases.renew('lease', request), localTimeMs };
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
    if (outcome.outcome === 'refused') return outcome;
    const made = this.#settle(lease, { ...outcome, ...ref }, localTimeMs);
    return { outcome: 'renewed', ...made };
  }

  async whileHeld<Success>(
    lease: LeaseUseCase<Success, Tx>,
    work: (signal: AbortSignal) => Promise<Success>,
  ): Promise<Success> {
    assertNotInHook();
    const { clock } = this.#deps.store;
    const deadlines = this.#deadlines.get(lease);
    if (deadlines === undefined) throw new LeaseError('lease.not_held');
    const heartbeat = (): Promise<CoordinatorHeartbeat> => this.heartbeat(lease);
    const ended = await workWhileHeld({ clock, deadlines, heartbeat }, work);
    switch (ended.outcome) {
      case 'done': {
        const released = await this.releaseDone(lease, ended.result);
        if (released !== 'released') throw lossOf(released);
        return ended.result;
      }
      case 'failed':
        // What the work threw is what its caller is to know; the lease runs out if this fails.
        await this.releaseFailed(lease, ended.failure).catch(() => undefined);
        throw ended.failure;
      case 'lost':
        throw ended.error;
    }
  }

  releaseDone<Success>(
    lease: LeaseUseCase<Success, Tx>,
    success: Success,
  ): Promise<ReleaseOutcome> {
    return this.release(lease, {
      result: 'ok',
      detail: null,
      hook: lease.willReleaseOk && ((tx, grant) => lease.willReleaseOk?.(tx, success, grant)),
    });
  }

  releaseFailed(lease: AnyUseCase<Tx>, failure: unknown): Promise<ReleaseOutcome> {
    return this.release(lease, {
      result: 'failed',
      detail: errorText(failure),
      hook: lease.willReleaseFail && ((tx, grant) => lease.willReleaseFail?.(tx, failure, grant)),
    });
  }

  async release(lease: object, { result, detail, hook }: Ending<Tx>): Promise<ReleaseOutcome> {
    assertNotInHook();
    const { store, leases, principal } = this.#deps;
    const ref = this.#refOf(lease);
    const request = { ...ref, principal, actor: this.#actor(), result, detail };
    const plain = (): Promise<ReleaseOutcome> => leases.release('lease', request);
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
    return { outcome: outcome.outcome, ...this.#settle(lease, grant, localTimeMs) };
  }

  #requestOf(lease: AnyUseCase<Tx>): GrantRequest {
    const { holder, principal } = this.#deps;
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
      leaseId: leaseId.toLowerCase(),
      holder,
      principal,
      tag: '',
      ...aboutOf(lease),
      ladder: serviceLadder(ttlMs),
      actor: this.#actor(),
    };
  }

  #actor(): string {
    return this.#deps.actor ?? this.#deps.holder;
  }

  #refOf(lease: object): GrantRef {
    const ref = this.#held.get(lease);
    if (ref === undefined) throw new LeaseError('lease.not_held');
    return ref;
  }

  #granted(call: Call<Tx>, grant: CoordinatedGrant): CoordinatorAcquire {
    const waitedMs = Math.round(this.#deps.store.clock.nowMs() - call.startedAtMs);
    return { outcome: 'granted', waitedMs, ...this.#settle(call.lease, grant, call.askedAtMs) };
  }

  #refused(call: Call<Tx>, refused: Refused): CoordinatorAcquire {
    return heldAnswer('lease', refused, this.#deps.store.clock.nowMs() - call.startedAtMs);
  }

  /** Remembers a grant or a renewal that is committed, and tells the use case until when it lasts. */
  #settle(lease: AnyUseCase<Tx>, grant: CoordinatedGrant, localTimeMs: number): CoordinatedLease {
    const ref = refOf(grant);
    const deadlines = leaseDeadlines(grant.ladder, localTimeMs, grant.remainingMs);
    this.#held.set(lease, ref);
    this.#deadlines.set(lease, deadlines);
    lease.setDeadline?.(deadlines.loseAtMs);
    return { ...ref, deadlines };
  }
}

type CoordinatedGrant = GrantRef & { readonly ladder: Ladder; readonly remainingMs: number };

function refOf({ leaseId, fencingToken }: GrantRef): GrantRef {
  return { leaseId, fencingToken };
}

/**
 * A refusal by the very grant that is asked for is that grant: its answer was lost. Its hook was
 * committed with it.
 */
function ownGrant(outcome: GrantOutcome, request: GrantRequest): GrantOutcome {
  if (outcome.outcome !== 'held') return outcome;
  const { by } = outcome;
  const isOwn = by.leaseId === request.leaseId && isOwnedBy(by, request);
  if (!isOwn || by.endReason !== null || by.asOf >= by.expiresAt) return outcome;
  const grant: Grant = {
    ...by,
    ladder: by,
    remainingMs: by.expiresAt - by.asOf,
    freeMs: null,
    previous: null,
  };
  return { outcome: 'granted', grant };
}

function usedKey(): LeaseError {
  return new LeaseError('request.invalid', 'key() names a lease that was obtained before', {
    details: { field: 'key' },
  });
}

/** Whether a grant is this holder's: two processes that give one `key()` are not one holder. */
function isOwnedBy(
  grant: { readonly holder: string; readonly principal: string },
  request: GrantRequest,
): boolean {
  return grant.holder === request.holder && grant.principal === request.principal;
}

/** Asks again without the hook what has become of a grant that is not in force: it says how it ended. */
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

/** What a use case says of itself, as it is stored. */
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

function assertWait(waitMs: number): void {
  if (waitMs >= 0 && waitMs <= LIMITS.waitMsMax) return;
  throw new LeaseError('request.invalid', `waitMs must be from 0 to ${String(LIMITS.waitMsMax)}`, {
    details: { field: 'waitMs' },
  });
}

function assertWanted(signal: AbortSignal): void {
  if (signal.aborted) throw new LeaseError('lease.wait_cancelled');
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined;
}
