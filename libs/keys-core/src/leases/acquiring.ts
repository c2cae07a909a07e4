/**
 * One acquire of a service: granted at once, or after a wait in line, or refused; and the same
 * answer again to the same idempotency key.
 */
import {
  type CancelRequest,
  createCancelRequest,
  createCoalescer,
  createPastRequestReader,
  idempotentRequest,
  type KeyedRequest,
  keyText,
  type LeaseStore,
  observeHandover,
  type PastRequest,
  recordAnswers,
  refusalOf,
  renewHeld,
  type RequestAnswer,
} from '../grants/index.ts';
import type { Coalescer } from '../kernel/coalesce.ts';
import { invariant, LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import { serviceLadder } from '../kernel/ladder.ts';
import type { GrantOutcome, GrantRequest } from '../kernel/lease.ts';
import { newTimedId } from '../kernel/clock.ts';
import type { Resource } from '../kernel/resource.ts';
import type { Store } from '../postgres/open-store.ts';
import {
  assertTtl,
  type Call,
  grantedAnswer,
  heldAnswer,
  leaseDeadlines,
  refusalAgain,
  sinceSentMs,
} from './acquire-answers.ts';
import type { AcquireAnswer, CallerLife, LeaseService } from './lease-types.ts';
import type { Refused, WaitOutcome } from './line.ts';
import { createWaitingRoom, type WaitingRoom } from './waiting.ts';

interface AcquiringDeps {
  readonly store: Store;
  readonly leases: LeaseStore;
  readonly room: WaitingRoom;
  readonly cancel: CancelRequest;
  readonly face: 'lease' | 'environment';
  /** The TTL of a request that gives none, in milliseconds; undefined if every request must give one. */
  readonly ttlMsDefault?: number | undefined;
}

type Input = Call['input'];

const REFUSALS_PER_STATEMENT_MAX = 500;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

function createAcquire(deps: AcquiringDeps): Pick<LeaseService, 'acquire' | 'refuse'> {
  const acquiring = new Acquiring(deps);
  return {
    acquire: (input, caller, life) => acquiring.acquire(input, caller, life),
    refuse: (input, caller, error) => acquiring.refuse(input, caller, error),
  };
}

class Acquiring {
  readonly #deps: AcquiringDeps;
  readonly #refusals: Coalescer<RequestAnswer, boolean>;
  readonly #readPast: (request: KeyedRequest) => Promise<PastRequest | undefined>;

  constructor(deps: AcquiringDeps) {
    this.#deps = deps;
    this.#readPast = createPastRequestReader(deps.store.transitions);
    this.#refusals = createCoalescer({
      run: (refusals) => recordAnswers(deps.store.transitions, refusals),
      keysOf: ({ request }) => [keyText(request)],
      batchSizeMax: REFUSALS_PER_STATEMENT_MAX,
      inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
      queueMax: QUEUE_MAX,
    });
  }

  async acquire(input: Input, caller: Caller, life: CallerLife): Promise<AcquireAnswer> {
    const startedAtMs = this.#deps.store.clock.nowMs();
    const request = this.#requestOf(input, caller);
    const call: Call = {
      ...{ input, request, life, startedAtMs },
      nowMs: () => this.#deps.store.clock.nowMs(),
    };
    if (input.waitMs > 0 && this.#isBusy(request)) return this.#wait(call);
    const outcome = await this.#ask(call);
    if (outcome === 'contended') return this.#wait(call);
    switch (outcome.outcome) {
      case 'granted':
        return grantedAnswer(call, outcome.grant, 0);
      case 'recorded':
        invariant(isKeyed(request), 'only a key is recorded');
        return this.#answerAgain(call, request, undefined);
      case 'held':
      case 'queued':
        return input.waitMs > 0
          ? this.#wait(call, { first: outcome })
          : this.#refuse(call, outcome);
    }
  }

  /** See {@link LeaseService.refuse}. A caller that may not have the earlier answer is only refused. */
  async refuse(input: Input, { principal }: Caller, error: unknown): Promise<AcquireAnswer> {
    const { store, face } = this.#deps;
    const { idempotencyKey } = input;
    const refusal = refusalOf(error);
    if (idempotencyKey === undefined || refusal === undefined) throw error;
    const { namespace, name } = input;
    const request = { principal, ...keyed({ face, namespace, name }, input, idempotencyKey) };
    const startedAtMs = store.clock.nowMs();
    const isFirst = await this.#refusals.submit({ request, answer: refusal });
    if (isFirst || refusal.error.code === 'auth.forbidden') throw error;
    const past = await this.#readPast(request);
    if (past === undefined) throw error;
    if (past.record.answer !== null) return refusalAgain(past.record);
    // It waits in line: a caller that is refused now does not join it there.
    if (past.grant === undefined) throw error;
    return grantedAnswer({ input, startedAtMs, nowMs: () => store.clock.nowMs() }, past.grant, 0);
  }

  #requestOf(input: Input, caller: Caller): GrantRequest {
    const ttlMs = input.ttlMs ?? this.#deps.ttlMsDefault;
    assertTtl(ttlMs);
    const request = {
      face: this.#deps.face,
      namespace: input.namespace,
      name: input.name,
      leaseId: newTimedId(this.#deps.store),
      holder: input.holder,
      principal: caller.principal,
      tag: input.action ?? '',
      comment: input.comment ?? null,
      metadata: input.metadata ?? null,
      ladder: serviceLadder(ttlMs),
      confirms: input.confirms,
      actor: caller.actor,
    };
    const { idempotencyKey } = input;
    return idempotencyKey === undefined ? request : keyed(request, input, idempotencyKey);
  }

  /** Whether a try outside the line would fail, and only delay the others. */
  #isBusy(request: GrantRequest): boolean {
    return this.#deps.room.isAwaited(request) || this.#deps.leases.isAsked(request);
  }

  /** Contended: another transaction has locked the row. A caller that may wait waits in line. */
  async #ask({ input, request, life }: Call): Promise<GrantOutcome | 'contended'> {
    try {
      return await this.#deps.leases.grant(request, life.signal);
    } catch (error) {
      const isContended = error instanceof LeaseError && error.code === 'grant.contended';
      if (isContended && input.waitMs > 0) return 'contended';
      throw error;
    }
  }

  /** `first`: why it was refused before its wait, which is the answer if nothing newer is known. */
  async #wait(
    call: Call,
    { isReplay, first }: { isReplay?: true; first?: Refused } = {},
  ): Promise<AcquireAnswer> {
    const { store, room, leases, face } = this.#deps;
    const { input, life, startedAtMs } = call;
    // A request without an idempotency key gets one: its place in line is found by it.
    const request = isKeyed(call.request)
      ? call.request
      : keyed(call.request, input, store.ids.uuid());
    const elapsedMs = (): number => store.clock.nowMs() - startedAtMs;
    let outcome: WaitOutcome;
    try {
      outcome = await room.wait({
        request,
        isReplay,
        startedAtMs,
        giveUpAtMs: startedAtMs + input.waitMs,
        life,
        attempt: async (turn) => {
          const granted = await leases.grant(turn);
          if (granted.outcome === 'granted') await this.#assertHeard(life, request);
          return granted;
        },
        answerOf: (refused) => heldAnswer(face, refused ?? first, elapsedMs()),
      });
    } catch (error) {
      store.observer.waited(face, elapsedMs(), 'gave_up');
      throw life.signal.aborted ? new LeaseError('lease.wait_cancelled') : error;
    }
    if (outcome.outcome === 'gave_up') {
      store.observer.waited(face, elapsedMs(), 'gave_up');
      return outcome.answer;
    }
    if (outcome.outcome === 'recorded') return this.#answerAgain(call, request, outcome.joinedAsOf);
    store.observer.waited(face, elapsedMs(), 'granted');
    observeHandover(store, outcome.grant, elapsedMs());
    return grantedAnswer(call, outcome.grant, sinceSentMs(call, outcome.grant, outcome.joinedAsOf));
  }

  /**
   * Gives back a grant whose caller fell silent just before its turn, or was gone by then, so that the
   * waiters behind it do not wait for the TTL. A caller that comes back learns that its wait is over, and
   * asks again with another key; a caller that has already come back and received the grant keeps it.
   * @throws {LeaseError} `lease.wait_cancelled`.
   */
  async #assertHeard(life: CallerLife, request: KeyedRequest & GrantRequest): Promise<void> {
    if (life.isAlive() && !life.signal.aborted) return;
    const { principal, idempotencyKey, actor } = request;
    await this.#deps.cancel({
      ...{ principal, idempotencyKey, actor },
      result: 'failed',
      detail: 'its caller did not answer when its turn came',
      onlyUnrepeated: true,
    });
    throw new LeaseError('lease.wait_cancelled');
  }

  /** Refuses, and records it: a late duplicate must not be granted what its caller was refused. */
  async #refuse(call: Call, refused: Refused): Promise<AcquireAnswer> {
    const { store, face } = this.#deps;
    const { request, startedAtMs } = call;
    const answer = heldAnswer(face, refused, store.clock.nowMs() - startedAtMs);
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
    const past = await this.#readPast(request);
    if (past === undefined) throw new LeaseError('grant.contended');
    const { record, grant } = past;
    if (record.answer !== null || record.leaseId === null) return refusalAgain(record);
    if (grant !== undefined) {
      return grantedAnswer(call, grant, sinceSentMs(call, grant, joinedAsOf));
    }
    // The request waits in line, or did when its controller died: the caller takes its place.
    if (call.input.waitMs > 0 && joinedAsOf === undefined) {
      return this.#wait(
        { ...call, request: { ...request, leaseId: record.leaseId } },
        {
          isReplay: true,
        },
      );
    }
    throw new LeaseError('grant.contended');
  }
}

function isKeyed(request: GrantRequest): request is GrantRequest & KeyedRequest {
  return request.idempotencyKey !== undefined && request.fingerprint !== undefined;
}

/** The request with an idempotency key and the fingerprint that is recorded with it. */
function keyed<Asked extends Resource>(request: Asked, input: Input, idempotencyKey: string) {
  const { fingerprint } = idempotentRequest(request, {
    ttlMs: input.ttlMs ?? null,
    holder: input.holder,
    action: input.action ?? null,
    comment: input.comment ?? null,
    metadata: input.metadata ?? null,
    // Only where it is present: without it, the fingerprint is that of older versions.
    ...(input.datacenter === undefined ? {} : { datacenter: input.datacenter }),
  });
  return { ...request, idempotencyKey, fingerprint };
}

type LeaseServiceDeps = Omit<AcquiringDeps, 'room' | 'cancel'>;

/** What services do with leases, or with environments, over the kernel. */
export function createLeaseService(deps: LeaseServiceDeps): LeaseService {
  const { store, leases, face } = deps;
  const cancel = createCancelRequest(store, face);
  return {
    ...createAcquire({ ...deps, cancel, room: createWaitingRoom(store) }),

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
