/**
 * One acquire of a service: granted at once, or after a wait in line, or refused; and the same
 * answer again to the same idempotency key.
 */
import { LeaseError } from '../../kernel/errors.ts';
import { serviceLadder, type Ladder } from '../../kernel/ladder.ts';
import type {
  GrantOutcome,
  GrantRef,
  GrantRequest,
  RecordedRequest,
} from '../../kernel/outcomes.ts';
import { recordedResource, resourceKey, type Resource } from '../../kernel/resource.ts';
import type { Coalescer } from '../../kernel/coalesce.ts';
import { createCoalescer } from '../../store/coalesce.ts';
import { observeHandover } from '../../store/granting.ts';
import { readGrant, readRequest, recordRefusals } from '../../store/lease-requests.ts';
import type { LeaseStore } from '../../store/lease-store.ts';
import type { Store } from '../../store/open-store.ts';
import { isoOf } from '../../store/rows.ts';
import type { Caller } from '../face-types.ts';
import { assertTtl, leaseDeadlines } from './deadlines.ts';
import type { AcquireAnswer, AcquireInput, CallerLife, HeldAnswer } from './lease-types.ts';
import type { Refused, WaitOutcome } from './line.ts';
import type { WaitingRoom } from './waiting.ts';

export interface AcquiringDeps {
  readonly store: Store;
  readonly leases: LeaseStore;
  readonly room: WaitingRoom;
  readonly face: 'lease' | 'environment';
}

type Input = AcquireInput & { readonly localTimeMs: number };

const REFUSALS_PER_STATEMENT_MAX = 500;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

type Refusal = Parameters<typeof recordRefusals>[1][number];

export class Acquiring {
  readonly #deps: AcquiringDeps;
  readonly #refusals: Coalescer<Refusal, boolean>;
  /** Leases that somebody who will wait is asking for: the next who will wait gets in line at once. */
  readonly #asked = new Map<string, number>();

  constructor(deps: AcquiringDeps) {
    this.#deps = deps;
    this.#refusals = createCoalescer({
      run: async (refusals) => {
        const recorded = await recordRefusals(deps.store.transitions, refusals);
        return refusals.map((one) => recorded.has(`${one.principal}\0${one.idempotencyKey}`));
      },
      keysOf: (one) => [`${one.principal}\0${one.idempotencyKey}`],
      batchSizeMax: REFUSALS_PER_STATEMENT_MAX,
      inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
      queueMax: QUEUE_MAX,
    });
  }

  async acquire(input: Input, caller: Caller, life: CallerLife): Promise<AcquireAnswer> {
    assertTtl(input.ttlMs);
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
        return grantedAnswer(call, outcome.grant, 0, this.#deps.store);
      case 'recorded':
        return this.#recordedAnswer(call, outcome.request, undefined);
      case 'held':
      case 'queued':
        return input.waitMs > 0 ? this.#wait(call) : this.#refuse(call, outcome);
    }
  }

  #requestOf(input: Input, caller: Caller): GrantRequest {
    return {
      face: this.#deps.face,
      namespace: input.namespace,
      name: input.name,
      leaseId: this.#deps.store.ids.uuid(),
      holder: input.holder,
      principal: caller.principal,
      tag: input.action ?? '',
      comment: input.comment ?? null,
      metadata: input.metadata ?? null,
      ladder: serviceLadder(input.ttlMs),
      actor: caller.actor,
      idempotencyKey: input.idempotencyKey,
    };
  }

  /** Whether a try out of line would be in vain, and only hold up the others. */
  #isBusy(request: GrantRequest): boolean {
    return this.#deps.room.isAwaited(request) || this.#asked.has(resourceKey(request));
  }

  /** Contended: somebody's transaction is at it. Who would wait anyway waits for that in line. */
  async #ask({ input, request, life }: Call): Promise<GrantOutcome | 'contended'> {
    if (input.waitMs === 0) return this.#deps.leases.grant(request, life.signal);
    const key = resourceKey(request);
    this.#asked.set(key, (this.#asked.get(key) ?? 0) + 1);
    try {
      return await this.#deps.leases.grant(request, life.signal);
    } catch (error) {
      if (error instanceof LeaseError && error.code === 'grant.contended') return 'contended';
      throw error;
    } finally {
      const count = (this.#asked.get(key) ?? 1) - 1;
      if (count === 0) this.#asked.delete(key);
      else this.#asked.set(key, count);
    }
  }

  async #wait(call: Call, isReplay = false): Promise<AcquireAnswer> {
    const { store, room, leases, face } = this.#deps;
    const { input, request, life, startedAtMs } = call;
    const idempotencyKey = request.idempotencyKey ?? store.ids.uuid();
    const queued = { ...request, idempotencyKey };
    const elapsedMs = (): number => store.clock.nowMs() - startedAtMs;
    let outcome: WaitOutcome;
    try {
      outcome = await room.wait({
        request: queued,
        isReplay,
        giveUpAtMs: startedAtMs + input.waitMs,
        life,
        attempt: async (turn) => {
          const granted = await leases.grant(turn);
          if (granted.outcome === 'granted') await this.#assertHeard(call, granted.grant);
          return granted;
        },
        answerOf: (refused) => heldAnswer(face, refused, elapsedMs()),
      });
    } catch (error) {
      store.observer.waited(face, elapsedMs(), 'gave_up');
      throw life.signal.aborted ? new LeaseError('lease.wait_cancelled') : error;
    }
    if (outcome.outcome === 'gave_up') {
      store.observer.waited(face, elapsedMs(), 'gave_up');
      return outcome.answer;
    }
    if (outcome.outcome === 'granted') {
      store.observer.waited(face, elapsedMs(), 'granted');
      observeHandover(store, outcome.grant, elapsedMs());
      const sinceMs = sinceSentMs(call, outcome.grant, outcome.joinedAsOf);
      return grantedAnswer(call, outcome.grant, sinceMs, store);
    }
    const record = await readRequest(store.transitions, {
      principal: request.principal,
      idempotencyKey,
    });
    return this.#recordedAnswer({ ...call, request: queued }, record, outcome.joinedAsOf);
  }

  /**
   * Gives a grant back whose caller fell silent just before its turn, or was gone when it had come, so
   * that it costs those behind no TTL. A caller that comes back is told that its wait is over, and asks anew.
   * @throws {LeaseError} `lease.wait_cancelled`.
   */
  async #assertHeard({ life, request }: Call, { leaseId, fencingToken }: GrantRef): Promise<void> {
    if (life.isAlive() && !life.signal.aborted) return;
    await this.#deps.leases.release(this.#deps.face, {
      ...{ leaseId, fencingToken, principal: request.principal, actor: request.actor },
      result: 'failed',
      detail: 'nothing was heard from its caller when its turn came',
    });
    throw new LeaseError('lease.wait_cancelled');
  }

  /** Refuses, and records it: a late duplicate must not be granted what its caller was refused. */
  async #refuse(call: Call, refused: Refused): Promise<AcquireAnswer> {
    const { store, face } = this.#deps;
    const { request, startedAtMs } = call;
    const answer = heldAnswer(face, refused, store.clock.nowMs() - startedAtMs);
    const { idempotencyKey, principal, leaseId } = request;
    if (idempotencyKey === undefined) return answer;
    const isFirst = await this.#refusals.submit({
      principal,
      idempotencyKey,
      leaseId,
      answer,
      resource: recordedResource(request),
    });
    if (isFirst) return answer;
    return this.#recordedAnswer(
      call,
      await readRequest(store.transitions, { principal, idempotencyKey }),
      undefined,
    );
  }

  /**
   * The answer that the key of this call was given before; or the wait in line that it stands for.
   * @throws {LeaseError} `lease.wait_cancelled`, `request.idempotency_reused`.
   */
  async #recordedAnswer(
    call: Call,
    record: RecordedRequest | undefined,
    joinedAsOf: number | undefined,
  ): Promise<AcquireAnswer> {
    if (record === undefined) throw new LeaseError('grant.contended');
    const { leaseId, resource } = record;
    if (resource !== null && resource !== recordedResource(call.request)) {
      throw new LeaseError('request.idempotency_reused');
    }
    if (record.answer !== null || leaseId === null) return refusalAgain(record);
    const grant = await readGrant(this.#deps.store.transitions, leaseId);
    if (grant !== undefined) {
      return grantedAnswer(call, grant, sinceSentMs(call, grant, joinedAsOf), this.#deps.store);
    }
    // It stands in line, or stood there when its controller died: the caller takes that place.
    if (call.input.waitMs > 0 && joinedAsOf === undefined) {
      return this.#wait({ ...call, request: { ...call.request, leaseId } }, true);
    }
    throw new LeaseError('grant.contended');
  }
}

/**
 * What has passed between the caller's message and its grant, at least: since it joined the line by
 * the database's clock, and by this controller's own, should the other have been stepped meanwhile.
 */
function sinceSentMs(
  { startedAtMs, nowMs }: Call,
  grant: { readonly asOf: number },
  joinedAsOf: number | undefined,
): number {
  if (joinedAsOf === undefined) return 0;
  return Math.max(0, Math.min(grant.asOf - joinedAsOf, nowMs() - startedAtMs));
}

interface Call {
  readonly input: Input;
  readonly request: GrantRequest;
  readonly life: CallerLife;
  readonly startedAtMs: number;
  readonly nowMs: () => number;
}

function grantedAnswer(
  { input, startedAtMs }: Call,
  grant: Resource & {
    readonly leaseId: string;
    readonly fencingToken: string;
    readonly ladder: Ladder;
    readonly remainingMs: number;
  },
  /** What the database saw pass between the caller's message and the grant, at least. */
  sinceMs: number,
  store: Store,
): AcquireAnswer {
  return {
    outcome: 'granted',
    lease: {
      leaseId: grant.leaseId,
      fencingToken: grant.fencingToken,
      namespace: grant.namespace === '' ? [] : grant.namespace.split('.'),
      key: grant.name,
      deadlines: leaseDeadlines(grant.ladder, input.localTimeMs + sinceMs, grant.remainingMs),
    },
    waitedMs: Math.round(store.clock.nowMs() - startedAtMs),
  };
}

/** A refusal as callers get it. */
export function heldAnswer(
  face: AcquiringDeps['face'],
  refused: Refused | undefined,
  waitedMs: number,
): HeldAnswer {
  const common = { outcome: 'held', waitedMs: Math.round(waitedMs) } as const;
  if (refused === undefined || refused.outcome === 'queued') {
    return {
      ...common,
      by: refused?.head.waiter ?? 'unknown',
      since: isoOf(refused?.head.createdAt ?? 0),
      remainingMs: 0,
      comment: null,
      action: null,
      waiters: refused?.waiterCount ?? 0,
    };
  }
  const { by } = refused;
  return {
    ...common,
    by: by.holder,
    since: isoOf(by.grantedAt),
    remainingMs: Math.max(0, Math.round(by.expiresAt - by.asOf)),
    comment: by.comment,
    action: face === 'environment' ? by.tag : null,
    waiters: refused.waiterCount,
  };
}

function refusalAgain(record: RecordedRequest): HeldAnswer {
  const recorded = record.answer as Partial<HeldAnswer> | null;
  if (recorded?.outcome !== 'held') throw new LeaseError('lease.wait_cancelled');
  return recorded as HeldAnswer;
}
