/**
 * The callers that wait at this controller for one lease, in the order of their tickets. Only the
 * first of them looks whether it is its turn: a caller behind it here is behind it everywhere. In a pool
 * the next one looks as soon as the first is granted, and so on until one is refused.
 */
import type { Place, Ticket } from '../grants/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Grant, GrantOutcome, GrantRequest } from '../kernel/lease.ts';
import type { CallerLife, HeldAnswer } from './lease-types.ts';

/** How often to look without a hint: for lost hints, and for waiters at other controllers that died. */
const LOOK_EVERY_MS = 400;
/** The second look of a new waiter: for a release that committed while it joined, and sent no hint. */
const SECOND_LOOK_MS = 25;
/** When it is another waiter's turn: by then the lease is mostly held again. */
const OTHERS_LOOK_MS = 100;
/** A look that failed is tried again this much later. */
const FAILED_LOOK_MS = 100;
/** How soon to look again at an expired lease whose row fenced work keeps locked. */
const FENCED_LOOK_MS = 100;
/** For how long a caller whose time is over waits for a look that began since its call. */
const LAST_LOOK_MS_MAX = 1_000;
/** The look at the holder's expiry comes a little late rather than a little early. */
const AFTER_EXPIRY_MS = 5;

/** A waiter whom a freeze or a hold-off stops is passed over for so long, unless that ends before. */
const STOPPED_LOOK_MS = 1_000;

/** The outcome of a wait in line. */
export type WaitOutcome =
  /** `joinedAsOf`: when the line was joined, by the database's clock; since then it has waited. */
  | { readonly outcome: 'granted'; readonly grant: Grant; readonly joinedAsOf: number }
  /** Its place is gone: what became of it is in the record of its idempotency key. */
  | { readonly outcome: 'recorded'; readonly joinedAsOf: number | undefined }
  /** The time of its call was over. It has kept its place, and goes on waiting by its next call. */
  | {
      readonly outcome: 'waiting';
      readonly refused: Refused | undefined;
      readonly frozen: LeaseError | undefined;
    }
  /** Its time was over; the record shows it. */
  | {
      readonly outcome: 'gave_up';
      readonly answer: HeldAnswer;
      readonly refused: Refused | undefined;
    };

/** Why somebody has to wait. */
export type Refused = Extract<GrantOutcome, { outcome: 'held' | 'queued' }> & {
  /** Which of several leases stands in the way, from 0. */
  readonly place?: number | undefined;
};

/** A caller in line. */
export interface Waiter {
  readonly request: GrantRequest & { readonly idempotencyKey: string };
  /** Where it waits besides: for leases that it wants together with its request's. */
  readonly others?: readonly Place[] | undefined;
  readonly ticket: Ticket;
  readonly life: CallerLife;
  /** When its call arrived: what was so before is no answer to it. */
  readonly startedAtMs: number;
  readonly giveUpAtMs: number;
  /** When its call is answered, if it goes on waiting by the next one. */
  readonly callEndsAtMs?: number | undefined;
  /** Why it would be refused now, by a plain read; undefined when it may be granted. */
  readonly look: () => Promise<GrantOutcome | undefined>;
  /** Asks for the grant, from its place in line. */
  readonly attempt: () => Promise<GrantOutcome>;
  /** What is recorded as the answer when it gives up. */
  readonly answerOf: (refused: Refused | undefined) => HeldAnswer;
  readonly resolve: (outcome: WaitOutcome) => void;
  readonly reject: (error: unknown) => void;
}

/** A refusal, which was true at some moment after it was asked for. */
interface Met {
  readonly refused: Refused;
  readonly askedAtMs: number;
}

/** A freeze or a hold-off. */
interface Stop {
  readonly error: LeaseError;
  readonly endsAtMs: number;
  /** Until when those whom it stops are passed over. */
  readonly untilMs: number;
}

export class Line {
  readonly #nowMs: () => number;
  /** By the number of their tickets. */
  readonly #waiters: Waiter[] = [];
  /** When the look began that is under way. */
  #lookingSinceMs: number | undefined;
  #isLookWanted = false;
  /** Whether the lease may have become free: then the next look asks for it at once. */
  #isHinted = false;
  #nextLookAtMs: number;
  /** The waiter whose grant is under way: it does not give up before the outcome is known. */
  #attempting: Waiter | undefined;
  /** The latest refusal of the first waiter: what stands in its way stands in the way of all. */
  #met: Met | undefined;
  /** The freezes that stand in the way of single waiters, and the hold-off in that of all. */
  readonly #stopped = new Map<Waiter, Stop>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#nextLookAtMs = nowMs();
  }

  get waiters(): readonly Waiter[] {
    return this.#waiters;
  }

  add(waiter: Waiter): void {
    const place = this.#placeAfter(waiter.ticket.number);
    this.#waiters.splice(place, 0, waiter);
    if (place > 0) return;
    this.look();
    this.#lookBy(this.#nowMs() + SECOND_LOOK_MS);
  }

  isAttempting(waiter: Waiter): boolean {
    return this.#attempting === waiter;
  }

  /**
   * Why a waiter was refused, by a look that began since its call; undefined before the first such look. One look
   * answers all whose calls came before it.
   */
  refusalOf({ startedAtMs }: Waiter): Refused | undefined {
    return this.#met !== undefined && this.#met.askedAtMs >= startedAtMs
      ? this.#met.refused
      : undefined;
  }

  /** Whether a waiter whose time is over may leave: it knows why, or has waited for a last look. */
  mayGiveUp(waiter: Waiter, nowMs: number): boolean {
    return this.refusalOf(waiter) !== undefined || nowMs >= waiter.giveUpAtMs + LAST_LOOK_MS_MAX;
  }

  /** Whether a waiter whose call is over may be answered that it waits: likewise, or a freeze or hold-off is the reason. */
  maySayWhy(waiter: Waiter, nowMs: number): boolean {
    const isKnown = this.refusalOf(waiter) !== undefined || this.#stopOf(waiter) !== undefined;
    return isKnown || nowMs >= endOf(waiter) + LAST_LOOK_MS_MAX;
  }

  /** Looks for a waiter whose time is over, unless a look that will do is under way. */
  lookLast({ startedAtMs }: Waiter): void {
    if (this.#lookingSinceMs === undefined || this.#lookingSinceMs < startedAtMs) this.look();
  }

  /** The freeze that stands in the way of this waiter, until it is looked for again: the freeze may be over by then. */
  frozenBy(waiter: Waiter): LeaseError | undefined {
    const stop = this.#stopOf(waiter);
    return isFrozen(stop) ? stop : undefined;
  }

  #stopOf(waiter: Waiter): LeaseError | undefined {
    const found = this.#stopped.get(waiter);
    return found !== undefined && this.#nowMs() < found.untilMs ? found.error : undefined;
  }

  remove(waiter: Waiter): void {
    this.#stopped.delete(waiter);
    const { number } = waiter.ticket;
    // A replay of a request has the same ticket, and is next to it in the list.
    for (let place = this.#placeAfter(number) - 1; place >= 0; place -= 1) {
      const other = this.#waiters[place];
      if (other === waiter) this.#waiters.splice(place, 1);
      if (other === waiter || other?.ticket.number !== number) return;
    }
  }

  /** The ticket is gone: granted to a replay of its request, given up, or lapsed long ago. */
  lostTicket(waiter: Waiter): void {
    this.remove(waiter);
    waiter.resolve({ outcome: 'recorded', joinedAsOf: waiter.ticket.asOf });
  }

  /** Looks if it is time to. */
  tick(nowMs: number): void {
    if (nowMs >= this.#nextLookAtMs) this.look();
  }

  /** Looks at once, because somebody said that the lease may be free now. */
  hint(): void {
    this.#isHinted = true;
    this.look();
  }

  /** Looks whether it is the turn of the first waiter here. Calls during a look cause one more look. */
  look(): void {
    if (this.#lookingSinceMs !== undefined) this.#isLookWanted = true;
    else void this.#lookOnce();
  }

  /**
   * The lease was released while another waiter was the first. If that one is dead, this look finds it
   * ahead, and learns when its place lapses.
   */
  lookLater(): void {
    this.#lookBy(this.#nowMs() + OTHERS_LOOK_MS);
  }

  async #lookOnce(): Promise<void> {
    for (;;) {
      this.#isLookWanted = false;
      const isHinted = this.#isHinted;
      this.#isHinted = false;
      const nowMs = this.#nowMs();
      this.#lookingSinceMs = nowMs;
      this.#nextLookAtMs = nowMs + LOOK_EVERY_MS;
      // A caller that does not answer must not be granted anything; its ticket lapses, and the next is first.
      const first = this.#waiters.find((one) => isHere(one) && this.#waits(one, nowMs));
      this.#attempting = first;
      if (first !== undefined) await this.#turn(first, { askedAtMs: nowMs, isHinted });
      this.#attempting = undefined;
      if (!this.#hasMoreToLook()) break;
    }
    this.#lookingSinceMs = undefined;
  }

  #waits(waiter: Waiter, nowMs: number): boolean {
    if (nowMs < (this.#stopped.get(waiter)?.untilMs ?? 0)) return false;
    return nowMs < waiter.giveUpAtMs || !this.mayGiveUp(waiter, nowMs);
  }

  #hasMoreToLook(): boolean {
    return this.#isLookWanted && this.#waiters.length > 0;
  }

  async #turn(
    first: Waiter,
    { askedAtMs, isHinted }: { readonly askedAtMs: number; readonly isHinted: boolean },
  ): Promise<void> {
    try {
      // Without a hint it is mostly held still, which a plain read shows.
      const refused = isHinted ? undefined : await first.look();
      if (refused === undefined && !isHere(first)) {
        // A grant that nobody takes would cost it its place: the next one here is looked for.
        this.#isLookWanted = true;
        return;
      }
      const outcome = refused ?? (await first.attempt());
      this.#stopped.delete(first);
      switch (outcome.outcome) {
        case 'granted':
          this.#grantTo(first, outcome);
          break;
        case 'recorded':
          this.lostTicket(first);
          break;
        case 'held':
          this.#meetHolder({ refused: outcome, askedAtMs });
          break;
        case 'queued':
          this.#met = { refused: outcome, askedAtMs };
          // If the waiter ahead is dead, its ticket delays nobody for longer than this.
          this.#lookBy(this.#nowMs() + Math.max(0, outcome.head.lapsesInMs) + AFTER_EXPIRY_MS);
          break;
      }
    } catch (error) {
      this.#meetFailure(first, error);
    }
  }

  #grantTo(first: Waiter, { grant, isSlot }: Extract<GrantOutcome, { outcome: 'granted' }>): void {
    this.remove(first);
    first.resolve({ outcome: 'granted', grant, joinedAsOf: first.ticket.asOf });
    // There may be room for the next one beside it: an ordinary request takes a permit, too.
    if (isSlot === true || this.#waiters[0]?.request.mode !== undefined) this.hint();
  }

  #meetFailure(first: Waiter, error: unknown): void {
    if (isHoldOff(error)) {
      this.#meetHoldOff(first, error);
      return;
    }
    if (isPassing(error)) {
      this.#lookBy(this.#nowMs() + FAILED_LOOK_MS);
      return;
    }
    if (isFrozen(error) && this.#outwaits(first, error)) return;
    this.#refuse(first, error);
  }

  #refuse(waiter: Waiter, error: unknown): void {
    this.remove(waiter);
    waiter.reject(error);
  }

  /**
   * A hold-off stops all alike, so one look is for all: those whose wait ends before it are refused, the others keep
   * their places. One whose time is over leaves by itself, and may be doing so.
   */
  #meetHoldOff(first: Waiter, error: LeaseError): void {
    const nowMs = this.#nowMs();
    const stop = this.#stopBy(error);
    for (const one of [...this.#waiters]) {
      if (stop.endsAtMs < one.giveUpAtMs) this.#stopped.set(one, stop);
      else if (one === first || nowMs < one.giveUpAtMs) this.#refuse(one, error);
    }
  }

  /**
   * Whether a waiter waits for the end of a freeze. Then those behind it may be granted before: not all are frozen.
   * Those whom the same freeze stops are not looked for one after another: many would keep back one that is not frozen.
   */
  #outwaits(first: Waiter, error: LeaseError): boolean {
    const stop = this.#stopBy(error);
    if (stop.endsAtMs >= first.giveUpAtMs) return false;
    for (const one of this.#waiters) {
      if (one !== first && !isStoppedWith(first, one)) continue;
      if (stop.endsAtMs < one.giveUpAtMs) this.#stopped.set(one, stop);
    }
    this.#isLookWanted = true;
    return true;
  }

  /** Those whom it stops are looked for again in time. */
  #stopBy(error: LeaseError): Stop {
    const nowMs = this.#nowMs();
    const remainingMs = stoppedForMs(error);
    const untilMs = nowMs + Math.min(STOPPED_LOOK_MS, remainingMs + AFTER_EXPIRY_MS);
    this.#lookBy(untilMs);
    return { error, endsAtMs: nowMs + remainingMs, untilMs };
  }

  #meetHolder(met: Met & { readonly refused: { readonly outcome: 'held' } }): void {
    const { by, doubtMs } = met.refused;
    this.#met = met;
    const leftMs = Math.max(by.expiresAt - by.asOf, doubtMs);
    // A lease that has expired and is still held is kept by fenced work: there is no hurry.
    this.#lookBy(this.#nowMs() + (leftMs > 0 ? leftMs + AFTER_EXPIRY_MS : FENCED_LOOK_MS));
  }

  /** How many have this number or a smaller one. A binary search, because lines are long. */
  #placeAfter(number: number): number {
    let low = 0;
    let high = this.#waiters.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#waiters[middle];
      if (other !== undefined && other.ticket.number <= number) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #lookBy(atMs: number): void {
    this.#nextLookAtMs = Math.min(this.#nextLookAtMs, atMs);
  }
}

/** Whether its caller can be granted anything. */
function isHere({ life }: Waiter): boolean {
  return life.isAlive() && !life.signal.aborted;
}

/** When a call is answered at the latest, except for a last look. */
export function endOf({ giveUpAtMs, callEndsAtMs = giveUpAtMs }: Waiter): number {
  return Math.min(giveUpAtMs, callEndsAtMs);
}

/** Whether every freeze that stops the one stops the other. */
function isStoppedWith({ request: one }: Waiter, { request: other }: Waiter): boolean {
  return one.tag === other.tag && one.override === undefined && other.override === undefined;
}

export function isFrozen(error: unknown): error is LeaseError {
  return error instanceof LeaseError && error.code === 'environment.frozen';
}

/** Whether nothing is granted at all for now, because the database was restored or failed over. */
export function isHoldOff(error: unknown): error is LeaseError {
  return error instanceof LeaseError && error.code === 'grant.hold_off';
}

/** For how long a freeze or a hold-off lasts, in milliseconds since the database was asked. */
export function stoppedForMs({ details }: LeaseError): number {
  return (details as { readonly remainingMs: number }).remainingMs;
}

/** Whether a look that failed may succeed later in the same wait, nobody knows when. */
function isPassing(error: unknown): boolean {
  return !(error instanceof LeaseError) || error.retryable;
}
