/**
 * All leases of one face that this process holds: one tick for all, and for each datacenter one
 * call that renews all that are due. Nothing ticks while nothing is held.
 */
import {
  GAP_MS,
  LIMITS,
  type GrantRef,
  type Pulse,
  type UpdateOutcome,
} from '@leasehold/keys-core';
import type { RevocationNotice } from '@leasehold/keys-core/leases';
import { Appointments } from '@leasehold/service-kit/appointments';
import { outsideOfWork } from '../context/work-context.ts';
import type { Machine } from '../machine.ts';
import type { Ending } from '../signals.ts';
import { callErrorOf, OutcomeUnknownError, type UnreachableError } from '../transport/errors.ts';
import {
  callWithin,
  mayPassInTime,
  pauseBeforeRetry,
  Tries,
  untilAnswered,
  wasNotCarriedOut,
  type Background,
} from './calls.ts';
import type { HeldLease, LeaseOwner } from './held-lease.ts';
import type { LeaseWire, ReleaseRequest } from './lease-wire.ts';
import type { ReleaseReport } from './lease.ts';

/** A release is answered within this time, by the controller or as `unknown`. */
const RELEASE_MS_MAX = 5_000;
const RELEASE_TRY_MS = 2_000;
/** An update is answered within this time, or fails. */
const UPDATE_MS_MAX = 10_000;
const UPDATE_TRY_MS = 5_000;
/** Most of them are of other processes with the same token. */
const EARLY_NOTICES_MAX = 1_000;

interface Due {
  readonly lease: HeldLease;
  readonly requestId: number;
}

export interface HoldingsDeps {
  readonly machine: Machine;
  readonly wire: LeaseWire;
  readonly background: Background;
}

export class Holdings implements LeaseOwner {
  readonly #machine: Machine;
  readonly #wire: LeaseWire;
  readonly #background: Background;
  /**
   * Each knows its place. No `Map`: its table would be replaced again and again, and the tables before it would keep
   * what they held until a full collection.
   */
  readonly #leases: HeldLease[] = [];
  /** By their ids, from a notice until the next tick. */
  #byId: Map<string, HeldLease> | undefined;
  /** Of leases that are not kept: one may come before the answer that grants its lease. The oldest first. */
  readonly #earlyNotices = new Map<string, RevocationNotice>();
  readonly #releases: Tries;
  readonly #appointments = new Appointments<HeldLease>();
  readonly #pulse = { atMs: -Infinity };
  readonly random: () => number;
  #stopTicking: (() => void) | undefined;

  constructor({ machine, wire, background }: HoldingsDeps) {
    this.#machine = machine;
    this.#wire = wire;
    this.#background = background;
    this.#releases = new Tries(machine, RELEASE_TRY_MS, background.signal);
    this.random = () => machine.random();
  }

  get pulse(): Pulse {
    return this.#pulse;
  }

  /** Keeps a lease from now on. A first renewal that is already due is sent at once. */
  adopt(lease: HeldLease, nowMs: number): void {
    if (this.#leases.length > 0) this.tick(nowMs);
    else this.#pulse.atMs = nowMs;
    lease.place = this.#leases.push(lease) - 1;
    this.#byId = undefined;
    this.#stopTicking ??= outsideOfWork(() => this.#machine.clock.onTick((at) => this.tick(at)));
    const notice = this.#earlyNotices.get(lease.leaseId);
    if (notice !== undefined) {
      this.#earlyNotices.delete(lease.leaseId);
      lease.revoked(notice);
    }
    if (lease.dueAtMs <= nowMs) this.#judge([lease], nowMs);
    else this.#schedule(lease);
  }

  forget(lease: HeldLease): void {
    this.#cancel(lease);
    this.#remove(lease);
    if (this.#leases.length > 0) return;
    this.#stopTicking?.();
    this.#stopTicking = undefined;
  }

  /** Costs what is due, however many leases there are. After a gap, all of them are. */
  tick(nowMs: number): void {
    const isGap = nowMs - this.#pulse.atMs > GAP_MS;
    this.#pulse.atMs = Math.max(this.#pulse.atMs, nowMs);
    this.#byId = undefined;
    if (!isGap && !this.#appointments.isDue(nowMs)) return;
    const leases = isGap ? [...this.#leases] : this.#takeDue(nowMs);
    if (isGap) for (const lease of leases) lease.slept();
    this.#judge(leases, nowMs);
  }

  /** A notice of the session: one of ours, or of another process with the same token, or of one that is on its way. */
  revoked(notice: RevocationNotice): void {
    this.#byId ??= new Map(this.#leases.map((lease) => [lease.leaseId, lease]));
    const lease = this.#byId.get(notice.leaseId);
    if (lease === undefined) this.#keepEarly(notice);
    else lease.revoked(notice);
  }

  #keepEarly(notice: RevocationNotice): void {
    this.#earlyNotices.delete(notice.leaseId);
    this.#earlyNotices.set(notice.leaseId, notice);
    const [oldest = ''] = this.#earlyNotices.keys();
    if (this.#earlyNotices.size > EARLY_NOTICES_MAX) this.#earlyNotices.delete(oldest);
  }

  /**
   * Asks about every lease that is renewed anyway: notices may have been missed. Asking renews, so
   * the others are left alone; the session repeats the notices of the last minute.
   */
  recheck(): void {
    const leases = this.#leases.filter((lease) => lease.renews);
    for (const some of calls(leases, (lease) => lease.datacenter)) {
      this.#background.add(this.#recheck(some));
    }
  }

  /** Ends every lease for its holder; the grants run out by themselves. */
  abandonAll(): void {
    for (const lease of [...this.#leases]) lease.abandon(this.#background.closing.reason);
  }

  async giveBack(
    lease: HeldLease,
    result: 'ok' | 'failed',
    detail?: string,
  ): Promise<ReleaseReport> {
    const { leaseId, fencingToken, datacenter } = lease;
    const request: ReleaseRequest = { leaseId, fencingToken, result, detail };
    const background = this.#background;
    if (background.signal.aborted) return 'unknown';
    const beganAtMs = this.#machine.clock.nowMs();
    const one = this.#releases.begin(beganAtMs);
    background.began();
    try {
      return await outsideOfWork(() => this.#wire.release(request, one, datacenter));
    } catch (error) {
      const failure = one.aborted ? one.reason : callErrorOf(error);
      const mayGoOn = this.#machine.clock.nowMs() < lease.surelyOverAtMs;
      if (!mayGoOn || !mayPassInTime(failure)) return 'unknown';
      return await this.#giveBackAgain(lease, request, beganAtMs + RELEASE_MS_MAX);
    } finally {
      this.#releases.end(one);
      background.ended();
    }
  }

  /**
   * Sent again only where it was not carried out: a try without an answer that arrived late would undo a later
   * update.
   */
  update(lease: HeldLease, metadata: unknown): Promise<UpdateOutcome> {
    const { ref, datacenter } = lease;
    return this.#change(lease, (ending) =>
      this.#wire.update({ ...ref, metadata }, ending, datacenter),
    );
  }

  /** A try without an answer that arrived late would change nothing more. */
  downgrade(lease: HeldLease): Promise<UpdateOutcome> {
    const { ref, datacenter } = lease;
    return this.#change(lease, (ending) => this.#wire.downgrade(ref, ending, datacenter));
  }

  async #change(
    { signal }: HeldLease,
    send: (ending: Ending) => Promise<UpdateOutcome>,
  ): Promise<UpdateOutcome> {
    const machine = this.#machine;
    let triedAtMs = machine.clock.nowMs();
    // Nor is it sent later: a try that is over waits for no connection.
    const whyNeverSent = (error: unknown): UnreachableError | undefined =>
      error instanceof OutcomeUnknownError ? this.#wire.unreachableSince(triedAtMs) : undefined;
    const bounds = {
      untilMs: triedAtMs + UPDATE_MS_MAX,
      tryMs: UPDATE_TRY_MS,
      signal,
      mayPass: (error: unknown) => wasNotCarriedOut(error) || whyNeverSent(error) !== undefined,
    };
    const tryOnce = (ending: Ending): Promise<UpdateOutcome> => {
      triedAtMs = machine.clock.nowMs();
      return send(ending);
    };
    try {
      return await outsideOfWork(() => untilAnswered(machine, bounds, tryOnce));
    } catch (error) {
      throw whyNeverSent(error) ?? error;
    }
  }

  /** Retries until it is answered or the grant is over; the report waits only until that moment. */
  #giveBackAgain(
    lease: HeldLease,
    request: ReleaseRequest,
    reportAtMs: number,
  ): Promise<ReleaseReport> {
    const machine = this.#machine;
    const { signal } = this.#background;
    const bounds = {
      untilMs: lease.surelyOverAtMs,
      tryMs: RELEASE_TRY_MS,
      signal,
      mayPass: mayPassInTime,
    };
    const released = outsideOfWork(async () => {
      await pauseBeforeRetry(machine, 1, signal);
      const outcome = await untilAnswered(machine, bounds, (ending) =>
        this.#wire.release(request, ending, lease.datacenter),
      );
      // By an earlier try, whose answer was lost.
      return outcome === 'already_released' ? 'released' : outcome;
    });
    this.#background.add(released);
    return new Promise((resolve) => {
      const giveUp = (): void => resolve('unknown');
      const cancel = machine.clock.at(reportAtMs, giveUp);
      released.then(resolve, giveUp).finally(cancel);
    });
  }

  #judge(leases: readonly HeldLease[], nowMs: number): void {
    const due: Due[] = [];
    for (const lease of leases) {
      const requestId = lease.judge(nowMs);
      if (requestId !== undefined) due.push({ lease, requestId });
      this.#schedule(lease);
    }
    for (const some of calls(due, ({ lease }) => lease.datacenter)) {
      outsideOfWork(() => void this.#renew(some));
    }
  }

  async #renew(due: readonly Due[]): Promise<void> {
    const { answers, failure } = await this.#heartbeat(due.map(({ lease }) => lease));
    // First of all: whether there was a gap before the answers.
    const nowMs = this.#machine.clock.nowMs();
    this.tick(nowMs);
    for (const [place, { lease, requestId }] of due.entries()) {
      const answer = answers[place];
      if (answer?.outcome === 'renewed') lease.renewed(requestId, answer.deadlines, nowMs);
      else if (answer?.outcome === 'refused') lease.refused(answer.reason);
      if (answer === undefined) lease.failed(requestId, failure);
      this.#schedule(lease);
    }
  }

  #takeDue(nowMs: number): HeldLease[] {
    const leases: HeldLease[] = [];
    for (const appointment of this.#appointments.takeDue(nowMs)) {
      const lease = this.#appointments.end(appointment);
      if (lease === undefined) continue;
      lease.next = undefined;
      leases.push(lease);
    }
    return leases;
  }

  /** The last one takes its place. */
  #remove(lease: HeldLease): void {
    const last = this.#leases.at(-1);
    if (lease.place < 0 || last === undefined) return;
    this.#leases[lease.place] = last;
    last.place = lease.place;
    this.#leases.pop();
    lease.place = -1;
  }

  #schedule(lease: HeldLease): void {
    const { next, dueAtMs } = lease;
    if (next?.atMs === dueAtMs || lease.place < 0) return;
    if (next !== undefined) this.#appointments.end(next);
    lease.next = this.#appointments.add(dueAtMs, lease);
  }

  #cancel(lease: HeldLease): void {
    if (lease.next !== undefined) this.#appointments.end(lease.next);
    lease.next = undefined;
  }

  /** Only refusals are used: other answers leave the deadlines here early, never late. */
  async #recheck(leases: readonly HeldLease[]): Promise<void> {
    const { answers } = await outsideOfWork(() => this.#heartbeat(leases));
    for (const [place, lease] of leases.entries()) {
      const answer = answers[place];
      if (answer?.outcome === 'refused') lease.refused(answer.reason);
    }
  }

  /**
   * Renews leases of one datacenter. Returns the answers in the order of the leases, undefined for a lease without
   * one; and the failure, if no answer came before the last lease is over, or all were refused together.
   */
  async #heartbeat(leases: readonly HeldLease[]): Promise<{
    readonly answers: readonly (HeartbeatAnswer | undefined)[];
    readonly failure?: unknown;
  }> {
    const refs: GrantRef[] = [];
    let untilMs = 0;
    for (const lease of leases) {
      refs.push(lease.ref);
      untilMs = Math.max(untilMs, lease.loseAtMs);
    }
    try {
      const answers = await callWithin(
        this.#machine,
        { ms: untilMs - this.#machine.clock.nowMs(), signal: this.#background.signal },
        (ending) => this.#wire.heartbeat(refs, ending, leases[0]?.datacenter),
      );
      return { answers: inOrderOf(refs, answers) };
    } catch (failure) {
      // Whatever went wrong, another try follows; the keeper watches the deadline.
      return { answers: [], failure };
    }
  }
}

type HeartbeatAnswer = Awaited<ReturnType<LeaseWire['heartbeat']>>[number];

/** A controller answers in this order, unless some have no answer. */
function inOrderOf(
  refs: readonly GrantRef[],
  answers: readonly HeartbeatAnswer[],
): readonly (HeartbeatAnswer | undefined)[] {
  const isInOrder =
    refs.length === answers.length &&
    answers.every(({ leaseId }, place) => leaseId === refs[place]?.leaseId);
  if (isInOrder) return answers;
  const byId = new Map(answers.map((answer) => [answer.leaseId, answer]));
  return refs.map(({ leaseId }) => byId.get(leaseId));
}

/** Groups for one call each: leases of one datacenter, and no more than a call takes. */
function* calls<T>(
  items: readonly T[],
  datacenterOf: (item: T) => string | undefined,
): Generator<readonly T[]> {
  const size = LIMITS.renewalsPerCallMax;
  const groups = new Map<string | undefined, T[]>();
  for (const item of items) {
    const datacenter = datacenterOf(item);
    const group = groups.get(datacenter);
    if (group === undefined) groups.set(datacenter, [item]);
    else group.push(item);
  }
  for (const some of groups.values()) {
    for (let from = 0; from < some.length; from += size) yield some.slice(from, from + size);
  }
}
