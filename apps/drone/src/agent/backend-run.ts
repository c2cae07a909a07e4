/**
 * One backend, from the spawn action to the answered report that it is over.
 *
 *   loading ──first renewal answered──▶ preparing ──its image is there──▶ launching
 *      │                                    │                                │  ▼ warden started it
 *      │  refused, expired or stopped       │ the image cannot be had        │ running ──gone──▶ over
 *      └────────────────────────────────────┴────────────────────────────────┴──────────────────▲
 *
 * Its key is renewed in every stage, `over` included, until the report `terminated` is answered: it
 * is that answer which frees the key. No process runs before the first renewal was answered, and
 * `over` is entered only when none was started or the warden has seen every process gone.
 */
import type { SpawnAction } from '@leasehold/api';
import {
  keyIdOf,
  LeaseKeeper,
  statusRank,
  type BackendStatus,
  type Deadlines,
  type KeeperEffect,
  type RefusalReason,
  type TerminationReason,
} from '@leasehold/keys-core';
import type { Log, ProgramConfig } from '../config.ts';
import { NOT_WARM, type BackendSnapshot, type ExtendRequest } from '../warden/protocol.ts';
import type { ReportBody, ReportLine } from './drone-session.ts';
import { addressOf, type Ports } from './ports.ts';
import { probedOf, untilClaimTaken, untilReady, untilTaken, type ReadListeners } from './probe.ts';
import { RunTrace } from './run-trace.ts';
import {
  askAtMs,
  hasOutlivedKey,
  killAtMs,
  StartFailed,
  WardenLost,
  type WardenLink,
} from './warden-link.ts';
import {
  claimOf,
  notesOf,
  startRequestOf,
  type BackendNotes,
  type LaunchPlan,
  type PreparedWork,
  type RunIdentity,
  type Work,
} from './work.ts';

/** Ends that people want to understand: what was written last is reported with them. */
const UNASKED: ReadonlySet<TerminationReason> = new Set(['exited', 'startup_timeout', 'internal']);

/** What the runs of backends need of the agent that has them. */
export interface RunContext {
  /** @throws {WardenLost} while none exists. */
  readonly warden: () => WardenLink;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly log: Log;
  readonly host: string;
  readonly ports: Ports;
  readonly listeners: ReadListeners;
  /** A program as it can be started now. @throws {WardenLost} while no warden exists. */
  readonly workOf: (program: ProgramConfig) => Work;
  /** The last lines that a backend wrote; undefined without any. */
  readonly lastOutput: (backendId: string) => Promise<string | undefined>;
  /** The last report of a backend is answered: nothing is left to do for it. */
  readonly onFinished: (backendId: string) => void;
}

export interface StopRequest {
  readonly mode: 'soft' | 'hard';
  readonly reason: TerminationReason;
  /** The key itself is the reason: only the time from soft to hard is left. */
  readonly isKeyLost: boolean;
}

/** What is known of an end besides its reason. */
type BackendEnd = Pick<ReportBody, 'exitCode' | 'detail' | 'hasOutlivedKey'>;

/** Why a backend ends, as its warden knows it. */
export function endReasonOf({ stopReason }: BackendSnapshot): TerminationReason {
  // A cast: the warden has it from an agent, or from the few of its own.
  return (stopReason ?? 'exited') as TerminationReason;
}

type Stage = 'loading' | 'preparing' | 'launching' | 'running' | 'over';

/** See the protocol at the top of this file. */
export class BackendRun {
  readonly identity: RunIdentity;
  readonly reports: ReportLine;
  readonly trace: RunTrace;
  /** When this agent began with it. */
  readonly begunAtMs: number;
  readonly #context: RunContext;
  readonly #keeper: LeaseKeeper;
  #stage: Stage = 'loading';
  #plan: LaunchPlan | undefined;
  readonly #preparing = new AbortController();
  #notes: BackendNotes | undefined;
  #seenWhileLaunching: BackendSnapshot | undefined;
  #stopRequest: StopRequest | undefined;
  /** Ends when the launch has succeeded or failed. */
  #launched: Promise<void> = Promise.resolve();
  /** Ends when the warden has answered the newest request. */
  #stopAnswered: Promise<unknown> = Promise.resolve();
  #reportedStatus: BackendStatus = 'scheduled';
  #isAbandoned = false;
  /** Of its first process, as the warden has reported it. */
  #pid = 0;
  /** What this agent has found wrong with it; the warden's report of its end does not have it. */
  #problem: string | undefined;
  #likelyCauseOfCrash: string | undefined;

  private constructor(
    identity: RunIdentity,
    context: RunContext,
    of: { reports: ReportLine; deadlines: Deadlines; action?: SpawnAction },
  ) {
    this.identity = identity;
    this.reports = of.reports;
    this.trace = new RunTrace(identity, of.action);
    this.#context = context;
    this.begunAtMs = context.nowMs();
    this.#keeper = new LeaseKeeper({
      ladder: identity.ladder,
      deadlines: of.deadlines,
      // This agent has not renewed it yet, whether it is a new grant or an adopted one.
      isConfirmed: false,
      nowMs: context.nowMs(),
      random: context.random,
    });
  }

  /** A backend that a controller has just asked for. */
  static spawned(
    identity: RunIdentity,
    context: RunContext,
    of: { reports: ReportLine; action: SpawnAction; plan: LaunchPlan },
  ): BackendRun {
    const { deadlines } = of.action;
    const run = new BackendRun(identity, context, { ...of, deadlines });
    run.#plan = of.plan;
    const { program } = identity;
    // Of a warm process nothing is loaded, and its caller waits for each step.
    if (of.plan.warm !== undefined) return run;
    run.#report('loading', program.kind === 'container' ? { image: program.image } : {});
    return run;
  }

  /** A backend that the warden has from an earlier agent. */
  static adopted(
    identity: RunIdentity,
    context: RunContext,
    of: { reports: ReportLine; notes: BackendNotes; snapshot: BackendSnapshot },
  ): BackendRun {
    const { softAtMs, hardAtMs } = of.snapshot;
    const { softAfterMs, renewAfterMs } = identity.ladder;
    const deadlines = {
      renewAtMs: softAtMs - (softAfterMs - renewAfterMs),
      softTerminateAtMs: softAtMs,
      hardTerminateAtMs: hardAtMs,
    };
    const run = new BackendRun(identity, context, { ...of, deadlines });
    run.#notes = of.notes;
    run.#stage = 'running';
    context.ports.adopt(of.notes.port);
    run.observe(of.snapshot);
    if (of.snapshot.state !== 'running') return run;
    const address = addressOf(context.host, of.notes.port);
    if (of.notes.isReady) run.#report('ready', { address });
    run.#watchPort(of.notes);
    return run;
  }

  get isOver(): boolean {
    return this.#stage === 'over';
  }

  /** Whether its launch is not complete yet, which only this agent can complete. */
  get isStarting(): boolean {
    return this.#isUnlaunched || this.#stage === 'launching';
  }

  /** Whether somebody waits until it answers. */
  get isBecomingReady(): boolean {
    if (this.isStarting) return true;
    return this.#isWanted() && this.#notes?.isReady === false;
  }

  /** Nothing has been asked of the warden yet. */
  get #isUnlaunched(): boolean {
    return this.#stage === 'loading' || this.#stage === 'preparing';
  }

  /** How it can be measured; undefined while it has no process. */
  get measured(): { backendId: string; pid: number; isContainer: boolean } | undefined {
    if (this.#stage !== 'running' || this.#pid === 0) return undefined;
    const isContainer = this.#notes?.isContainer === true;
    return { backendId: this.identity.backendId, pid: this.#pid, isContainer };
  }

  /** Whether the warden is asked if it is alive, before its key is renewed. */
  get isLaunched(): boolean {
    return this.#stage === 'running';
  }

  /** Whether its key must be renewed, given which backends the warden says are alive. */
  isWorthRenewing(aliveIds: ReadonlySet<string>): boolean {
    return !this.isLaunched || aliveIds.has(this.identity.backendId);
  }

  /** When the warden is asked about it, and when the warden is killed if no answer came. */
  get watch(): { readonly askAtMs: number; readonly killAtMs: number } | undefined {
    if (this.#isUnlaunched || this.#stage === 'over') return undefined;
    const { hardTerminateAtMs } = this.#keeper.deadlines;
    const { ladder } = this.identity;
    const at = [hardTerminateAtMs, ladder] as const;
    return { askAtMs: askAtMs(...at), killAtMs: killAtMs(...at) };
  }

  /** Its deadlines, as a request to the warden. */
  extension(): ExtendRequest {
    const { softTerminateAtMs: softAtMs, hardTerminateAtMs: hardAtMs } = this.#keeper.deadlines;
    const { backendId, leaseId } = this.identity;
    return { backendId, leaseId, softAtMs, hardAtMs };
  }

  /** Does what is due; returns the id of a renewal that is to be sent now. */
  tick(nowMs: number): number | undefined {
    const requestId = this.#carryOut(this.#keeper.tick(nowMs));
    const notes = this.#notes;
    if (notes === undefined || this.#stage !== 'running') return requestId;
    if (notes.lifetimeEndsAtMs !== null && nowMs >= notes.lifetimeEndsAtMs) {
      this.stop({ mode: 'soft', reason: 'lifetime', isKeyLost: false });
    }
    if (!notes.isReady && nowMs >= notes.startupEndsAtMs) {
      this.stop({ mode: 'soft', reason: 'startup_timeout', isKeyLost: false });
    }
    return requestId;
  }

  /** Returns whether the deadlines moved, so that the warden must be told. */
  renewed(requestId: number, deadlines: Deadlines): boolean {
    const before = this.#keeper.deadlines;
    this.#carryOut(this.#keeper.renewed(requestId, deadlines, this.#context.nowMs()));
    const isHeld = !this.#keeper.isUnconfirmed && !this.#keeper.isStopping;
    if (isHeld && this.#isIn('loading') && this.#plan !== undefined) {
      this.#stage = 'preparing';
      this.#launched = this.#launch(this.#plan);
    }
    return this.#stage === 'running' && this.#keeper.deadlines !== before;
  }

  refused(requestId: number, reason: RefusalReason): void {
    if (this.#stage !== 'over') {
      const { backendId } = this.identity;
      this.#context.log.warn({ backendId, reason }, 'the renewal of a key was refused');
    }
    this.#carryOut(this.#keeper.refused(requestId, reason, this.#context.nowMs()));
  }

  failed(requestId: number): void {
    this.#keeper.failed(requestId, this.#context.nowMs());
  }

  /** Asks for its end. A backend that was not started never will be. */
  stop(request: StopRequest): void {
    if (this.#stage === 'over') return;
    if (this.#isUnlaunched) {
      this.#preparing.abort();
      this.#end(request.reason, {});
      return;
    }
    const isNew =
      this.#stopRequest === undefined ||
      (request.mode === 'hard' && this.#stopRequest.mode === 'soft') ||
      (request.isKeyLost && !this.#stopRequest.isKeyLost);
    if (!isNew) return;
    this.#stopRequest = { ...request, reason: this.#stopRequest?.reason ?? request.reason };
    if (this.#stage === 'running') this.#sendStop(request);
  }

  /**
   * As `stop`. Resolves when the warden has received it, or nothing is left to stop: until then the
   * request would be lost with this agent.
   * @throws {WardenLost} when that cannot be known.
   */
  async stopAcknowledged(request: StopRequest): Promise<void> {
    this.stop(request);
    await this.#launched;
    if (this.#stage === 'running') await this.#stopAnswered;
    if (this.#isAbandoned) throw new WardenLost('the warden is gone');
  }

  /** Takes a report of the warden about it. */
  observe(snapshot: BackendSnapshot): void {
    if (this.#stage === 'launching') {
      this.#seenWhileLaunching = snapshot;
      return;
    }
    if (this.#stage !== 'running') return;
    this.#pid = snapshot.pid;
    const reason = endReasonOf(snapshot);
    if (snapshot.state === 'gone') {
      const { exitCode } = snapshot;
      const detail = this.#problem ?? snapshot.detail ?? this.#causeOfCrash(reason, exitCode);
      this.#end(reason, {
        ...(exitCode === null ? {} : { exitCode }),
        ...(detail === undefined ? {} : { detail }),
        ...(this.#hasOutlivedKey(snapshot) && { hasOutlivedKey: true }),
      });
      return;
    }
    if (snapshot.isKilled) this.#report('hard_terminating', { reason });
    else if (snapshot.state === 'stopping') this.#report('terminating', { reason });
  }

  #hasOutlivedKey(snapshot: BackendSnapshot): boolean {
    const { softTerminateAtMs } = this.#keeper.deadlines;
    return hasOutlivedKey(snapshot, softTerminateAtMs, this.identity.ladder);
  }

  #causeOfCrash(reason: TerminationReason, exitCode: number | null): string | undefined {
    const hasCrashed = reason === 'exited' && exitCode !== 0 && this.#notes?.isReady !== true;
    return hasCrashed ? this.#likelyCauseOfCrash : undefined;
  }

  /** Its warden is gone, and its processes with it: nothing more is sent or done. Its key runs out. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#stage = 'over';
    this.trace.ended('warden_lost');
    this.reports.close();
    this.#giveBackPort();
  }

  /** Its address was for as long as its grant at most. */
  #giveBackPort(): void {
    if (this.#notes === undefined) return;
    this.#context.ports.giveBack(this.#notes.port, this.identity.ladder.ttlMs);
  }

  #carryOut(effects: readonly KeeperEffect[]): number | undefined {
    let requestId: number | undefined;
    for (const effect of effects) {
      if (effect.kind === 'renew') requestId = effect.requestId;
      else {
        const mode = effect.kind === 'soft_terminate' ? 'soft' : 'hard';
        this.stop({ mode, reason: effect.reason, isKeyLost: true });
      }
    }
    return requestId;
  }

  #sendStop(request: StopRequest): void {
    const { backendId } = this.identity;
    const { mode, reason, isKeyLost } = request;
    this.trace.stopping(request);
    const warden = this.#context.warden();
    this.#stopAnswered = warden.stop({ backendId, mode, reason, isKeyLost });
    this.#stopAnswered.catch((error: unknown) => {
      // The warden stops it at its deadlines whether or not it received this.
      this.#context.log.warn(
        { err: error, backendId },
        'the warden could not be asked to stop a backend',
      );
    });
  }

  async #launch(plan: LaunchPlan): Promise<void> {
    try {
      // A process that is warm needs nothing.
      const work = plan.warm === undefined ? await this.#prepare() : undefined;
      if (!this.#isIn('preparing')) return;
      this.#stage = 'launching';
      await this.#start(plan, work);
    } catch (error) {
      // When the warden is lost, the agent abandons this backend.
      if (error instanceof WardenLost || !this.isStarting) return;
      if (!(error instanceof StartFailed)) throw error;
      const reason = error.message === 'too_late' ? 'key_expired' : 'internal';
      this.#end(reason, { detail: error.message });
    }
  }

  #prepare(): Promise<PreparedWork> {
    return this.#context.workOf(this.identity.program).prepare(this.#preparing.signal);
  }

  async #start(plan: LaunchPlan, work: PreparedWork | undefined): Promise<void> {
    const keyId = await keyIdOf(plan.key);
    if (!this.#isIn('launching')) return;
    const claimed = await this.#claim(plan, keyId);
    const snapshot =
      claimed ?? (await this.#startCold(plan, work ?? (await this.#prepare()), keyId));
    const notes = this.#notes;
    if (snapshot === undefined || notes === undefined || !this.#isIn('launching')) return;
    this.#stage = 'running';
    const detail = claimed === undefined ? `port ${String(notes.port)}` : 'by a warm process';
    this.#report('waiting', { detail });
    this.trace.started();
    // Catches up on what was requested, answered or seen during the launch.
    if (this.#stopRequest !== undefined) this.#sendStop(this.#stopRequest);
    this.observe(this.#seenWhileLaunching ?? snapshot);
    this.#watchPort(notes);
    await this.#context.warden().extend([this.extension()]);
  }

  /** Undefined when it has no warm process, or that has ended: then nothing has been started. */
  async #claim(plan: LaunchPlan, keyId: string): Promise<BackendSnapshot | undefined> {
    const { warm } = plan;
    if (warm === undefined || warm.hasEnded) return undefined;
    const { port, claimFile, warmId } = warm;
    this.#notes = notesOf(this.identity, { plan, port, claimFile, nowMs: this.#context.nowMs() });
    const fields = claimOf(warmId, { identity: this.identity, plan, keyId });
    const request = { fields, notes: this.#notes, deadlines: this.extension() };
    try {
      const snapshot = await this.#context.warden().start(startRequestOf(this.identity, request));
      warm.claimed();
      return snapshot;
    } catch (error) {
      // Its port is not this backend's.
      this.#notes = undefined;
      if (!(error instanceof StartFailed) || error.message !== NOT_WARM) throw error;
      return undefined;
    }
  }

  /** Undefined when it was stopped meanwhile. */
  async #startCold(
    plan: LaunchPlan,
    work: PreparedWork,
    keyId: string,
  ): Promise<BackendSnapshot | undefined> {
    const { ports, nowMs } = this.#context;
    const { port: wanted } = this.identity.program;
    const port = await ports.take(wanted);
    if (!this.#isIn('launching')) {
      if (port !== undefined) ports.giveBack(port, 0);
      return undefined;
    }
    if (port === undefined) {
      throw new StartFailed(wanted === 'auto' ? 'no free port' : `port ${String(wanted)} is taken`);
    }
    const notes = notesOf(this.identity, { plan, port, nowMs: nowMs() });
    this.#notes = notes;
    this.#likelyCauseOfCrash = work.likelyProblem;
    this.#report('starting', work.imageId === null ? {} : { detail: `image ${work.imageId}` });
    const fields = work.fieldsOf({ identity: this.identity, plan, keyId, port });
    const request = { fields, notes, deadlines: this.extension() };
    return this.#context.warden().start(startRequestOf(this.identity, request));
  }

  /** What goes wrong there ends this backend, and no other. */
  #watchPort(notes: BackendNotes): void {
    this.#probe(notes).catch((error: unknown) => {
      // Without its warden it is abandoned.
      if (!(error instanceof WardenLost)) this.giveUpOn(`it cannot be probed: ${String(error)}`);
    });
  }

  /** Stops it for something that is wrong with it, and not with its program. */
  giveUpOn(problem: string, mode: StopRequest['mode'] = 'soft'): void {
    this.#problem ??= problem;
    this.#context.log.warn({ backendId: this.identity.backendId }, problem);
    this.stop({ mode, reason: 'internal', isKeyLost: false });
  }

  /** Probes until it answers or is stopped, then watches who listens. The tick ends a start that takes too long. */
  async #probe(notes: BackendNotes): Promise<void> {
    const { port, inside = null } = notes;
    const { host, listeners } = this.#context;
    const [pid, isWanted] = [() => this.#pid, () => this.#isWanted()];
    const at = { host, port, inside, pid, isWanted, listeners };
    const probed = probedOf(this.identity.program.readiness, at);
    if (!notes.isReady && notes.claimFile !== undefined) {
      await untilClaimTaken(probed, notes.claimFile, (problem) => (this.#problem = problem));
    }
    let end = notes.isReady ? 'ready' : await untilReady(probed);
    if (end === 'ready') {
      if (!notes.isReady) await this.#becomeReady(notes);
      end = await untilTaken(probed);
    }
    if (end === 'stranger') this.giveUpOn(`another process listens on its port ${String(port)}`);
  }

  async #becomeReady(notes: BackendNotes): Promise<void> {
    this.#notes = { ...notes, isReady: true };
    this.#report('ready', { address: addressOf(this.#context.host, notes.port) });
    await this.#context
      .warden()
      .note(this.identity.backendId, this.#notes)
      .catch(() => undefined); // the next agent then probes again
  }

  /** Checked again after every wait: the stage may have changed meanwhile. */
  #isIn(stage: Stage): boolean {
    return this.#stage === stage;
  }

  #isWanted(): boolean {
    return this.#isIn('running') && this.#stopRequest === undefined;
  }

  #end(reason: TerminationReason, of: BackendEnd): void {
    const before = this.#stage;
    this.#stage = 'over';
    this.#giveBackPort();
    this.#plan?.warm?.discard();
    const { log, lastOutput } = this.#context;
    const { backendId } = this.identity;
    if (before !== 'running' || of.detail !== undefined) {
      const what = before === 'running' ? 'a backend ended' : 'a backend was not started';
      log.warn({ backendId, reason, ...of }, what);
    }
    const send = async (): Promise<void> => {
      const output = UNASKED.has(reason) ? await lastOutput(backendId) : undefined;
      await this.reports.send({ status: 'terminated', reason, ...of, ...(output && { output }) });
    };
    void this.trace.within(send).then(() => {
      if (!this.#isAbandoned) this.#context.onFinished(backendId);
    });
    this.trace.ended(before === 'running' ? undefined : reason);
  }

  /** States only move forward: a state behind the last report is not sent. */
  #report(status: BackendStatus, of: Omit<ReportBody, 'status'> = {}): void {
    if (statusRank(status) <= statusRank(this.#reportedStatus)) return;
    this.#reportedStatus = status;
    void this.trace.within(() => this.reports.send({ status, ...of }));
  }
}
