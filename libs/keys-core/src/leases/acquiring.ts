/**
 * One acquire: granted at once, or after a wait in line, or refused. `createAcquirer` carries it out, for the
 * coordinator of a process too; `createLeaseService` answers callers of a controller.
 */
import {
  type CancelRequest,
  createCancelRequest,
  createCoalescer,
  createPastRequestReader,
  downgradeHeld,
  idempotentRequest,
  type KeyedRequest,
  keyText,
  type LeaseStore,
  observeHandover,
  type PastRequest,
  readPlace,
  readSupersededGrant,
  recordAnswers,
  refusalIn,
  refusalOf,
  renewHeld,
  type RequestAnswer,
  updateHeld,
} from '../grants/index.ts';
import type { Coalescer } from '../kernel/coalesce.ts';
import { invariant, LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import { serviceLadder } from '../kernel/ladder.ts';
import type { Grant, GrantOutcome, GrantRequest } from '../kernel/lease.ts';
import { newTimedId } from '../kernel/clock.ts';
import { LIMITS } from '../kernel/limits.ts';
import { askedAs } from '../kernel/pool.ts';
import type { Resource } from '../kernel/resource.ts';
import type { KernelStore } from '../postgres/kernel-store.ts';
import {
  assertHeard,
  assertTtl,
  type Call,
  grantedAnswer,
  heldAnswer,
  isKeyed,
  leaseDeadlines,
  refusalAgain,
  sinceSentMs,
  waitingAnswer,
} from './acquire-answers.ts';
import type { AcquireAnswer, CallerLife, HeldAnswer, LeaseService } from './lease-types.ts';
import { priorityOf, type Standing } from './environment-waiting.ts';
import { frozenForMs, isFrozen, type Refused } from './line.ts';
import { createWaitingRoom } from './waiting.ts';

/** An acquire, as its caller wants it carried out. */
export interface AcquireCall {
  readonly request: GrantRequest;
  /** For how long it may wait in line; 0: it is answered at once. */
  readonly waitMs: number;
  /** How long this call waits at most, if that is less. */
  readonly callMs?: number | undefined;
  /** How it stands in the line for an environment. */
  readonly standing?: Standing | undefined;
  readonly life: CallerLife;
  readonly startedAtMs: number;
  /**
   * One try, before its wait or, with `isQueued`, from its place in line. A grant that the caller does not want
   * any more it gives back, and throws `lease.wait_cancelled`.
   */
  readonly ask: (request: GrantRequest) => Promise<GrantOutcome>;
  /** The request as it waits in line, where it is found by an idempotency key: its own, or this one. */
  readonly inLine: (idempotencyKey: string) => InLine;
}

type InLine = GrantRequest & { readonly idempotencyKey: string };

/** What became of an acquire. */
export type Acquired =
  /** `joinedAsOf`: when it joined the line, by the database's clock; undefined if it did not wait. */
  | {
      readonly outcome: 'granted';
      readonly grant: Grant;
      readonly joinedAsOf: number | undefined;
    }
  | { readonly outcome: 'refused'; readonly refused: Refused }
  /** The time of this call was over; `held` is what stands in its way. */
  | {
      readonly outcome: 'waiting';
      readonly held: HeldAnswer;
      readonly frozen: LeaseError | undefined;
      readonly ticketId: string;
    }
  /** Its time in line was over; this answer is recorded. */
  | { readonly outcome: 'gave_up'; readonly answer: HeldAnswer }
  /** Its idempotency key was used, or its place in line is gone: what became of it is recorded. */
  | {
      readonly outcome: 'recorded';
      readonly request: GrantRequest;
      readonly joinedAsOf: number | undefined;
    };

/** Tries, waits in line for its turn, and gives up: the same for callers of a controller and for a coordinator. */
export interface Acquirer {
  /**
   * @throws {LeaseError} `lease.wait_cancelled` when the caller is gone, `grant.hold_off`; `grant.contended`
   * unless it may wait; what `ask` throws.
   */
  acquire(call: AcquireCall): Promise<Acquired>;
  /** Takes the place in line that the same request took before, and waits on. */
  resume(call: AcquireCall): Promise<Acquired>;
}

export function createAcquirer(store: KernelStore, leases: LeaseStore): Acquirer {
  const room = createWaitingRoom(store);

  /** Whether a try outside the line would fail, and only delay the others. */
  const isBusy = (request: GrantRequest): boolean =>
    room.isAwaited(request) || leases.isAsked(request);

  /** `first`: why it was refused before its wait, which is the answer if nothing newer is known. */
  async function wait(
    call: AcquireCall,
    { first, isReplay }: { readonly first?: Refused; readonly isReplay?: true } = {},
  ): Promise<Acquired> {
    const { life, startedAtMs, ask } = call;
    const request = call.inLine(call.request.idempotencyKey ?? store.ids.uuid());
    const { face } = request;
    const elapsedMs = (): number => store.clock.nowMs() - startedAtMs;
    const stopWaiting = life.startWaiting?.();
    try {
      const outcome = await room.wait({
        request,
        isReplay,
        life,
        startedAtMs,
        giveUpAtMs: startedAtMs + call.waitMs,
        callEndsAtMs: call.callMs === undefined ? undefined : startedAtMs + call.callMs,
        standing: call.standing,
        look: (turn) => leases.refusal(turn),
        attempt: ask,
        answerOf: (refused) => heldAnswer(face, refused ?? first, elapsedMs()),
      });
      if (outcome.outcome === 'gave_up') {
        store.observer.waited(face, elapsedMs(), 'gave_up');
        return outcome;
      }
      if (outcome.outcome === 'recorded') return { ...outcome, request };
      if (outcome.outcome === 'waiting') {
        const held = heldAnswer(face, outcome.refused ?? first, elapsedMs());
        return { outcome: 'waiting', held, frozen: outcome.frozen, ticketId: request.leaseId };
      }
      store.observer.waited(face, elapsedMs(), 'granted');
      observeHandover(store, outcome.grant, elapsedMs());
      return outcome;
    } catch (error) {
      store.observer.waited(face, elapsedMs(), 'gave_up');
      throw life.signal.aborted ? new LeaseError('lease.wait_cancelled') : error;
    } finally {
      stopWaiting?.();
    }
  }

  return {
    async acquire(call) {
      const { request, waitMs, standing } = call;
      // What supersedes others does so in line: they may be before it there.
      const isSuperseding = standing?.supersede !== undefined;
      if (isSuperseding) await assertMayPass(leases, call);
      const isInLine = isBusy(request) || isSuperseding;
      const outcome = waitMs > 0 && isInLine ? undefined : await askFirst(call);
      if (outcome === undefined) return wait(call);
      switch (outcome.outcome) {
        case 'granted':
          return { ...outcome, joinedAsOf: undefined };
        case 'recorded':
          return { ...outcome, request, joinedAsOf: undefined };
        case 'held':
        case 'queued':
          return waitMs > 0
            ? wait(call, { first: outcome })
            : { outcome: 'refused', refused: outcome };
      }
    },
    resume: (call) => wait(call, { isReplay: true }),
  };
}

/** A first try, outside the line. @returns undefined if what stands in its way may pass while it waits. */
async function askFirst({ request, waitMs, ask }: AcquireCall): Promise<GrantOutcome | undefined> {
  try {
    return await ask(request);
  } catch (error) {
    // Another transaction has locked the row, or it is frozen, perhaps for less long than this may wait.
    const mayPass =
      isFrozen(error) || (error instanceof LeaseError && error.code === 'grant.contended');
    if (waitMs === 0 || !mayPass) throw error;
    return undefined;
  }
}

/**
 * Refuses a request before it ends others for nothing.
 * @throws {LeaseError} `grant.hold_off`; `environment.frozen` for longer than it may wait.
 */
async function assertMayPass(leases: LeaseStore, { request, waitMs }: AcquireCall): Promise<void> {
  try {
    await leases.refusal(request);
  } catch (error) {
    if (!isFrozen(error) || frozenForMs(error) >= waitMs) throw error;
  }
}

interface AcquiringDeps {
  readonly store: KernelStore;
  readonly leases: LeaseStore;
  readonly cancel: CancelRequest;
  readonly face: 'lease' | 'environment';
  /** The TTL of a request that gives none, in milliseconds; undefined if every request must give one. */
  readonly ttlMsDefault?: number | undefined;
}

type Input = Call['input'];

const REFUSALS_PER_STATEMENT_MAX = 500;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

/**
 * Answers acquires as callers of a controller get them, and the same answer again to the same idempotency
 * key.
 */
class AcquireAnswers {
  readonly #deps: AcquiringDeps & { readonly nowMs: () => number };
  readonly #acquirer: Acquirer;
  readonly #refusals: Coalescer<RequestAnswer, boolean>;
  readonly #readPast: (request: KeyedRequest) => Promise<PastRequest | undefined>;

  constructor(deps: AcquiringDeps) {
    this.#deps = { ...deps, nowMs: () => deps.store.clock.nowMs() };
    this.#acquirer = createAcquirer(deps.store, deps.leases);
    this.#readPast = createPastRequestReader(deps.store.transitions);
    this.#refusals = createCoalescer({
      run: (refusals) => recordAnswers(deps.store.transitions, refusals),
      keysOf: ({ request }) => [keyText(request)],
      batchSizeMax: REFUSALS_PER_STATEMENT_MAX,
      inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
      queueMax: QUEUE_MAX,
    });
  }

  acquire(input: Input, caller: Caller, life: CallerLife): Promise<AcquireAnswer> {
    const { nowMs } = this.#deps;
    const call = {
      input,
      request: this.#requestOf(input, caller),
      life,
      startedAtMs: nowMs(),
      nowMs,
      standing: this.#standingOf(input, caller, life),
    };
    if (input.waitMs === 0) return this.#acquireNow(call);
    return this.#answer(call, (wanted) => this.#acquirer.acquire(wanted));
  }

  /** What most calls are: it never waits, so nothing is prepared for a wait. */
  async #acquireNow(call: Call): Promise<AcquireAnswer> {
    const { request, life } = call;
    const outcome = await this.#deps.leases.grant(request, life.signal);
    switch (outcome.outcome) {
      case 'granted':
        return grantedAnswer(call, outcome.grant, 0);
      case 'recorded':
        invariant(isKeyed(request), 'only a key is recorded');
        return this.#answerAgain(call, request, undefined);
      case 'held':
      case 'queued':
        return this.#refuse(call, outcome);
    }
  }

  async #answer(
    call: Call,
    carryOut: (call: AcquireCall) => Promise<Acquired>,
  ): Promise<AcquireAnswer> {
    const { input, request, life, startedAtMs } = call;
    let askedAtMs = startedAtMs;
    const acquired = await carryOut({
      request,
      life,
      startedAtMs,
      waitMs: input.waitMs,
      callMs: Math.min(input.callMs ?? LIMITS.waitMsMax, LIMITS.waitMsMax),
      standing: call.standing,
      ask: (wanted) => {
        askedAtMs = this.#deps.nowMs();
        return this.#ask(wanted, life);
      },
      inLine: (idempotencyKey) => ({
        ...(isKeyed(request) ? request : keyed(request, input, idempotencyKey)),
        confirms: input.confirms,
      }),
    });
    switch (acquired.outcome) {
      case 'granted': {
        const { grant, joinedAsOf } = acquired;
        return grantedAnswer(
          call,
          grant,
          sinceSentMs({ startedAtMs, askedAtMs }, grant, joinedAsOf),
        );
      }
      case 'refused':
        return this.#refuse(call, acquired.refused);
      case 'gave_up':
        return acquired.answer;
      case 'waiting': {
        const place = await readPlace(this.#deps.store.transitions, acquired.ticketId);
        return waitingAnswer(acquired.held, place, acquired.frozen);
      }
      case 'recorded':
        invariant(isKeyed(acquired.request), 'only a key is recorded');
        return this.#answerAgain(call, acquired.request, acquired.joinedAsOf);
    }
  }

  /** A caller that may have fallen silent during its wait must be there when its turn comes. */
  async #ask(request: GrantRequest, life: CallerLife): Promise<GrantOutcome> {
    if (request.isQueued !== true) return this.#deps.leases.grant(request, life.signal);
    const outcome = await this.#deps.leases.grant(request);
    if (outcome.outcome === 'granted') await assertHeard(this.#deps.cancel, life, request);
    return outcome;
  }

  /** See {@link LeaseService.refuse}. A caller that may not have the earlier answer is only refused. */
  async refuse(input: Input, { principal }: Caller, error: unknown): Promise<AcquireAnswer> {
    const { nowMs, face } = this.#deps;
    const { idempotencyKey } = input;
    const refusal = refusalOf(error);
    if (idempotencyKey === undefined || refusal === undefined) throw error;
    const { namespace, name } = input;
    const request = { principal, ...keyed({ face, namespace, name }, input, idempotencyKey) };
    const startedAtMs = nowMs();
    const isFirst = await this.#refusals.submit({ request, answer: refusal });
    if (isFirst || refusal.error.code === 'auth.forbidden') throw error;
    const past = await this.#readPast(request);
    if (past === undefined) throw error;
    if (past.record.answer !== null) return refusalAgain(past.record);
    // It waits in line: a caller that is refused now does not join it there.
    if (past.grant === undefined) throw error;
    await this.#assertNotSuperseded(past.grant.leaseId);
    return grantedAnswer({ input, startedAtMs, nowMs }, past.grant, 0);
  }

  /** @throws {LeaseError} `request.invalid`. */
  #standingOf(input: Input, { role }: Caller, life: CallerLife): Standing | undefined {
    if (this.#deps.face !== 'environment') return undefined;
    const { supersede, waitMs, order } = input;
    if (supersede !== undefined && waitMs === 0) {
      throw new LeaseError(
        'request.invalid',
        'supersede needs waitMs: what runs may take long to stop',
        {
          details: { field: 'supersede' },
        },
      );
    }
    return {
      priority: priorityOf(role),
      isNewestFirst: order === 'newest',
      supersede,
      onSuperseded: (superseded) => life.onSuperseded?.(superseded),
    };
  }

  #requestOf(input: Input, caller: Caller): GrantRequest {
    const ttlMs = input.ttlMs ?? this.#deps.ttlMsDefault;
    assertTtl(ttlMs);
    const { face } = this.#deps;
    const { namespace, name, holder, idempotencyKey, override } = input;
    return {
      face,
      namespace,
      name,
      leaseId: newTimedId(this.#deps.store),
      holder,
      principal: caller.principal,
      ...askedAs(input.mode),
      tag: input.action ?? '',
      comment: input.comment ?? null,
      metadata: input.metadata ?? null,
      ladder: serviceLadder(ttlMs),
      // One that may wait confirms what it has waited for.
      confirms: input.confirms === true && input.waitMs === 0,
      actor: caller.actor,
      override: override === undefined ? undefined : { role: caller.role, reason: override.reason },
      idempotencyKey,
      fingerprint:
        idempotencyKey === undefined ? undefined : fingerprintOf({ face, namespace, name }, input),
    };
  }

  /**
   * A caller whose grant was superseded before it had the answer, or had confirmed it, is told by whom.
   * @throws {LeaseError} `environment.superseded`.
   */
  async #assertNotSuperseded(leaseId: string): Promise<void> {
    const { face, store } = this.#deps;
    if (face !== 'environment') return;
    const superseded = refusalIn(await readSupersededGrant(store.transitions, leaseId));
    if (superseded !== undefined) throw superseded;
  }

  /** Refuses, and records it: a late duplicate must not be granted what its caller was refused. */
  async #refuse(call: Call, refused: Refused): Promise<AcquireAnswer> {
    const { request, startedAtMs, nowMs } = call;
    const answer = heldAnswer(this.#deps.face, refused, nowMs() - startedAtMs);
    if (!isKeyed(request)) return answer;
    const isFirst = await this.#refusals.submit({ request, answer });
    return isFirst ? answer : this.#answerAgain(call, request, undefined);
  }

  /**
   * The answer of a request whose idempotency key has been used, or the wait in line that it stands for.
   * @throws {LeaseError} `lease.wait_cancelled`, `request.idempotency_reused`.
   */
  async #answerAgain(
    call: Call,
    request: KeyedRequest & GrantRequest,
    joinedAsOf: number | undefined,
  ): Promise<AcquireAnswer> {
    const times = { startedAtMs: call.startedAtMs, askedAtMs: this.#deps.nowMs() };
    const past = await this.#readPast(request);
    if (past === undefined) throw new LeaseError('grant.contended');
    const { record, grant } = past;
    if (record.answer !== null || record.leaseId === null) return refusalAgain(record);
    if (grant !== undefined) {
      await this.#assertNotSuperseded(grant.leaseId);
      return grantedAnswer(call, grant, sinceSentMs(times, grant, joinedAsOf));
    }
    // The request waits in line, or did when its controller died: the caller takes its place.
    if (call.input.waitMs > 0 && joinedAsOf === undefined) {
      const again = { ...call, request: { ...request, leaseId: record.leaseId } };
      return this.#answer(again, (waiting) => this.#acquirer.resume(waiting));
    }
    throw new LeaseError('grant.contended');
  }
}

/** The request with an idempotency key and the fingerprint that is recorded with it. */
function keyed<Asked extends Resource>(request: Asked, input: Input, idempotencyKey: string) {
  return { ...request, idempotencyKey, fingerprint: fingerprintOf(request, input) };
}

function fingerprintOf(resource: Resource, input: Input): string {
  const { fingerprint } = idempotentRequest(resource, {
    action: input.action ?? null,
    comment: input.comment ?? null,
    holder: input.holder,
    metadata: input.metadata ?? null,
    ttlMs: input.ttlMs ?? null,
    // Only where it is present: without it, the fingerprint is that of older versions.
    ...(input.datacenter === undefined ? {} : { datacenter: input.datacenter }),
    ...(input.override === undefined ? {} : { override: input.override.reason }),
    ...(input.order === undefined ? {} : { order: input.order }),
    ...(input.supersede === undefined ? {} : { supersede: input.supersede }),
    ...(input.mode === undefined || input.mode === 'exclusive' ? {} : { mode: input.mode }),
  });
  return fingerprint;
}

type LeaseServiceDeps = Omit<AcquiringDeps, 'cancel'>;

/** What services do with leases, or with environments, over the kernel. */
export function createLeaseService(deps: LeaseServiceDeps): LeaseService {
  const { store, leases, face } = deps;
  const cancel = createCancelRequest(store, face);
  const answers = new AcquireAnswers({ ...deps, cancel });
  return {
    acquire: (input, caller, life) => answers.acquire(input, caller, life),
    refuse: (input, caller, error) => answers.refuse(input, caller, error),

    heartbeat: ({ localTimeMs, renewals }, { principal }) =>
      renewHeld(leases, { face, principal }, renewals, (ladder, remainingMs) =>
        leaseDeadlines(ladder, localTimeMs, remainingMs),
      ),

    release: (input, caller) =>
      leases.release(face, {
        leaseId: input.leaseId,
        fencingToken: input.fencingToken,
        principal: caller.principal,
        actor: caller.actor,
        result: input.result,
        detail: input.detail ?? null,
      }),

    update: ({ leaseId, fencingToken, metadata }, { principal, actor }) =>
      updateHeld(store, face, {
        leaseId,
        fencingToken,
        principal,
        actor,
        metadata: metadata ?? null,
      }),

    downgrade: ({ leaseId, fencingToken }, { principal, actor }) =>
      downgradeHeld(store, { leaseId, fencingToken, principal, actor }),

    cancel: ({ idempotencyKey }, caller) =>
      cancel({
        principal: caller.principal,
        actor: caller.actor,
        idempotencyKey,
        result: 'ok',
        detail: 'given up',
      }),
  };
}
