/**
 * One acquire of several leases: all are granted at once, or in their turn after a wait in the line of each, or none is.
 * `createGroupAcquirer` carries it out, for the coordinator of a process too; `createLeasesTogether` answers callers of a
 * controller.
 */
import {
  type CancelRequest,
  createCancelRequest,
  createGroupGranter,
  createPastRequestReader,
  firstLeaseId,
  type GrantAllOutcome,
  type GrantRequests,
  type GroupGranter,
  idempotentRequest,
  type KeyedRequest,
  leaseIdsFrom,
  observeHandover,
  type PastRequest,
  readGrants,
  readPlace,
  recordAnswers,
  type RefusedAll,
  refusalOf,
} from '../grants/index.ts';
import { invariant, LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import { serviceLadder } from '../kernel/ladder.ts';
import type { Grant, GrantOutcome, GrantRequest } from '../kernel/lease.ts';
import { newTimedId } from '../kernel/clock.ts';
import { LIMITS } from '../kernel/limits.ts';
import { askedAs } from '../kernel/pool.ts';
import type { Resource } from '../kernel/resource.ts';
import type { KernelStore } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import {
  assertHeard,
  assertTtl,
  type GivenGrant,
  grantedLease,
  heldAnswer,
  isKeyed,
  refusalAgain,
  sinceSentMs,
  waitingAnswer,
} from './acquire-answers.ts';
import type {
  AcquireAllAnswer,
  AcquireAllInput,
  CallerLife,
  HeldAllAnswer,
  LeasesTogether,
} from './lease-types.ts';
import { createWaitingRoom } from './waiting.ts';

/** An acquire of several leases, as its caller wants it carried out. */
export interface AcquireAllCall {
  readonly requests: GrantRequests;
  /** For how long it may wait in line; 0: it is answered at once. */
  readonly waitMs: number;
  /** How long this call waits at most, if that is less. */
  readonly callMs?: number | undefined;
  readonly life: CallerLife;
  readonly startedAtMs: number;
  /** One try, before its wait or from its places in line: see `AcquireCall.ask`. */
  readonly ask: (requests: GrantRequests, granter: GroupGranter) => Promise<GrantAllOutcome>;
  /** The requests as they wait in line, where they are found by an idempotency key: their own, or this one. */
  readonly inLine: (idempotencyKey: string) => GrantRequests;
}

/** What became of it. */
export type AcquiredAll =
  | {
      readonly outcome: 'granted';
      readonly grants: readonly Grant[];
      /** When it joined the lines, by the database's clock; undefined if it did not wait. */
      readonly joinedAsOf: number | undefined;
    }
  | { readonly outcome: 'refused'; readonly refused: RefusedAll }
  /** The time of this call was over; `held` is what stands in its way, at its place in that line. */
  | { readonly outcome: 'waiting'; readonly held: HeldAllAnswer; readonly ticketId: string }
  /** Its time in line was over; this answer is recorded. */
  | { readonly outcome: 'gave_up'; readonly answer: HeldAllAnswer }
  /** What became of it is recorded under its idempotency key. */
  | {
      readonly outcome: 'recorded';
      readonly requests: GrantRequests;
      readonly joinedAsOf: number | undefined;
    };

export interface GroupAcquirer {
  /** @throws {LeaseError} as `Acquirer.acquire`. */
  acquire(call: AcquireAllCall): Promise<AcquiredAll>;
  /** Takes the places in line that the same request took before, and waits on. */
  resume(call: AcquireAllCall): Promise<AcquiredAll>;
}

export function createGroupAcquirer(store: KernelStore): GroupAcquirer {
  const room = createWaitingRoom(store);
  const granter = createGroupGranter(store);

  async function wait(
    call: AcquireAllCall,
    { first, isReplay }: { readonly first?: RefusedAll; readonly isReplay?: true } = {},
  ): Promise<AcquiredAll> {
    const { life, startedAtMs } = call;
    const requests = call.inLine(call.requests[0].idempotencyKey ?? store.ids.uuid());
    const [{ idempotencyKey, ...own }, ...others] = requests;
    invariant(idempotencyKey !== undefined, 'a place in line has a key');
    const queued = queuedOf(requests);
    const elapsedMs = (): number => store.clock.nowMs() - startedAtMs;
    let grants: readonly Grant[] = [];
    const stopWaiting = life.startWaiting?.();
    try {
      const outcome = await room.wait({
        request: { ...own, idempotencyKey },
        others: others.map(({ leaseId, ...one }) => ({ ...one, ticketId: leaseId })),
        isReplay,
        life,
        startedAtMs,
        giveUpAtMs: startedAtMs + call.waitMs,
        callEndsAtMs: endOfCall(call),
        look: async () => unlessOwn(queued, await granter.refusalOfAll(queued)),
        async attempt() {
          const attempted = await call.ask(queued, granter);
          if (attempted.outcome !== 'granted') return unlessOwn(queued, attempted);
          grants = attempted.grants;
          return { outcome: 'granted', grant: firstOf(grants) };
        },
        // What refused it came from here, with its place.
        answerOf: (refused) =>
          heldAllAnswer(requests, (refused as RefusedAll | undefined) ?? first, elapsedMs()),
      });
      if (outcome.outcome === 'recorded') return { ...outcome, requests };
      if (outcome.outcome === 'waiting') {
        return waitsOn(requests, (outcome.refused as RefusedAll | undefined) ?? first, elapsedMs());
      }
      store.observer.waited(own.face, elapsedMs(), outcome.outcome);
      if (outcome.outcome === 'gave_up') {
        return { outcome: 'gave_up', answer: outcome.answer as HeldAllAnswer };
      }
      for (const grant of grants) observeHandover(store, grant, elapsedMs());
      return { outcome: 'granted', grants, joinedAsOf: outcome.joinedAsOf };
    } catch (error) {
      store.observer.waited(own.face, elapsedMs(), 'gave_up');
      throw life.signal.aborted ? new LeaseError('lease.wait_cancelled') : error;
    } finally {
      stopWaiting?.();
    }
  }

  return {
    async acquire(call) {
      const { requests, waitMs } = call;
      let outcome: GrantAllOutcome;
      try {
        outcome = await call.ask(requests, granter);
        if (outcome.outcome !== 'granted') outcome = unlessOwn(requests, outcome);
      } catch (error) {
        // Another transaction has locked a row.
        const isContended = error instanceof LeaseError && error.code === 'grant.contended';
        if (isContended && waitMs > 0) return wait(call);
        throw error;
      }
      if (outcome.outcome === 'granted') return { ...outcome, joinedAsOf: undefined };
      if (outcome.outcome === 'recorded') return { ...outcome, requests, joinedAsOf: undefined };
      return waitMs > 0 ? wait(call, { first: outcome }) : { outcome: 'refused', refused: outcome };
    },
    resume: (call) => wait(call, { isReplay: true }),
  };
}

function queuedOf([first, ...others]: GrantRequests): GrantRequests {
  const inLine = (one: GrantRequest): GrantRequest => ({ ...one, isQueued: true });
  return [inLine(first), ...others.map(inLine)];
}

/** What a call is answered whose time is over, while its request waits on. */
function waitsOn(
  requests: GrantRequests,
  refused: RefusedAll | undefined,
  waitedMs: number,
): AcquiredAll {
  const held = heldAllAnswer(requests, refused, waitedMs);
  const { leaseId } = requests[refused?.place ?? 0] ?? requests[0];
  return { outcome: 'waiting', held, ticketId: leaseId };
}

/** When a call ends at the latest, if its request may wait for longer. */
function endOfCall({ startedAtMs, callMs }: AcquireAllCall): number | undefined {
  return callMs === undefined ? undefined : startedAtMs + callMs;
}

function firstOf(grants: readonly Grant[]): Grant {
  const [grant] = grants;
  invariant(grant !== undefined, 'a request for several leases has some');
  return grant;
}

/** A refusal by a grant that a replay of this request was given is its own record. */
function unlessOwn<Refusal extends GrantOutcome | RefusedAll | undefined>(
  requests: GrantRequests,
  refusal: Refusal,
): Refusal | { readonly outcome: 'recorded' } {
  if (refusal?.outcome !== 'held' || !('place' in refusal)) return refusal;
  const { by } = refusal;
  const isOwn = requests.some(
    ({ leaseId, holder }) => leaseId === by.leaseId && holder === by.holder,
  );
  return isOwn ? { outcome: 'recorded' } : refusal;
}

/** A refusal as callers get it, with the lease that stands in the way. */
export function heldAllAnswer(
  requests: GrantRequests,
  refused: RefusedAll | undefined,
  waitedMs: number,
): HeldAllAnswer {
  const { face, namespace, name } = requests[refused?.place ?? 0] ?? requests[0];
  return {
    ...heldAnswer(face, refused, waitedMs),
    namespace: namespace === '' ? [] : namespace.split('.'),
    key: name,
  };
}

type Input = AcquireAllInput & { readonly localTimeMs: number };

/** A call under way. */
interface GroupCall {
  readonly input: Input;
  readonly requests: GrantRequests;
  readonly life: CallerLife;
  readonly startedAtMs: number;
}

/** Answers acquires of several leases, and the same answer again to the same idempotency key. */
class GroupAnswers {
  readonly #store: Store;
  readonly #acquirer: GroupAcquirer;
  readonly #cancel: CancelRequest;
  readonly #readPast: (request: KeyedRequest) => Promise<PastRequest | undefined>;
  readonly #nowMs: () => number;

  constructor(store: Store) {
    this.#store = store;
    this.#acquirer = createGroupAcquirer(store);
    this.#cancel = createCancelRequest(store, 'lease');
    this.#readPast = createPastRequestReader(store.transitions);
    this.#nowMs = () => store.clock.nowMs();
  }

  acquireAll(input: Input, caller: Caller, life: CallerLife): Promise<AcquireAllAnswer> {
    const requests = this.#requestsOf(input, caller);
    const call = { input, requests, life, startedAtMs: this.#nowMs() };
    return this.#answer(call, (wanted) => this.#acquirer.acquire(wanted));
  }

  /** See {@link LeasesTogether.refuseAll}. A caller that may not have the earlier answer is only refused. */
  async refuseAll(input: Input, { principal }: Caller, error: unknown): Promise<AcquireAllAnswer> {
    const { idempotencyKey, scopes } = input;
    const refusal = refusalOf(error);
    const [scope] = scopes;
    if (idempotencyKey === undefined || refusal === undefined || scope === undefined) throw error;
    const request = {
      principal,
      ...keyed({ face: 'lease' as const, ...scope }, input, idempotencyKey),
    };
    const startedAtMs = this.#nowMs();
    const [isFirst] = await recordAnswers(this.#store.transitions, [{ request, answer: refusal }]);
    if (isFirst === true || refusal.error.code === 'auth.forbidden') throw error;
    const past = await this.#readPast(request);
    if (past === undefined) throw error;
    const { record, grant } = past;
    if (record.answer !== null) return refusalAgain(record) as HeldAllAnswer;
    // It waits in line: a caller that is refused now does not join it there.
    if (grant === undefined) throw error;
    return this.#grantedBefore({ input, startedAtMs }, grant.leaseId, undefined);
  }

  async #answer(
    call: GroupCall,
    carryOut: (call: AcquireAllCall) => Promise<AcquiredAll>,
  ): Promise<AcquireAllAnswer> {
    const { input, requests, life, startedAtMs } = call;
    let askedAtMs = startedAtMs;
    const acquired = await carryOut({
      requests,
      life,
      startedAtMs,
      waitMs: input.waitMs,
      callMs: Math.min(input.callMs ?? LIMITS.waitMsMax, LIMITS.waitMsMax),
      ask: (wanted, granter) => {
        askedAtMs = this.#nowMs();
        return this.#ask(wanted, granter, life);
      },
      inLine: (idempotencyKey) =>
        requestsWith(requests, (first) => ({
          ...(first.idempotencyKey === undefined ? keyed(first, input, idempotencyKey) : first),
          confirms: input.confirms,
        })),
    });
    switch (acquired.outcome) {
      case 'granted':
        return this.#granted({ ...call, askedAtMs }, acquired.grants, acquired.joinedAsOf);
      case 'refused':
        return this.#refuseWith(
          call,
          heldAllAnswer(requests, acquired.refused, this.#nowMs() - startedAtMs),
        );
      case 'gave_up':
        return acquired.answer;
      case 'waiting': {
        const { namespace, key } = acquired.held;
        const place = await readPlace(this.#store.transitions, acquired.ticketId);
        return { ...waitingAnswer(acquired.held, place, undefined), namespace, key };
      }
      case 'recorded':
        return this.#answerAgain(call, acquired.requests, acquired.joinedAsOf);
    }
  }

  #granted(
    call: Pick<GroupCall, 'input' | 'startedAtMs'> & { readonly askedAtMs: number },
    grants: readonly (GivenGrant & Pick<Grant, 'asOf'>)[],
    joinedAsOf: number | undefined,
  ): AcquireAllAnswer {
    const { input, startedAtMs } = call;
    const leases = grants.map((grant) =>
      grantedLease(grant, input.localTimeMs + sinceSentMs(call, grant, joinedAsOf)),
    );
    return { outcome: 'granted', leases, waitedMs: Math.round(this.#nowMs() - startedAtMs) };
  }

  /** Refuses, and records it: a late duplicate must not be granted what its caller was refused. */
  async #refuseWith(call: GroupCall, refusal: HeldAllAnswer): Promise<AcquireAllAnswer> {
    const [first] = call.requests;
    if (!isKeyed(first)) return refusal;
    const [isFirst] = await recordAnswers(this.#store.transitions, [
      { request: first, answer: refusal },
    ]);
    return isFirst === true ? refusal : this.#answerAgain(call, call.requests, undefined);
  }

  /**
   * The answer of a request whose idempotency key has been used, or the wait in line that it stands for.
   * @throws {LeaseError} `lease.wait_cancelled`, `request.idempotency_reused`.
   */
  async #answerAgain(
    call: GroupCall,
    requests: GrantRequests,
    joinedAsOf: number | undefined,
  ): Promise<AcquireAllAnswer> {
    const [first] = requests;
    invariant(isKeyed(first), 'only a key is recorded');
    const past = await this.#readPast(first);
    if (past === undefined) throw new LeaseError('grant.contended');
    const { record, grant } = past;
    if (record.answer !== null || record.leaseId === null) {
      return refusalAgain(record) as HeldAllAnswer;
    }
    if (grant !== undefined) return this.#grantedBefore(call, record.leaseId, joinedAsOf);
    // The request waits in line, or did when its controller died: the caller takes its places.
    if (call.input.waitMs > 0 && joinedAsOf === undefined) {
      const again = { ...call, requests: withIds(requests, record.leaseId) };
      return this.#answer(again, (waiting) => this.#acquirer.resume(waiting));
    }
    throw new LeaseError('grant.contended');
  }

  async #grantedBefore(
    call: Pick<GroupCall, 'input' | 'startedAtMs'>,
    leaseId: string,
    joinedAsOf: number | undefined,
  ): Promise<AcquireAllAnswer> {
    const { scopes } = call.input;
    const askedAtMs = this.#nowMs();
    const grants = await readGrants(this.#store.transitions, leaseIdsFrom(leaseId, scopes.length));
    invariant(grants.length === scopes.length, 'leases that were granted together are all known');
    return this.#granted({ ...call, askedAtMs }, grants, joinedAsOf);
  }

  /** A caller that may have fallen silent during its wait must be there when its turn comes. */
  async #ask(
    wanted: GrantRequests,
    granter: GroupGranter,
    life: CallerLife,
  ): Promise<GrantAllOutcome> {
    const [first] = wanted;
    if (first.isQueued !== true) return granter.grantAll(wanted, life.signal);
    const outcome = await granter.grantAll(wanted);
    if (outcome.outcome === 'granted') await assertHeard(this.#cancel, life, first);
    return outcome;
  }

  #requestsOf(input: Input, { principal, actor }: Caller): GrantRequests {
    assertTtl(input.ttlMs);
    const common = {
      face: 'lease' as const,
      holder: input.holder,
      principal,
      tag: '',
      comment: input.comment ?? null,
      metadata: input.metadata ?? null,
      ladder: serviceLadder(input.ttlMs),
      // One that may wait confirms what it has waited for.
      confirms: input.confirms === true && input.waitMs === 0,
      actor,
    };
    const requests = input.scopes.map(({ namespace, name, mode }) => ({
      ...common,
      ...askedAs(mode),
      namespace,
      name,
    }));
    const first = firstLeaseId(newTimedId(this.#store));
    const { idempotencyKey } = input;
    return requestsWith(withIds(requests, first), (one) =>
      idempotencyKey === undefined ? one : keyed(one, input, idempotencyKey),
    );
  }
}

/** What services do with several leases at once, over the kernel. */
export function createLeasesTogether({ store }: { readonly store: Store }): LeasesTogether {
  const answers = new GroupAnswers(store);
  return {
    acquireAll: (input, caller, life) => answers.acquireAll(input, caller, life),
    refuseAll: (input, caller, error) => answers.refuseAll(input, caller, error),
  };
}

/** The requests with another first one: it alone carries what is recorded, and the rest what all have. */
function requestsWith(
  [first, ...others]: GrantRequests,
  change: (request: GrantRequest) => GrantRequest,
): GrantRequests {
  const changed = change(first);
  return [changed, ...others.map((one) => ({ ...one, confirms: changed.confirms }))];
}

function withIds(requests: readonly Omit<GrantRequest, 'leaseId'>[], first: string): GrantRequests {
  const ids = leaseIdsFrom(first, requests.length);
  const [one, ...others] = requests.map((request, place) => ({
    ...request,
    leaseId: ids[place] ?? first,
  }));
  invariant(one !== undefined, 'a request names a lease');
  return [one, ...others];
}

/** A request with an idempotency key and the fingerprint that is recorded with it. */
function keyed<Asked extends Resource>(request: Asked, input: Input, idempotencyKey: string) {
  const { fingerprint } = idempotentRequest(request, {
    // Without a mode it is that of older versions.
    leases: input.scopes.map(({ namespace, name, mode }) =>
      mode === undefined || mode === 'exclusive' ? [namespace, name] : [namespace, name, mode],
    ),
    ttlMs: input.ttlMs,
    holder: input.holder,
    comment: input.comment ?? null,
    metadata: input.metadata ?? null,
    datacenter: input.datacenter ?? null,
  });
  return { ...request, idempotencyKey, fingerprint };
}
