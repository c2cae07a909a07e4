/**
 * One backend, from the spawn action to the answered report that it is over.
 *
 *   loading ──first renewal answered──▶ launching ──warden started it──▶ running ──gone──▶ over
 *      │  refused, expired or stopped        │ the warden refused                            ▲
 *      └─────────────────────────────────────┴───────────────────────────────────────────────┘
 *
 * Its key is renewed in every stage, `over` included, until the report `terminated` is answered: it
 * is that answer which frees the key. No process runs before the first renewal was answered, and
 * `over` is entered only when none was started or the warden has seen every process gone.
 */
import {
  LeaseKeeper,
  statusRank,
  type BackendStatus,
  type Deadlines,
  type KeeperEffect,
  type Ladder,
  type RefusalReason,
  type TerminationReason,
} from '@leasehold/keys-core';
import { setTimeout as pause } from 'node:timers/promises';
import type { ProgramConfig } from '../config.ts';
import type { BackendSnapshot } from '../warden/protocol.ts';
import { backendEnv } from './backend-env.ts';
import type { Log } from './log.ts';
import type { BackendNotes } from './notes.ts';
import type { Ports } from './ports.ts';
import { isAnswering } from './readiness.ts';
import type { ReportLine } from './report-line.ts';
import { StartFailed, WardenLost, type WardenLink } from './warden-link.ts';

/** What runs need of the agent that has them. */
export interface RunContext {
  readonly warden: () => WardenLink;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly log: Log;
  readonly host: string;
  readonly ports: Ports;
  readonly inheritedEnv: Readonly<Record<string, string | undefined>>;
  /** Its last report is answered: nothing is left to do for it. */
  readonly onFinished: (run: BackendRun) => void;
}

/** What a backend is, in every stage. */
export interface RunIdentity {
  readonly backendId: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly programName: string;
  readonly program: ProgramConfig;
  readonly ladder: Ladder;
}

/** What only a backend that is yet to be started has. */
export interface LaunchPlan {
  readonly keyName: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly lifetimeLimitMs: number | null;
}

export interface StopWish {
  readonly mode: 'soft' | 'hard';
  readonly reason: TerminationReason;
  readonly isKeyLost: boolean;
}

export class BackendRun {
  readonly identity: RunIdentity;
  readonly reports: ReportLine;
  readonly #context: RunContext;
  readonly #keeper: LeaseKeeper;
  #stage: 'loading' | 'launching' | 'running' | 'over' = 'loading';
  #plan: LaunchPlan | undefined;
  #notes: BackendNotes | undefined;
  #seenWhileLaunching: BackendSnapshot | undefined;
  #wish: StopWish | undefined;
  #reportedStatus: BackendStatus = 'scheduled';
  #isAbandoned = false;

  private constructor(
    identity: RunIdentity,
    context: RunContext,
    of: { reports: ReportLine; deadlines: Deadlines },
  ) {
    this.identity = identity;
    this.reports = of.reports;
    this.#context = context;
    this.#keeper = new LeaseKeeper({
      ladder: identity.ladder,
      deadlines: of.deadlines,
      // Nobody of this agent has asked yet: neither for a new grant nor for an adopted one.
      isConfirmed: false,
      nowMs: context.nowMs(),
      random: context.random,
    });
  }

  /** A backend that a controller has just asked for. */
  static spawned(
    identity: RunIdentity,
    context: RunContext,
    of: { reports: ReportLine; deadlines: Deadlines; plan: LaunchPlan },
  ): BackendRun {
    const run = new BackendRun(identity, context, of);
    run.#plan = of.plan;
    run.#report('loading');
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
    if (of.notes.isReady) run.#report('ready', { address: run.#address(of.notes.port) });
    else run.#report('waiting');
    run.observe(of.snapshot);
    if (run.#stage === 'running' && !of.notes.isReady) void run.#probe(of.notes);
    return run;
  }

  get isOver(): boolean {
    return this.#stage === 'over';
  }

  /** Whether processes of it may be left: from the moment that the warden is asked to start it. */
  get mayHaveProcesses(): boolean {
    return this.#stage === 'launching' || this.#stage === 'running';
  }

  /** Whether its key must be renewed, given which backends the warden says are alive. */
  isWorthRenewing(aliveIds: ReadonlySet<string>): boolean {
    return this.#stage !== 'running' || aliveIds.has(this.identity.backendId);
  }

  /** The deadlines to hold the warden to. */
  get deadlines(): Deadlines {
    return this.#keeper.deadlines;
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
    if (
      this.#stage === 'loading' &&
      this.#plan !== undefined &&
      !this.#keeper.isUnconfirmed &&
      !this.#keeper.isStopping
    ) {
      this.#stage = 'launching';
      void this.#launch(this.#plan);
    }
    return this.#stage === 'running' && this.#keeper.deadlines !== before;
  }

  refused(requestId: number, reason: RefusalReason): void {
    if (this.#stage !== 'over') {
      this.#context.log.warn(
        { backendId: this.identity.backendId, reason },
        'the renewal of a key was refused',
      );
    }
    this.#carryOut(this.#keeper.refused(requestId, reason, this.#context.nowMs()));
  }

  failed(requestId: number): void {
    this.#keeper.failed(requestId, this.#context.nowMs());
  }

  /** Asks for an end. What was not started never will be. */
  stop(wish: StopWish): void {
    if (this.#stage === 'over') return;
    if (this.#stage === 'loading') {
      this.#end(wish.reason, {});
      return;
    }
    const isNew =
      this.#wish === undefined ||
      (wish.mode === 'hard' && this.#wish.mode === 'soft') ||
      (wish.isKeyLost && !this.#wish.isKeyLost);
    if (!isNew) return;
    this.#wish = { ...wish, reason: this.#wish?.reason ?? wish.reason };
    if (this.#stage === 'running') this.#sendWish(wish);
  }

  /** What the warden says of it. */
  observe(snapshot: BackendSnapshot): void {
    if (this.#stage === 'launching') {
      this.#seenWhileLaunching = snapshot;
      return;
    }
    if (this.#stage !== 'running') return;
    const reason = (snapshot.stopReason ?? 'exited') as TerminationReason;
    if (snapshot.state === 'gone') {
      const exit = snapshot.exitCode === null ? {} : { exitCode: snapshot.exitCode };
      this.#end(reason, exit);
      return;
    }
    if (snapshot.isKilled) this.#report('hard_terminating', { reason });
    else if (snapshot.state === 'stopping') this.#report('terminating', { reason });
  }

  /** Its warden is gone, and its processes with it: nothing more is said or done. Its key runs out. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#stage = 'over';
    this.reports.close();
    if (this.#notes !== undefined) this.#context.ports.giveBack(this.#notes.port);
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

  #sendWish(wish: StopWish): void {
    const { backendId } = this.identity;
    this.#context
      .warden()
      .stop({ backendId, mode: wish.mode, reason: wish.reason, isKeyLost: wish.isKeyLost })
      .catch((error: unknown) => {
        // The warden stops it at its deadlines whether or not it heard this.
        this.#context.log.warn(
          { err: error, backendId },
          'the warden could not be asked to stop a backend',
        );
      });
  }

  async #launch(plan: LaunchPlan): Promise<void> {
    const { program } = this.identity;
    const port = await this.#context.ports.take(program.port);
    if (this.#isAbandoned) {
      if (port !== undefined) this.#context.ports.giveBack(port);
      return;
    }
    if (port === undefined) {
      this.#end('internal', { detail: 'no free port' });
      return;
    }
    const nowMs = this.#context.nowMs();
    this.#notes = {
      version: 1,
      program: this.identity.programName,
      leaseId: this.identity.leaseId,
      fencingToken: this.identity.fencingToken,
      ladder: this.identity.ladder,
      port,
      lifetimeEndsAtMs: plan.lifetimeLimitMs === null ? null : nowMs + plan.lifetimeLimitMs,
      startupEndsAtMs: nowMs + program.readiness.timeoutMs,
      isReady: false,
    };
    this.#report('starting');
    try {
      const snapshot = await this.#start(plan, this.#notes);
      if (this.#isAbandoned) return;
      this.#stage = 'running';
      this.#report('waiting');
      // Renewals that were answered while it was being launched.
      await this.#context.warden().extend([this.extension()]);
      this.observe(this.#seenWhileLaunching ?? snapshot);
      if (this.#wish !== undefined) this.#sendWish(this.#wish);
      void this.#probe(this.#notes);
    } catch (error) {
      if (this.#isAbandoned || error instanceof WardenLost) return;
      if (!(error instanceof StartFailed)) throw error;
      this.#end(error.message === 'too_late' ? 'key_expired' : 'internal', {
        detail: error.message,
      });
    }
  }

  /** What the warden is told of its deadlines. */
  extension(): { backendId: string; leaseId: string; softAtMs: number; hardAtMs: number } {
    const { softTerminateAtMs: softAtMs, hardTerminateAtMs: hardAtMs } = this.#keeper.deadlines;
    return {
      backendId: this.identity.backendId,
      leaseId: this.identity.leaseId,
      softAtMs,
      hardAtMs,
    };
  }

  #start(plan: LaunchPlan, notes: BackendNotes): Promise<BackendSnapshot> {
    const { backendId, fencingToken, program, ladder } = this.identity;
    return this.#context.warden().start({
      ...this.extension(),
      hardAfterMs: ladder.hardAfterMs,
      softToHardMs: ladder.hardAfterMs - ladder.softAfterMs,
      command: program.command,
      args: [...program.args, ...plan.args],
      env: backendEnv({
        inherited: this.#context.inheritedEnv,
        program: program.env,
        requested: plan.env,
        keyName: plan.keyName,
        fencingToken,
        backendId,
        port: notes.port,
      }),
      cwd: program.cwd,
      stopSignal: program.stopSignal,
      stopGraceMs: program.stopGraceMs,
      meta: notes,
    });
  }

  /** Until it answers, it is stopped, or its time to start is up, which the tick watches. */
  async #probe(notes: BackendNotes): Promise<void> {
    const { readiness } = this.identity.program;
    while (this.#stage === 'running' && this.#wish === undefined) {
      if (await isAnswering(readiness, this.#context.host, notes.port)) break;
      await pause(readiness.intervalMs);
    }
    if (!this.#isRunningUnstopped()) return;
    this.#notes = { ...notes, isReady: true };
    this.#report('ready', { address: this.#address(notes.port) });
    await this.#context
      .warden()
      .note(this.identity.backendId, this.#notes)
      .catch(() => undefined); // the next agent then probes again
  }

  #isRunningUnstopped(): boolean {
    return this.#stage === 'running' && this.#wish === undefined;
  }

  #address(port: number): string {
    const { host } = this.#context;
    return `${host.includes(':') ? `[${host}]` : host}:${String(port)}`;
  }

  #end(reason: TerminationReason, of: { exitCode?: number; detail?: string }): void {
    this.#stage = 'over';
    if (this.#notes !== undefined) this.#context.ports.giveBack(this.#notes.port);
    void this.reports.send({ status: 'terminated', reason, ...of }).then(() => {
      if (!this.#isAbandoned) this.#context.onFinished(this);
    });
  }

  /** States only move forward: what is behind the last report is not said. */
  #report(status: BackendStatus, of: { reason?: TerminationReason; address?: string } = {}): void {
    if (statusRank(status) <= statusRank(this.#reportedStatus)) return;
    this.#reportedStatus = status;
    void this.reports.send({ status, ...of });
  }
}
