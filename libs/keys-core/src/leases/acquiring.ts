/** Acquires as callers of a controller get them: of one lease, or of several together. */
import {
  type CancelRequest,
  createCancelRequest,
  createCoalescer,
  createPastRequestReader,
  downgradeHeld,
  type GrantAllOutcome,
  type GrantRequests,
  idempotentRequest,
  type KeyedRequest,
  keyText,
  leaseIdsFrom,
  type LeaseStore,
  type PastRequest,
  readGrants,
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
import { type Grant, type GrantRequest, askedAs } from '../kernel/lease.ts';
import { newTimedId } from '../kernel/clock.ts';
import { LIMITS } from '../kernel/limits.ts';
import type { Resource } from '../kernel/resource.ts';
import type { KernelStore } from '../postgres/kernel-store.ts';
import {
  assertHeard,
  assertTtl,
  type GivenGrant,
  grantedLease,
  isKeyed,
  leaseDeadlines,
  refusalAgain,
  sinceSentMs,
  waitingAnswer,
} from './acquire-answers.ts';
import {
  type AcquireCall,
  type Acquired,
  type Acquirer,
  askForOne,
  type Asking,
  createAcquirer,
} from './acquirer.ts';
import { priorityOf, type Standing } from './environment-waiting.ts';
import type {
  AcquireAnswer,
  AcquireInput,
  CallerLife,
  GrantedLease,
  HeldAnswer,
  LeaseService,
  WaitingAnswer,
} from './lease-types.ts';
import type { Refused } from './line.ts';

/** What the inputs of all kinds of acquires have. */
type CommonInput = Pick<AcquireInput, 'waitMs' | 'callMs' | 'confirms' | 'idempotencyKey'> & {
  readonly localTimeMs: number;
};

/** What callers of a controller ask for, and how they are answered: one lease, or several together. */
export interface AcquireKind<
  Input extends CommonInput,
  Held extends HeldAnswer,
  Answer,
> extends Asking<Held> {
  readonly face: 'lease' | 'environment';
  /** The first resource that is asked for; undefined if the input, which may not have been checked, has none. */
  firstOf(input: Input): Resource | undefined;
  /** How many leases are asked for. */
  countOf(input: Input): number;
  /** The requests, the first with the idempotency key. @throws {LeaseError} `lease.ttl_out_of_range`. */
  requestsOf(input: Input, caller: Caller): GrantRequests;
  /** What a request with an idempotency key is compared by with an earlier one. */
  fingerprintOf(first: Resource, input: Input): string;
  /** @throws {LeaseError} `request.invalid`. */
  standingOf?(input: Input, caller: Caller, life: CallerLife): Standing;
  grantedAnswer(leases: readonly GrantedLease[], waitedMs: number): Answer;
  waitingAnswer(waiting: WaitingAnswer, held: Held): Answer;
}

/** A call under way. */
interface Call<Input> {
  readonly input: Input;
  readonly requests: GrantRequests;
  readonly life: CallerLife;
  readonly startedAtMs: number;
  readonly standing: Standing | undefined;
}

/** When a grant that was waited for was asked for, by this clock, and when its line was joined, by the database's. */
interface Waited {
  readonly askedAtMs: number;
  /** Undefined if it did not wait. */
  readonly joinedAsOf: number | undefined;
}

const NOT_WAITED: Waited = { askedAtMs: 0, joinedAsOf: undefined };

const REFUSALS_PER_STATEMENT_MAX = 500;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

/**
 * Answers acquires as callers of a controller get them, and the same answer again to the same idempotency
 * key.
 */
export class AcquireAnswers<Input extends CommonInput, Held extends HeldAnswer, Answer> {
  readonly #store: KernelStore;
  readonly #kind: AcquireKind<Input, Held, Answer>;
  readonly #acquirer: Acquirer<Held>;
  readonly #cancel: CancelRequest;
  readonly #refusals: Coalescer<RequestAnswer, boolean>;
  readonly #readPast: (request: KeyedRequest) => Promise<PastRequest | undefined>;

  constructor(store: KernelStore, kind: AcquireKind<Input, Held, Answer>) {
    this.#store = store;
    this.#kind = kind;
    this.#acquirer = createAcquirer(store, kind);
    this.#cancel = createCancelRequest(store, kind.face);
    this.#readPast = createPastRequestReader(store.transitions);
    this.#refusals = createCoalescer({
      run: (refusals) => recordAnswers(store.transitions, refusals),
      keysOf: ({ request }) => [keyText(request)],
      batchSizeMax: REFUSALS_PER_STATEMENT_MAX,
      inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
      queueMax: QUEUE_MAX,
    });
  }

  acquire(input: Input, caller: Caller, life: CallerLife): Promise<Answer | Held> {
    const requests = this.#kind.requestsOf(input, caller);
    const standing = this.#kind.standingOf?.(input, caller, life);
    const startedAtMs = this.#store.clock.nowMs();
    const call = { input, requests, life, startedAtMs, standing };
    if (input.waitMs === 0) return this.#acquireNow(call);
    return this.#answer(call, (wanted) => this.#acquirer.acquire(wanted));
  }

  /** What most calls are: it never waits, so nothing is prepared for a wait. */
  async #acquireNow(call: Call<Input>): Promise<Answer | Held> {
    const outcome = await this.#kind.grant(call.requests, call.life.signal);
    switch (outcome.outcome) {
      case 'granted':
        return this.#granted(call, outcome.grants);
      case 'recorded':
        return this.#answerAgain(call, call.requests, undefined);
      case 'held':
      case 'queued':
        return this.#refuse(call, outcome);
    }
  }

  async #answer(
    call: Call<Input>,
    carryOut: (call: AcquireCall) => Promise<Acquired<Held>>,
  ): Promise<Answer | Held> {
    const { input, requests, life, startedAtMs, standing } = call;
    let askedAtMs = startedAtMs;
    const acquired = await carryOut({
      requests,
      life,
      startedAtMs,
      waitMs: input.waitMs,
      callMs: Math.min(input.callMs ?? LIMITS.waitMsMax, LIMITS.waitMsMax),
      standing,
      ask: (wanted) => {
        askedAtMs = this.#store.clock.nowMs();
        return this.#ask(wanted, life);
      },
      inLine: (idempotencyKey) =>
        changeFirst(requests, (first) => ({
          ...(isKeyed(first) ? first : this.#keyed(first, input, idempotencyKey)),
          confirms: input.confirms,
        })),
    });
    switch (acquired.outcome) {
      case 'granted':
        return this.#granted(call, acquired.grants, { askedAtMs, joinedAsOf: acquired.joinedAsOf });
      case 'refused':
        return this.#refuse(call, acquired.refused);
      case 'gave_up':
        return acquired.answer;
      case 'waiting': {
        const { held, frozen, ticketId } = acquired;
        const place = await readPlace(this.#store.transitions, ticketId);
        return this.#kind.waitingAnswer(waitingAnswer(held, place, frozen), held);
      }
      case 'recorded':
        return this.#answerAgain(call, acquired.requests, acquired.joinedAsOf);
    }
  }

  /** A caller that may have fallen silent during its wait must be there when its turn comes. */
  async #ask(requests: GrantRequests, life: CallerLife): Promise<GrantAllOutcome> {
    const [first] = requests;
    if (first.isQueued !== true) return this.#kind.grant(requests, life.signal);
    const outcome = await this.#kind.grant(requests);
    if (outcome.outcome === 'granted') await assertHeard(this.#cancel, life, first);
    return outcome;
  }

  /** See {@link LeaseService.refuse}. A caller that may not have the earlier answer is only refused. */
  async refuse(input: Input, { principal }: Caller, error: unknown): Promise<Answer | Held> {
    const { idempotencyKey } = input;
    const refusal = refusalOf(error);
    const resource = this.#kind.firstOf(input);
    if (idempotencyKey === undefined || refusal === undefined || resource === undefined) {
      throw error;
    }
    const request = { principal, ...this.#keyed(resource, input, idempotencyKey) };
    const startedAtMs = this.#store.clock.nowMs();
    const isFirst = await this.#refusals.submit({ request, answer: refusal });
    if (isFirst || refusal.error.code === 'auth.forbidden') throw error;
    const past = await this.#readPast(request);
    if (past === undefined) throw error;
    if (past.record.answer !== null) return refusalAgain(past.record) as Held;
    // It waits in line: a caller that is refused now does not join it there.
    if (past.grant === undefined) throw error;
    return this.#grantedBefore({ input, startedAtMs }, past.grant);
  }

  /** See {@link LeaseService.refusedBefore}. */
  async refusedBefore(input: Input, { principal }: Caller): Promise<Held | undefined> {
    const { idempotencyKey } = input;
    const resource = this.#kind.firstOf(input);
    if (idempotencyKey === undefined || resource === undefined) return undefined;
    const request = { principal, ...this.#keyed(resource, input, idempotencyKey) };
    const past = await this.#readPast(request);
    return past?.record.answer == null ? undefined : (refusalAgain(past.record) as Held);
  }

  #granted(
    { input, startedAtMs }: Pick<Call<Input>, 'input' | 'startedAtMs'>,
    grants: readonly (GivenGrant & Pick<Grant, 'asOf'>)[],
    { askedAtMs, joinedAsOf }: Waited = NOT_WAITED,
  ): Answer {
    const sinceMs = (grant: Pick<Grant, 'asOf' | 'remainingMs'>): number =>
      sinceSentMs({ startedAtMs, askedAtMs }, grant, joinedAsOf);
    const leases = grants.map((grant) => grantedLease(grant, input.localTimeMs + sinceMs(grant)));
    return this.#kind.grantedAnswer(leases, Math.round(this.#store.clock.nowMs() - startedAtMs));
  }

  /**
   * A caller whose grant was superseded before it had the answer, or had confirmed it, is told by whom.
   * @throws {LeaseError} `environment.superseded`.
   */
  async #grantedBefore(
    call: Pick<Call<Input>, 'input' | 'startedAtMs'>,
    first: NonNullable<PastRequest['grant']>,
    waited?: Waited,
  ): Promise<Answer> {
    const { transitions } = this.#store;
    if (this.#kind.face === 'environment') {
      const superseded = refusalIn(await readSupersededGrant(transitions, first.leaseId));
      if (superseded !== undefined) throw superseded;
    }
    const count = this.#kind.countOf(call.input);
    const grants =
      count === 1 ? [first] : await readGrants(transitions, leaseIdsFrom(first.leaseId, count));
    invariant(grants.length === count, 'leases that were granted together are all known');
    return this.#granted(call, grants, waited);
  }

  /** Refuses, and records it: a late duplicate must not be granted what its caller was refused. */
  async #refuse(call: Call<Input>, refused: Refused): Promise<Answer | Held> {
    const { requests, startedAtMs } = call;
    const elapsedMs = this.#store.clock.nowMs() - startedAtMs;
    const answer = this.#kind.heldAnswer(requests, refused, elapsedMs);
    const [request] = requests;
    if (!isKeyed(request)) return answer;
    const isFirst = await this.#refusals.submit({ request, answer });
    return isFirst ? answer : this.#answerAgain(call, requests, undefined);
  }

  /**
   * The answer of a request whose idempotency key has been used, or the wait in line that it stands for.
   * @throws {LeaseError} `lease.wait_cancelled`, `request.idempotency_reused`.
   */
  async #answerAgain(
    call: Call<Input>,
    requests: GrantRequests,
    joinedAsOf: number | undefined,
  ): Promise<Answer | Held> {
    const [first] = requests;
    invariant(isKeyed(first), 'only a key is recorded');
    const askedAtMs = this.#store.clock.nowMs();
    const past = await this.#readPast(first);
    if (past === undefined) throw new LeaseError('grant.contended');
    const { record, grant } = past;
    if (record.answer !== null || record.leaseId === null) return refusalAgain(record) as Held;
    if (grant !== undefined) return this.#grantedBefore(call, grant, { askedAtMs, joinedAsOf });
    // The request waits in line, or did when its controller died: the caller takes its places.
    if (call.input.waitMs > 0 && joinedAsOf === undefined) {
      const again = { ...call, requests: withIds(requests, record.leaseId) };
      return this.#answer(again, (waiting) => this.#acquirer.resume(waiting));
    }
    throw new LeaseError('grant.contended');
  }

  /** A request with an idempotency key and the fingerprint that is recorded with it. */
  #keyed<Asked extends Resource>(request: Asked, input: Input, idempotencyKey: string) {
    return { ...request, idempotencyKey, fingerprint: this.#kind.fingerprintOf(request, input) };
  }
}

/** The requests with another first one: it alone carries what is recorded, and the rest what all have. */
function changeFirst(
  [first, ...others]: GrantRequests,
  change: (request: GrantRequest) => GrantRequest,
): GrantRequests {
  const changed = change(first);
  return [changed, ...others.map((one) => ({ ...one, confirms: changed.confirms }))];
}

/** The requests with the ids that leases have together of which the first has this one. */
export function withIds(
  requests: readonly [Omit<GrantRequest, 'leaseId'>, ...Omit<GrantRequest, 'leaseId'>[]],
  leaseId: string,
): GrantRequests {
  const [first, ...others] = requests;
  const [, ...ids] = leaseIdsFrom(leaseId, requests.length);
  return [
    { ...first, leaseId },
    ...others.map((one, place) => ({ ...one, leaseId: ids[place] ?? leaseId })),
  ];
}

type Input = AcquireInput & { readonly localTimeMs: number };

interface LeaseServiceDeps {
  readonly store: KernelStore;
  readonly leases: LeaseStore;
  readonly face: 'lease' | 'environment';
  /** The TTL of a request that gives none, in milliseconds; undefined if every request must give one. */
  readonly ttlMsDefault?: number | undefined;
}

function answerForOne({
  store,
  leases,
  face,
  ttlMsDefault,
}: LeaseServiceDeps): AcquireKind<Input, HeldAnswer, AcquireAnswer> {
  return {
    ...askForOne(leases, face),
    face,
    firstOf: ({ namespace, name }) => ({ face, namespace, name }),
    countOf: () => 1,
    requestsOf(input, caller) {
      const ttlMs = input.ttlMs ?? ttlMsDefault;
      assertTtl(ttlMs);
      const { namespace, name, holder, override, idempotencyKey } = input;
      const request: GrantRequest = {
        face,
        namespace,
        name,
        leaseId: newTimedId(store),
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
        override:
          override === undefined ? undefined : { role: caller.role, reason: override.reason },
        idempotencyKey,
        fingerprint:
          idempotencyKey === undefined
            ? undefined
            : fingerprintOf({ face, namespace, name }, input),
      };
      return [request];
    },
    fingerprintOf,
    ...(face === 'environment' ? { standingOf } : {}),
    grantedAnswer([lease], waitedMs) {
      invariant(lease !== undefined, 'a request for a lease is granted one');
      return { outcome: 'granted', lease, waitedMs };
    },
    waitingAnswer: (waiting) => waiting,
  };
}

/** @throws {LeaseError} `request.invalid`. */
function standingOf(input: Input, { role }: Caller, life: CallerLife): Standing {
  const { supersede, again, waitMs, order } = input;
  if (supersede !== undefined && waitMs === 0) {
    const message = 'supersede needs waitMs: what runs may take long to stop';
    throw new LeaseError('request.invalid', message, { details: { field: 'supersede' } });
  }
  if (again !== undefined && waitMs === 0) {
    const message = 'again needs waitMs: only what waits is asked for again';
    throw new LeaseError('request.invalid', message, { details: { field: 'again' } });
  }
  return {
    priority: priorityOf(role),
    isNewestFirst: order === 'newest',
    supersede,
    again,
    entry: life.entry,
  };
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
    ...(input.again === undefined ? {} : { again: input.again }),
    ...(input.mode === undefined || input.mode === 'exclusive' ? {} : { mode: input.mode }),
  });
  return fingerprint;
}

/** What services do with leases, or with environments, over the kernel. */
export function createLeaseService(deps: LeaseServiceDeps): LeaseService {
  const { store, leases, face } = deps;
  const cancel = createCancelRequest(store, face);
  const answers = new AcquireAnswers(store, answerForOne(deps));
  return {
    acquire: (input, caller, life) => answers.acquire(input, caller, life),
    refuse: (input, caller, error) => answers.refuse(input, caller, error),
    refusedBefore: (input, caller) => answers.refusedBefore(input, caller),

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
