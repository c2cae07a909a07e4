/**
 * One lease of this process: the keeper's decisions, carried out on a signal.
 *
 *   held ──(its deadline; a refusal; a revocation)──▶ lost: the signal aborts, with the reason
 *     └──(release)──▶ released: the signal is left alone permanently
 *
 * The keeper stops softly `STOP_LEAD_MS` before the holder's own deadline, so that the signal has
 * aborted by then, although deadlines are only checked at ticks.
 */
import {
  errorText,
  LeaseKeeper,
  LIMITS,
  serviceLadder,
  type Deadlines,
  type GrantRef,
  type Ladder,
  type Pulse,
  type RefusalReason,
  type UpdateOutcome,
} from '@leasehold/keys-core';
import type { GrantedLease, LeaseDeadlines, RevocationNotice } from '@leasehold/keys-core/leases';
import type { Appointment } from '@leasehold/service-kit/appointments';
import { TICK_MS } from '@leasehold/service-kit/boot-clock';
import {
  outsideOfWork,
  runInContext,
  type ContextPart,
  type WorkContext,
} from '../context/work-context.ts';
import { assertUpdate } from '../inputs.ts';
import type { Machine } from '../machine.ts';
import { Ending } from '../signals.ts';
import {
  LeaseLost,
  LeaseRevoked,
  LeaseRevoking,
  LeaseUnconfirmedError,
  scopeText,
  type Lease,
  type LeaseLossReason,
  type LeaseScope,
  type LostGrant,
  type ReleaseReport,
} from './lease.ts';

/** Two ticks: the one that may just have passed, and the next. */
const STOP_LEAD_MS = 2 * TICK_MS;

/** What a lease needs from the object that keeps all of them. */
export interface LeaseOwner {
  /** The newest reading of the clock, for all leases. */
  readonly pulse: Pulse;
  /** A number in `[0, 1)`. */
  readonly random: () => number;
  /** Judges every lease that is due by the clock. */
  tick(nowMs: number): void;
  /** The lease is over for its holder, whether released or lost. */
  forget(lease: HeldLease): void;
  /** Sends the release. Bounded; never rejects. */
  giveBack(lease: HeldLease, result: 'ok' | 'failed', detail?: string): Promise<ReleaseReport>;
  /** Sends new metadata. @throws as `Lease.update`. */
  update(lease: HeldLease, metadata: unknown): Promise<UpdateOutcome>;
  /** Shares it. @throws as `Lease.downgrade`. */
  downgrade(lease: HeldLease): Promise<UpdateOutcome>;
}

/** What its caller wanted. */
interface HeldIntent {
  readonly scope: LeaseScope;
  /** Undefined where the controller chose it. */
  readonly ttlMs: number | undefined;
  readonly renews: boolean;
  /** Where it is; undefined: in the controller's own datacenter. */
  readonly datacenter?: string | undefined;
}

/** Identifies the scope within this process; see `WorkContext.holds`. `url` tells those of different controllers apart. */
export function scopeIdOf(
  url: string,
  { scope, datacenter = '' }: Pick<HeldIntent, 'scope' | 'datacenter'>,
): string {
  return [url, datacenter, scope.face, scopeText(scope)].join('\0');
}

export interface HeldLeaseOptions {
  readonly machine: Machine;
  readonly owner: LeaseOwner;
  /** See {@link scopeIdOf}. */
  readonly url: string;
  readonly intent: HeldIntent;
  readonly granted: Pick<GrantedLease, 'leaseId' | 'fencingToken' | 'deadlines'>;
  /** When the call was sent that was answered with it: if that is long ago, the first renewal confirms it. */
  readonly sentAtMs: number;
  readonly nowMs: number;
  /** The work that it was acquired in. */
  readonly outer: WorkContext | undefined;
}

export class HeldLease implements Lease {
  readonly leaseId: string;
  readonly fencingToken: string;
  /** Its place among all of them; -1 if it is not kept. */
  place = -1;
  readonly datacenter: string | undefined;
  readonly #isToRenew: boolean;
  #next: Appointment<HeldLease> | undefined;
  readonly #url: string;
  readonly #scope: LeaseScope;
  readonly #machine: Machine;
  readonly #owner: LeaseOwner;
  readonly #ladder: Ladder;
  readonly #keeper: LeaseKeeper;
  /** Undefined once it is over: work that starts the next piece of work must not keep all before it. */
  #outer: WorkContext | undefined;
  #unlink: (() => void) | undefined;
  readonly #ending = new Ending();
  #notice: Ending | undefined;
  #confirming: (() => void)[] | undefined;
  #state: 'held' | 'lost' | 'released' = 'held';
  #lost: LeaseLost | undefined;
  /** How the grant ended, as the controller reported it; it needs no release then. */
  #verdict: ReleaseReport | undefined;
  /** Why the last renewal had no answer. */
  #failure: unknown;
  #isAsking = false;
  #release: Promise<ReleaseReport> | undefined;
  /** Undefined before the first: a promise keeps the work that it is made in. */
  #updates: Promise<unknown> | undefined;
  #wasHeldAtRelease = false;

  constructor(options: HeldLeaseOptions) {
    const { granted, machine, owner, intent, nowMs, outer } = options;
    this.leaseId = granted.leaseId;
    this.fencingToken = granted.fencingToken;
    this.datacenter = intent.datacenter;
    this.#isToRenew = intent.renews;
    this.#url = options.url;
    this.#scope = intent.scope;
    this.#machine = machine;
    this.#owner = owner;
    this.#outer = outer;
    this.#ladder = ladderOf(intent.ttlMs, granted.deadlines);
    const graceMs = this.#ladder.ttlMs - this.#ladder.hardAfterMs;
    this.#keeper = new LeaseKeeper({
      ladder: this.#ladder,
      deadlines: withLead(granted.deadlines),
      isConfirmed: nowMs - options.sentAtMs <= graceMs || !intent.renews,
      nowMs,
      pulse: owner.pulse,
      random: owner.random,
    });
    if (outer === undefined) return;
    const cancel = (): void => this.#cancel();
    this.#unlink = outer.onOver(cancel);
    if (outer.signal.aborted) cancel();
  }

  /** When the one who keeps all leases judges it next. No field of its own: it leads back here, and JSON has no circles. */
  get next(): Appointment<HeldLease> | undefined {
    return this.#next;
  }

  set next(next: Appointment<HeldLease> | undefined) {
    this.#next = next;
  }

  /**
   * Whether it is renewed; an environment's lease is not, unless that was requested. Nor is one whose work is over:
   * nobody may ever release it.
   */
  get renews(): boolean {
    return this.#isToRenew && !this.#ending.aborted;
  }

  get scopeId(): string {
    return scopeIdOf(this.#url, { scope: this.#scope, datacenter: this.datacenter });
  }

  get ttlMs(): number {
    return this.#ladder.ttlMs;
  }

  get namespace(): readonly string[] {
    return this.#scope.namespace;
  }

  get key(): string {
    return this.#scope.key;
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  get revoking(): AbortSignal {
    this.#notice ??= new Ending();
    return this.#notice.signal;
  }

  get ref(): GrantRef {
    return { leaseId: this.leaseId, fencingToken: this.fencingToken };
  }

  /** The holder's own deadline, in the machine's clock. */
  get loseAtMs(): number {
    return this.#keeper.deadlines.hardTerminateAtMs;
  }

  /** When the grant has run out for the database as well, unless a renewal succeeded and its answer was lost. */
  get surelyOverAtMs(): number {
    return this.loseAtMs + this.#ladder.ttlMs;
  }

  get isHeld(): boolean {
    const nowMs = this.#machine.clock.nowMs();
    return this.#state === 'held' && this.#mayAct(nowMs) && this.#outer?.overBecause === undefined;
  }

  assertHeld(): void {
    if (this.isHeld) return;
    this.#throwIfOver();
    throw new LeaseUnconfirmedError();
  }

  async confirm(): Promise<void> {
    while (!this.isHeld) {
      this.#throwIfOver();
      await new Promise<void>((resolve) => (this.#confirming ??= []).push(resolve));
    }
  }

  remainingMs(): number {
    return this.#leftMs(this.loseAtMs);
  }

  async update(change: { readonly metadata: unknown }): Promise<void> {
    const metadata = assertUpdate(change);
    await this.#change(() => this.#owner.update(this, metadata));
  }

  downgrade(): Promise<void> {
    return this.#change(() => this.#owner.downgrade(this));
  }

  /** Changes of one lease are carried out one after the other. */
  async #change(send: () => Promise<UpdateOutcome>): Promise<void> {
    const before = this.#updates ?? Promise.resolve();
    const updated = before.then(() => this.#changeNow(send));
    // The next one is sent however this one ends.
    this.#updates = updated.catch(() => undefined);
    await updated;
  }

  run<T>(fn: () => T): T {
    return runInContext(this.#part, fn);
  }

  release(result: 'ok' | 'failed' = 'ok', detail?: string): Promise<ReleaseReport> {
    // Whatever a caller without a compiler gives: it says how the work ended, not whether it did.
    // Its answer is kept, and must not keep the work that asks for it.
    this.#release ??= outsideOfWork(() =>
      this.#giveBack(
        result === 'ok' ? 'ok' : 'failed',
        detail === undefined ? undefined : errorText(detail),
      ),
    );
    return this.#release;
  }

  /**
   * Releases it after work that returned `result`.
   * @returns why the work may not have been guarded to its end; undefined if it was.
   */
  async finish(result: unknown): Promise<LeaseLost | undefined> {
    const report = await this.release();
    const grant = this.#grant();
    switch (report) {
      case 'released':
        return undefined;
      case 'revoked':
        return new LeaseRevoked(grant, null, result);
      case 'already_released':
        return new LeaseLost('released', { grant, result });
      case 'not_found':
        return new LeaseLost('expired', { grant, result });
      case 'expired':
      case 'superseded':
      case 'unknown': {
        // A grant that ran out later, on the way of its release, is no loss.
        if (this.#wasHeldAtRelease) return undefined;
        const reason = report === 'unknown' ? 'unreachable' : report;
        return new LeaseLost(reason, { grant, result });
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #changeNow(send: () => Promise<UpdateOutcome>): Promise<void> {
    await this.confirm();
    const answer = await send();
    if (answer.outcome === 'updated') return;
    this.refused(answer.reason);
    this.#throwIfOver();
  }

  get #part(): ContextPart {
    const ending = this.#ending;
    return {
      ending,
      get signal() {
        return ending.signal;
      },
      // A called service must stop when the signal aborts here, or sooner.
      remainingMs: () =>
        this.#state === 'released'
          ? Infinity
          : this.#leftMs(this.#keeper.deadlines.softTerminateAtMs),
      holds: (scopeId) => this.#state === 'held' && this.scopeId === scopeId,
      isReleased: () => this.#state === 'released' && !ending.signal.aborted,
    };
  }

  /** When {@link judge} has something to do; infinite when the lease is over. */
  get dueAtMs(): number {
    return this.#state === 'held' ? this.#keeper.dueAtMs : Infinity;
  }

  /** The clock was not looked at for too long: the lease is renewed before its holder may act. */
  slept(): void {
    this.#keeper.slept();
  }

  /** Applies the deadlines of this lease at `nowMs`. @returns the id of a renewal that is due. */
  judge(nowMs: number): number | undefined {
    if (this.#state !== 'held') return undefined;
    let due: number | undefined;
    for (const effect of this.#keeper.tick(nowMs)) {
      if (effect.kind === 'renew') due = effect.requestId;
      else if (effect.kind === 'soft_terminate') this.#lose(this.#lossByTheClock());
    }
    if (due === undefined || !this.renews) return undefined;
    this.#isAsking = true;
    return due;
  }

  renewed(requestId: number, deadlines: LeaseDeadlines, nowMs: number): void {
    if (this.#state !== 'held') return;
    this.#failure = undefined;
    const stops = this.#keeper.renewed(requestId, withLead(deadlines), nowMs);
    if (stops.length > 0) this.#lose(this.#lossByTheClock());
    else if (!this.#keeper.isUnconfirmed) this.#isAsking = false;
    this.#wakeConfirming();
  }

  /** The controller refused to renew it. */
  refused(reason: RefusalReason): void {
    // It may be allowed again: the keeper goes on asking until the lease has run out.
    if (reason === 'renewal_blocked') this.#announce(null);
    else this.#loseBy(reason);
  }

  /** A renewal had no answer. @param cause why, if that is known. */
  failed(requestId: number, cause?: unknown): void {
    if (this.#state !== 'held') return;
    this.#failure = cause;
    this.#keeper.failed(requestId, this.#machine.clock.nowMs());
  }

  /** An operator has revoked it, at once or gracefully. */
  revoked({ kind, reason }: RevocationNotice): void {
    if (kind === 'revoking') this.#announce(reason);
    else this.#loseBy('revoked', reason);
  }

  /** The client was closed: nobody renews it any more. */
  abandon(cause: unknown): void {
    this.#lose(new LeaseLost('unreachable', { grant: this.#grant(), cause }));
  }

  #leftMs(deadlineMs: number): number {
    if (this.#state !== 'held') return 0;
    const leftMs = deadlineMs - this.#machine.clock.nowMs();
    return Math.max(0, Math.min(leftMs, this.#outer?.remainingMs() ?? Infinity));
  }

  #mayAct(nowMs: number): boolean {
    if (this.#isToRenew) return this.#keeper.mayAct(nowMs);
    // Asking again would renew it, which is not wanted: its deadline alone decides whether it is held.
    return !this.#keeper.isStopping && nowMs < this.#keeper.deadlines.softTerminateAtMs;
  }

  #throwIfOver(): void {
    if (this.#state === 'held') this.#owner.tick(this.#machine.clock.nowMs());
    if (this.#lost !== undefined) throw this.#lost;
    if (this.#state === 'released') throw new LeaseLost('released', { grant: this.#grant() });
    this.#outer?.throwIfOver();
  }

  #lossByTheClock(): LeaseLost {
    if (this.#notice?.aborted === true) {
      const { note } = this.#notice.reason as LeaseRevoking;
      return new LeaseRevoked(this.#grant(), note);
    }
    const reason = this.#isAsking ? 'unreachable' : 'expired';
    return new LeaseLost(reason, { grant: this.#grant(), cause: this.#failure });
  }

  #loseBy(reason: Exclude<RefusalReason, 'renewal_blocked'>, note: string | null = null): void {
    if (this.#state !== 'held') return;
    this.#verdict = reason === 'released' ? 'already_released' : reason;
    const lost =
      reason === 'revoked'
        ? new LeaseRevoked(this.#grant(), note)
        : new LeaseLost(LOSS_OF_REFUSAL[reason], { grant: this.#grant() });
    this.#lose(lost);
  }

  #lose(lost: LeaseLost): void {
    if (this.#state !== 'held') return;
    this.#lost = lost;
    this.#leave('lost');
    this.#ending.end(lost);
  }

  /** The work that this lease belongs to is over; the lease itself is held until it is released, or its deadline. */
  #cancel(): void {
    this.#ending.end(this.#outer?.overBecause);
    this.#wakeConfirming();
  }

  #announce(note: string | null): void {
    if (this.#state !== 'held') return;
    this.#notice ??= new Ending();
    this.#notice.end(new LeaseRevoking(this.#scope, note));
  }

  #leave(state: 'lost' | 'released'): void {
    this.#state = state;
    this.#unlink?.();
    this.#unlink = undefined;
    this.#outer = undefined;
    this.#updates = undefined;
    this.#owner.forget(this);
    this.#wakeConfirming();
  }

  #wakeConfirming(): void {
    if (this.#confirming === undefined) return;
    for (const wake of this.#confirming.splice(0)) wake();
  }

  #giveBack(result: 'ok' | 'failed', detail: string | undefined): Promise<ReleaseReport> {
    this.#wasHeldAtRelease = this.isHeld;
    if (this.#state === 'held') this.#leave('released');
    return this.#verdict === undefined
      ? this.#owner.giveBack(this, result, detail)
      : Promise.resolve(this.#verdict);
  }

  #grant(): LostGrant {
    return { scope: this.#scope, ...this.ref };
  }
}

const LOSS_OF_REFUSAL: Record<
  Exclude<RefusalReason, 'renewal_blocked' | 'revoked'>,
  LeaseLossReason
> = {
  // A grant that is not found ended long ago, or was never this caller's.
  not_found: 'expired',
  expired: 'expired',
  superseded: 'superseded',
  released: 'released',
};

function withLead({ renewAtMs, loseAtMs }: LeaseDeadlines): Deadlines {
  return { renewAtMs, softTerminateAtMs: loseAtMs - STOP_LEAD_MS, hardTerminateAtMs: loseAtMs };
}

let latest: { readonly ladder: Ladder; readonly goesFor: number | undefined } | undefined;

/**
 * The ladder by which answers are judged; without a known TTL, its window comes from the first answer. Most leases
 * of a process have the one of the lease before.
 */
function ladderOf(ttlMs: number | undefined, { renewAtMs, loseAtMs }: LeaseDeadlines): Ladder {
  const windowMs = loseAtMs - STOP_LEAD_MS - renewAtMs;
  if (latest?.goesFor === ttlMs && latest !== undefined) {
    const { softAfterMs, renewAfterMs } = latest.ladder;
    if (Math.abs(softAfterMs - renewAfterMs - windowMs) < 1) return latest.ladder;
  }
  const ladder = serviceLadder(ttlMs ?? LIMITS.ttlMsMax);
  const softAfterMs = ladder.hardAfterMs - STOP_LEAD_MS;
  latest = {
    ladder: { ...ladder, softAfterMs, renewAfterMs: softAfterMs - windowMs },
    goesFor: ttlMs,
  };
  return latest.ladder;
}
