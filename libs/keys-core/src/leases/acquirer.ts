/**
 * One acquire, of one lease or of several together: granted at once, or after a wait in line, or refused; for callers of a
 * controller and for the coordinator of a process.
 */
import {
  type GrantAllOutcome,
  type GrantRequests,
  type LeaseStore,
  observeHandover,
} from '../grants/index.ts';
import { invariant, LeaseError } from '../kernel/errors.ts';
import type { Grant, GrantOutcome, GrantRequest } from '../kernel/lease.ts';
import type { Face } from '../kernel/resource.ts';
import type { KernelStore } from '../postgres/kernel-store.ts';
import { heldAnswer } from './acquire-answers.ts';
import type { Standing } from './environment-waiting.ts';
import type { CallerLife, HeldAnswer } from './lease-types.ts';
import { isFrozen, isHoldOff, type Refused, stoppedForMs } from './line.ts';
import { createWaitingRoom, type WaitingRoom } from './waiting.ts';

/** How leases are asked for: one by itself, or several together. */
export interface Asking<Held extends HeldAnswer> {
  /** @throws {LeaseError} as `LeaseStore.grant`. */
  grant(requests: GrantRequests, signal?: AbortSignal): Promise<GrantAllOutcome>;
  /** Why they would not be granted now, by a plain read; undefined when they may be. @throws {LeaseError} likewise. */
  refusal(requests: GrantRequests): Promise<Refused | { outcome: 'recorded' } | undefined>;
  /** Whether a try outside the line would fail, and only delay the others. */
  isBusy(requests: GrantRequests): boolean;
  /** A refusal as callers get it. */
  heldAnswer(requests: GrantRequests, refused: Refused | undefined, waitedMs: number): Held;
}

/** An acquire, as its caller wants it carried out. */
export interface AcquireCall {
  readonly requests: GrantRequests;
  /** For how long it may wait in line; 0: it is answered at once. */
  readonly waitMs: number;
  /** How long this call waits at most, if that is less. */
  readonly callMs?: number | undefined;
  /** How it stands in the line for an environment. */
  readonly standing?: Standing | undefined;
  readonly life: CallerLife;
  readonly startedAtMs: number;
  /**
   * One try, before its wait or, with `isQueued`, from its places in line. A grant that the caller does not want
   * any more it gives back, and throws `lease.wait_cancelled`.
   */
  readonly ask: (requests: GrantRequests) => Promise<GrantAllOutcome>;
  /** The requests as they wait in line, where they are found by an idempotency key: their own, or this one. */
  readonly inLine: (idempotencyKey: string) => GrantRequests;
}

/** What became of an acquire. */
export type Acquired<Held extends HeldAnswer> =
  /** `joinedAsOf`: when it joined the line, by the database's clock; undefined if it did not wait. */
  | {
      readonly outcome: 'granted';
      readonly grants: readonly Grant[];
      readonly joinedAsOf: number | undefined;
    }
  | { readonly outcome: 'refused'; readonly refused: Refused }
  /** The time of this call was over; `held` is what stands in its way, `ticketId` its place in that line. */
  | {
      readonly outcome: 'waiting';
      readonly held: Held;
      readonly frozen: LeaseError | undefined;
      readonly ticketId: string;
    }
  /** Its time in line was over; this answer is recorded. */
  | { readonly outcome: 'gave_up'; readonly answer: Held }
  /** Its idempotency key was used, or its place in line is gone: what became of it is recorded. */
  | {
      readonly outcome: 'recorded';
      readonly requests: GrantRequests;
      readonly joinedAsOf: number | undefined;
    };

/** Tries, waits in line for its turn, and gives up: the same for callers of a controller and for a coordinator. */
export interface Acquirer<Held extends HeldAnswer = HeldAnswer> {
  /**
   * @throws {LeaseError} `lease.wait_cancelled` when the caller is gone, `grant.hold_off` for longer than it may
   * wait; `grant.contended` unless it may wait; what `ask` throws.
   */
  acquire(call: AcquireCall): Promise<Acquired<Held>>;
  /** Takes the places in line that the same request took before, and waits on. */
  resume(call: AcquireCall): Promise<Acquired<Held>>;
}

export function createAcquirer<Held extends HeldAnswer>(
  store: KernelStore,
  asking: Asking<Held>,
): Acquirer<Held> {
  return new LineAcquirer(store, asking);
}

/** What is known of an acquire before it waits in line. */
interface Before {
  /** Why it was refused, which is the answer if nothing newer is known. */
  readonly first?: Refused;
  readonly isReplay?: true;
}

class LineAcquirer<Held extends HeldAnswer> implements Acquirer<Held> {
  readonly #store: KernelStore;
  readonly #asking: Asking<Held>;
  readonly #room: WaitingRoom;

  constructor(store: KernelStore, asking: Asking<Held>) {
    this.#store = store;
    this.#asking = asking;
    this.#room = createWaitingRoom(store);
  }

  async acquire(call: AcquireCall): Promise<Acquired<Held>> {
    const { requests, waitMs } = call;
    if (waitMs > 0 && (await this.#isForLine(call))) return this.#wait(call);
    const outcome = await askFirst(call);
    switch (outcome?.outcome) {
      case undefined:
        return this.#wait(call);
      case 'granted':
        return { ...outcome, joinedAsOf: undefined };
      case 'recorded':
        return { ...outcome, requests, joinedAsOf: undefined };
      case 'held':
      case 'queued':
        return waitMs > 0
          ? this.#wait(call, { first: outcome })
          : { outcome: 'refused', refused: outcome };
    }
  }

  resume(call: AcquireCall): Promise<Acquired<Held>> {
    return this.#wait(call, { isReplay: true });
  }

  /** Whether it joins the line without a try. @throws {LeaseError} as {@link assertMayPass}. */
  async #isForLine(call: AcquireCall): Promise<boolean> {
    const { requests, standing } = call;
    if (standing?.supersede !== undefined) {
      // It supersedes others in line: they may be before it there.
      await assertMayPass(this.#asking, call);
      return true;
    }
    // It is decided there whether it was superseded.
    if (standing?.again !== undefined) return true;
    const isAlone = requests.length === 1;
    return (isAlone && this.#room.isAwaited(requests[0])) || this.#asking.isBusy(requests);
  }

  async #wait(call: AcquireCall, before: Before = {}): Promise<Acquired<Held>> {
    const { life, startedAtMs } = call;
    const { clock, observer } = this.#store;
    const stopWaiting = life.startWaiting?.();
    const endWith = (outcome: 'granted' | 'gave_up'): void => {
      observer.waited(call.requests[0].face, clock.nowMs() - startedAtMs, outcome);
    };
    try {
      const acquired = await this.#waitInLine(call, before);
      if (acquired.outcome === 'granted' || acquired.outcome === 'gave_up') {
        endWith(acquired.outcome);
      }
      return acquired;
    } catch (error) {
      endWith('gave_up');
      throw life.signal.aborted ? new LeaseError('lease.wait_cancelled') : error;
    } finally {
      stopWaiting?.();
    }
  }

  async #waitInLine(call: AcquireCall, { first, isReplay }: Before): Promise<Acquired<Held>> {
    const { life, startedAtMs, waitMs, callMs, standing } = call;
    const { clock, ids } = this.#store;
    const requests = call.inLine(call.requests[0].idempotencyKey ?? ids.uuid());
    const [{ idempotencyKey, ...own }, ...others] = requests;
    invariant(idempotencyKey !== undefined, 'a place in line has a key');
    const queued = queuedOf(requests);
    const elapsedMs = (): number => clock.nowMs() - startedAtMs;
    const heldBy = (refused = first): Held =>
      this.#asking.heldAnswer(requests, refused, elapsedMs());
    let grants: readonly Grant[] = [];
    const outcome = await this.#room.wait({
      request: { ...own, idempotencyKey },
      others: others.map(({ leaseId, ...one }) => ({ ...one, ticketId: leaseId })),
      isReplay,
      life,
      startedAtMs,
      giveUpAtMs: startedAtMs + waitMs,
      callEndsAtMs: callMs === undefined ? undefined : startedAtMs + callMs,
      standing,
      look: async () => unlessOwn(queued, await this.#asking.refusal(queued)),
      async attempt(): Promise<GrantOutcome> {
        const attempted = unlessOwn(queued, await call.ask(queued));
        if (attempted.outcome !== 'granted') return attempted;
        ({ grants } = attempted);
        return { outcome: 'granted', grant: firstOf(grants), isSlot: attempted.isSlot };
      },
      answerOf: heldBy,
    });
    switch (outcome.outcome) {
      case 'granted':
        for (const grant of grants) observeHandover(this.#store, grant, elapsedMs());
        return { outcome: 'granted', grants, joinedAsOf: outcome.joinedAsOf };
      case 'recorded':
        return { ...outcome, requests };
      case 'gave_up':
        // It comes from `heldBy`.
        return { outcome: 'gave_up', answer: outcome.answer as Held };
      case 'waiting': {
        const { refused = first, frozen } = outcome;
        const { leaseId } = requests[refused?.place ?? 0] ?? own;
        return { outcome: 'waiting', held: heldBy(refused), frozen, ticketId: leaseId };
      }
    }
  }
}

function queuedOf([first, ...others]: GrantRequests): GrantRequests {
  const inLine = (one: GrantRequest): GrantRequest => ({ ...one, isQueued: true });
  return [inLine(first), ...others.map(inLine)];
}

/** A refusal by a grant that the same request was given before is its own record. */
function unlessOwn<Outcome extends GrantAllOutcome | undefined>(
  requests: GrantRequests,
  outcome: Outcome,
): Outcome | { readonly outcome: 'recorded' } {
  if (outcome?.outcome !== 'held') return outcome;
  const { by } = outcome;
  const isOwn = requests.some(
    ({ leaseId, holder }) => leaseId === by.leaseId && holder === by.holder,
  );
  return isOwn ? { outcome: 'recorded' } : outcome;
}

function firstOf(grants: readonly Grant[]): Grant {
  const [grant] = grants;
  invariant(grant !== undefined, 'who is granted something has a grant');
  return grant;
}

/** A first try, outside the line. @returns undefined if what stands in its way may pass while it waits. */
async function askFirst({
  requests,
  waitMs,
  ask,
}: AcquireCall): Promise<GrantAllOutcome | undefined> {
  try {
    return unlessOwn(requests, await ask(requests));
  } catch (error) {
    // Another transaction has locked the row, or it is frozen, perhaps for less long than this may wait. Who does not
    // wait for longer than a hold-off takes no place, which would keep others back.
    const mayPass =
      isFrozen(error) ||
      (isHoldOff(error) && stoppedForMs(error) < waitMs) ||
      (error instanceof LeaseError && error.code === 'grant.contended');
    if (waitMs === 0 || !mayPass) throw error;
    return undefined;
  }
}

/**
 * Refuses a request before it ends others for nothing.
 * @throws {LeaseError} `grant.hold_off`, `environment.frozen` for longer than it may wait.
 */
async function assertMayPass(
  asking: Pick<Asking<HeldAnswer>, 'refusal'>,
  { requests, waitMs }: AcquireCall,
): Promise<void> {
  try {
    await asking.refusal(requests);
  } catch (error) {
    if (!(isFrozen(error) || isHoldOff(error)) || stoppedForMs(error) >= waitMs) throw error;
  }
}

/** Asks for one lease, in the statements that many such requests share. */
export function askForOne(leases: LeaseStore, face: Face): Asking<HeldAnswer> {
  return {
    grant: ([request], signal) => leases.grant(request, signal).then(togetherOf),
    async refusal([request]) {
      const refused = await leases.refusal(request);
      return refused?.outcome === 'granted' ? undefined : refused;
    },
    isBusy: ([request]) => leases.isAsked(request),
    heldAnswer: (_requests, refused, waitedMs) => heldAnswer(face, refused, waitedMs),
  };
}

/** The outcome of a request for one lease as that of a request for several. */
export function togetherOf(outcome: GrantOutcome): GrantAllOutcome {
  if (outcome.outcome !== 'granted') return outcome;
  const { grant, isSlot } = outcome;
  return { outcome: 'granted', grants: [grant], isSlot };
}
