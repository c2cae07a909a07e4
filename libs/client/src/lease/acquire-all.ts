/** Acquires several leases together: the attempt is that of one lease, with the others in its answer. */
import type {
  AcquireAllAnswer,
  AcquireAnswer,
  GrantedLease,
  LeaseDeadlines,
  LeaseRenewResult,
} from '@leasehold/keys-core/leases';
import { invariant, type GrantRef } from '@leasehold/keys-core';
import { onAbort } from '@leasehold/service-kit/signals';
import { currentContext, type WorkContext } from '../context/work-context.ts';
import { assertAcquireAll, plainMetadata } from '../inputs.ts';
import { linkSignals, type Ending } from '../signals.ts';
import { LeaseholdCallError, OutcomeUnknownError } from '../transport/errors.ts';
import { requestOf, type AcquireIntent, type LeaseTaker, type LeaseTakerDeps } from './acquire.ts';
import { waitInLine } from './attempt.ts';
import { HeldLease, scopeIdOf } from './held-lease.ts';
import { HeldTogether, type LeasesTogether } from './held-together.ts';
import type { AcquireOptions } from './lease-definition.ts';
import type { AcquireRequest, LeaseWire, TogetherWire } from './lease-wire.ts';
import {
  heldByOf,
  LeaseHeldError,
  LeaseSelfDeadlockError,
  LeaseWaitTimeoutError,
  type LeaseScope,
} from './lease.ts';

/** A lease by its name, and how it is to be held: alone, unless it has permits. A definition with a key is one. */
export interface LeaseName extends Pick<AcquireOptions, 'mode'> {
  readonly namespace: readonly string[];
  readonly key: string;
}

/** How several leases are acquired: as one lease is, with the same for all. */
export type AcquireAllOptions = Omit<AcquireOptions, 'mode'>;

/** @see `Leasehold.acquireAll` */
export type AcquireAll = (
  scopes: readonly LeaseName[],
  options?: AcquireAllOptions,
) => Promise<LeasesTogether>;

const TTL_MS = 30_000;
const WAIT_MS = 5_000;

export function createAcquireAll(
  { deps }: LeaseTaker,
  wire: LeaseWire & TogetherWire,
  holder: string,
  whenDeclared: (
    scopes: readonly LeaseName[],
    intent: AcquireIntent,
    ask: (declared: AcquireIntent) => Promise<HeldTogether>,
  ) => Promise<HeldTogether>,
): AcquireAll {
  return async (names, wanted = {}) => {
    assertAcquireAll(names, wanted);
    const scopes = names.map(({ namespace, key, mode }) => ({
      face: 'lease' as const,
      // What the caller changes later was not checked.
      namespace: Object.freeze([...namespace]),
      key,
      mode,
    }));
    const [scope] = scopes;
    invariant(scope !== undefined, 'the list was checked');
    const wish: AcquireIntent = {
      scope,
      ttlMs: wanted.ttlMs ?? TTL_MS,
      holder: wanted.holder ?? holder,
      action: undefined,
      comment: wanted.comment,
      metadata: plainMetadata(wanted.metadata),
      datacenter: wanted.datacenter,
      signal: wanted.signal,
      waitMs: wanted.waitMs ?? WAIT_MS,
      renews: true,
    };
    return whenDeclared(scopes, wish, (intent) =>
      new Taking(deps, wire, { intent, scopes }).carryOut(),
    );
  };
}

interface Wanted {
  readonly intent: AcquireIntent;
  readonly scopes: readonly (LeaseScope & Pick<LeaseName, 'mode'>)[];
}

/** One acquire of several leases. */
class Taking {
  readonly #deps: LeaseTakerDeps;
  readonly #wire: LeaseWire & TogetherWire;
  readonly #wanted: Wanted;
  /** What the latest try was granted, with the deadlines of the latest renewal. */
  #leases: readonly GrantedLease[] = [];
  #refused: Extract<AcquireAllAnswer, { outcome: 'held' }> | undefined;

  constructor(deps: LeaseTakerDeps, wire: LeaseWire & TogetherWire, wanted: Wanted) {
    this.#deps = deps;
    this.#wire = wire;
    this.#wanted = wanted;
  }

  async carryOut(): Promise<HeldTogether> {
    const { machine, background, beforeAcquire } = this.#deps;
    const { intent } = this.#wanted;
    background.throwIfClosing();
    const outer = currentContext();
    outer?.throwIfOver();
    this.#assertNoneHeld(outer);
    beforeAcquire();
    using linked = linkSignals([intent.signal, outer?.signal, background.closing]);
    const { signal } = linked;
    const endsAtMs = machine.clock.nowMs() + intent.waitMs;
    const { answer, sentAtMs } = await waitInLine(
      { ...this.#deps, wire: this.#attemptWire() },
      () => requestOf(machine, intent),
      { endsAtMs, signal },
    );
    if (answer.outcome === 'held') this.#throwHeld();
    return await this.#handOut({ sentAtMs, outer, signal });
  }

  #assertNoneHeld(outer: WorkContext | undefined): void {
    const { intent, scopes } = this.#wanted;
    if (intent.waitMs === 0) return;
    for (const scope of scopes) {
      const isOwn = outer?.holds(scopeIdOf(this.#deps.url, { ...intent, scope })) === true;
      if (isOwn) throw new LeaseSelfDeadlockError(scope);
    }
  }

  /** The calls of the attempt: its lease is the first, and stands for all. */
  #attemptWire(): LeaseWire {
    return {
      ...this.#wire,
      acquire: (request, waitMs, ending, callMs) => this.#ask(request, { waitMs, callMs, ending }),
      heartbeat: (_first, ending, datacenter) => this.#renewAll(ending, datacenter),
    };
  }

  async #ask(
    request: AcquireRequest,
    how: Parameters<TogetherWire['acquireAll']>[2],
  ): Promise<AcquireAnswer> {
    const { scopes } = this.#wanted;
    const answer = await this.#wire.acquireAll(request, scopes, how);
    // It came too late: what a later try was answered counts.
    if (how.ending.aborted) throw new OutcomeUnknownError();
    if (answer.outcome === 'waiting') return answer;
    if (answer.outcome === 'held') {
      this.#refused = answer;
      return answer;
    }
    this.#leases = answer.leases;
    return {
      outcome: 'granted',
      lease: { ...this.#first(), deadlines: least(answer.leases) },
      waitedMs: answer.waitedMs,
    };
  }

  /** Renews all for the first time: they are confirmed together, or none of them is used. */
  async #renewAll(ending: Ending, datacenter?: string): Promise<LeaseRenewResult[]> {
    const refs: GrantRef[] = this.#leases.map(({ leaseId, fencingToken }) => ({
      leaseId,
      fencingToken,
    }));
    const results = await this.#wire.heartbeat(refs, ending, datacenter);
    if (ending.aborted) throw new OutcomeUnknownError();
    const refused = results.find(({ outcome }) => outcome === 'refused');
    const { leaseId } = this.#first();
    if (refused !== undefined) return [{ ...refused, leaseId }];
    const renewed = new Map(
      results.flatMap((result) =>
        result.outcome === 'renewed' ? [[result.leaseId, result.deadlines]] : [],
      ),
    );
    // One without an answer is asked for again, with all others.
    if (renewed.size < refs.length) return [];
    this.#leases = this.#leases.map((lease) => ({
      ...lease,
      deadlines: renewed.get(lease.leaseId) ?? lease.deadlines,
    }));
    return [{ leaseId, outcome: 'renewed', deadlines: least(this.#leases) }];
  }

  #first(): GrantedLease {
    const [first] = this.#leases;
    invariant(first !== undefined, 'a grant of several leases has some');
    return first;
  }

  #throwHeld(): never {
    const { intent, scopes } = this.#wanted;
    invariant(this.#refused !== undefined, 'a refusal says which lease is held');
    const { namespace, key } = this.#refused;
    const scope = scopes.find(
      (one) => one.key === key && one.namespace.join('.') === namespace.join('.'),
    );
    const heldBy = heldByOf(this.#refused);
    const held = scope ?? intent.scope;
    throw intent.waitMs > 0
      ? new LeaseWaitTimeoutError(held, heldBy)
      : new LeaseHeldError(held, heldBy);
  }

  /** The leases, as soon as their holder may act on all of them. */
  async #handOut(how: {
    readonly sentAtMs: number;
    readonly outer: WorkContext | undefined;
    readonly signal: AbortSignal | undefined;
  }): Promise<HeldTogether> {
    const { machine, holdings, url, background } = this.#deps;
    const { intent, scopes } = this.#wanted;
    const nowMs = machine.clock.nowMs();
    const { sentAtMs, outer, signal } = how;
    const leases = scopes.map(({ mode: _mode, ...scope }, place) => {
      const granted = this.#leases[place];
      invariant(granted !== undefined, 'each lease is granted');
      const owner = holdings;
      const own = { ...intent, scope };
      return new HeldLease({ machine, owner, url, intent: own, granted, sentAtMs, nowMs, outer });
    });
    for (const lease of leases) holdings.adopt(lease, nowMs);
    const together = new HeldTogether(leases, background.closing);
    const giveUp = (): void => void together.release('failed');
    const unfollow = signal === undefined ? undefined : onAbort(signal, giveUp);
    try {
      if (leases.some((lease) => lease.loseAtMs - nowMs > lease.ttlMs)) {
        // They belong to another clock: no work may rely on them.
        throw new LeaseholdCallError('internal.error', { message: 'A deadline beyond the TTL.' });
      }
      signal?.throwIfAborted();
      await together.confirm();
      signal?.throwIfAborted();
      return together;
    } catch (error) {
      // In the background: the caller has its answer.
      giveUp();
      throw signal?.aborted === true ? signal.reason : error;
    } finally {
      unfollow?.();
    }
  }
}

/** The deadlines of the one that ends first. */
function least(leases: readonly GrantedLease[]): LeaseDeadlines {
  return {
    renewAtMs: Math.min(...leases.map(({ deadlines }) => deadlines.renewAtMs)),
    loseAtMs: Math.min(...leases.map(({ deadlines }) => deadlines.loseAtMs)),
  };
}
