/**
 * The agent of a drone: takes what controllers ask for, has the warden run it, renews its keys and
 * reports what becomes of it.
 *
 * At most once: a backend id is on the disk before anything is done about it, and what is asked
 * again is only acknowledged. A spawn that cannot be carried out is refused in words, which frees
 * its key. An agent that ends without stopping its backends leaves them to the warden, which ends
 * them at their deadlines unless the next agent adopts and renews them.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { SpawnAction, TerminateAction } from '@leasehold/api';
import { isFirstGrantPlausible, toleratedClockRatio, type Ladder } from '@leasehold/keys-core';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import type { DroneConfig } from '../config.ts';
import type { BackendSnapshot } from '../warden/protocol.ts';
import { wishProblem } from './backend-env.ts';
import { BackendRun, type RunContext } from './backend-run.ts';
import { SessionSuperseded, type ControllerLink } from './controller-link.ts';
import { DroneSession } from './drone-session.ts';
import { KeyRenewals } from './key-renewals.ts';
import type { Log } from './log.ts';
import { readNotes } from './notes.ts';
import { Ports } from './ports.ts';
import { ReportLine, type ReportContext } from './report-line.ts';
import { SeenBackends, type BackendMark } from './seen-backends.ts';
import { WardenLost, type WardenLink, type WardenListener } from './warden-link.ts';

/** Why an agent ended. */
export type AgentEnd = 'stopped' | 'left' | 'replaced';

export interface AgentOptions {
  readonly config: DroneConfig;
  readonly clock: TickingClock;
  readonly log: Log;
  readonly random: () => number;
  readonly version: string;
  readonly link: ControllerLink;
  readonly supplyWarden: (listener: WardenListener) => Promise<WardenLink>;
  readonly inheritedEnv: Readonly<Record<string, string | undefined>>;
}

/** What stopping may take beyond the longest grace of a program. */
const STOP_ALLOWANCE_MS = 2_000;
/** How long the last reports are waited for once everything is gone. */
const LAST_REPORTS_MS_MAX = 2_000;
const REATTACH_MS = 500;
const POLL_MS = 50;

export class DroneAgent {
  readonly ended: Promise<AgentEnd>;
  readonly #options: AgentOptions;
  readonly #session: DroneSession;
  readonly #renewals: KeyRenewals;
  readonly #runs = new Map<string, BackendRun>();
  readonly #seen: SeenBackends;
  readonly #runContext: RunContext;
  readonly #reportContext: ReportContext;
  #warden: WardenLink | undefined;
  #stopTicking: () => void = () => undefined;
  #isStopping = false;
  #isLetGo = false;
  #announcedClockRatio: number | undefined;
  #end!: (how: AgentEnd) => void;

  private constructor(options: AgentOptions) {
    const { config, clock, link, log, random } = options;
    this.#options = options;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#seen = SeenBackends.open(config.stateDir);
    this.#session = new DroneSession({
      link,
      clock,
      log,
      backendCount: () => this.#runs.size,
      onAction: (action) => void this.#act(action),
      onOpened: () => undefined,
      onReplaced: () => {
        log.error(
          { droneId: config.droneId },
          'another agent uses the id of this drone; leaving it to that one',
        );
        void this.#letGo('replaced');
      },
    });
    const nowMs = (): number => clock.nowMs();
    const warden = (): WardenLink => this.#attachedWarden();
    this.#renewals = new KeyRenewals({ link, warden, nowMs, log, droneId: config.droneId });
    this.#runContext = {
      warden,
      nowMs,
      random,
      log,
      host: config.host,
      ports: new Ports({ host: config.host, ...config.ports }),
      inheritedEnv: options.inheritedEnv,
      onFinished: (run) => {
        this.#forget(run.identity.backendId);
      },
    };
    this.#reportContext = {
      link,
      session: this.#session,
      log,
      random,
      onKill: (backendId) => {
        this.#runs.get(backendId)?.stop({ mode: 'hard', reason: 'revoked', isKeyLost: true });
      },
    };
  }

  /**
   * Attaches to the warden, adopts what it runs, and opens a session.
   * @throws {WardenLost} when no warden comes up.
   */
  static async start(options: AgentOptions): Promise<DroneAgent> {
    const agent = new DroneAgent(options);
    await agent.#attach();
    agent.#stopTicking = options.clock.onTick((nowMs) => {
      agent.#renewals.tick(agent.#runs.values(), nowMs);
    });
    return agent;
  }

  get backendCount(): number {
    return this.#runs.size;
  }

  /** Stops every backend softly, bounded by the longest grace, and the warden with them. */
  async stop(): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    const runs = [...this.#runs.values()];
    for (const run of runs) run.stop({ mode: 'soft', reason: 'external', isKeyLost: false });
    const graceMs = Math.max(0, ...runs.map((run) => run.identity.program.stopGraceMs));
    await this.#until(() => runs.every((run) => run.isOver), graceMs + STOP_ALLOWANCE_MS);
    await this.#until(() => this.#runs.size === 0, LAST_REPORTS_MS_MAX);
    await this.#warden?.shutdown().catch((error: unknown) => {
      this.#options.log.warn({ err: error }, 'the warden could not be told to end');
    });
    await this.#letGo('stopped');
  }

  /** Ends, and leaves the backends to the warden for the next agent. */
  leave(): Promise<void> {
    return this.#letGo('left');
  }

  async #letGo(how: AgentEnd): Promise<void> {
    if (this.#isLetGo) return;
    this.#isLetGo = true;
    this.#isStopping = true;
    this.#stopTicking();
    this.#session.close();
    for (const run of this.#runs.values()) run.reports.close();
    this.#warden?.close();
    await this.#options.link.close();
    this.#seen.close();
    this.#end(how);
  }

  #attachedWarden(): WardenLink {
    if (this.#warden === undefined) throw new WardenLost('there is no warden');
    return this.#warden;
  }

  async #attach(): Promise<void> {
    const { config, log, version } = this.#options;
    const warden = await this.#options.supplyWarden({
      changed: (snapshot) => {
        this.#observe(snapshot);
      },
      superseded: () => {
        log.error({}, 'a newer agent commands the warden; this one ends');
        void this.#letGo('replaced');
      },
      lost: () => void this.#recover(),
    });
    this.#warden = warden;
    const { clockId, pid, isolation, isolationDetail } = warden.identity;
    log.info({ clockId, wardenPid: pid, isolation, isolationDetail }, 'attached to the warden');
    await this.#adopt(warden);
    this.#session.open({
      droneId: config.droneId,
      clockId,
      datacenter: config.datacenter,
      programs: Object.entries(config.programs).map(([name, { allowArgs, allowEnv }]) => ({
        name,
        allowArgs,
        allowEnv,
      })),
      version,
      capacity: config.capacity,
    });
  }

  /** The warden is dead, and its backends with it. Their keys run out; a new clock begins. */
  async #recover(): Promise<void> {
    if (this.#isStopping) return;
    this.#options.log.error(
      { backends: this.#runs.size },
      'the warden is gone, and its backends with it',
    );
    this.#warden = undefined;
    this.#session.close();
    for (const run of this.#runs.values()) run.abandon();
    this.#runs.clear();
    while (!this.#isStopping) {
      try {
        await this.#attach();
        return;
      } catch (error) {
        this.#options.log.error({ err: error }, 'no warden comes up');
        await pause(REATTACH_MS);
      }
    }
  }

  async #adopt(warden: WardenLink): Promise<void> {
    const snapshots = await warden.list();
    for (const snapshot of snapshots) this.#adoptOne(warden, snapshot);
    const known = new Set(snapshots.map((snapshot) => snapshot.backendId));
    for (const backendId of this.#seen.unfinished(warden.identity.clockId)) {
      // This warden has never started it, and nobody else will.
      if (!known.has(backendId)) this.#sayOver(backendId, 'the agent ended before it was started');
    }
  }

  #adoptOne(warden: WardenLink, snapshot: BackendSnapshot): void {
    const { backendId } = snapshot;
    const notes = readNotes(snapshot.meta);
    const program = notes === undefined ? undefined : this.#options.config.programs[notes.program];
    if (notes === undefined || program === undefined) {
      this.#options.log.warn(
        { backendId },
        'cannot adopt a backend whose program is not offered any more',
      );
      if (snapshot.state === 'gone') this.#observe(snapshot);
      else {
        void warden
          .stop({ backendId, mode: 'soft', reason: 'internal', isKeyLost: true })
          .catch(() => undefined);
      }
      return;
    }
    const { leaseId, fencingToken, ladder } = notes;
    const identity = {
      backendId,
      leaseId,
      fencingToken,
      ladder,
      program,
      programName: notes.program,
    };
    const reports = new ReportLine(backendId, this.#reportContext);
    this.#runs.set(
      backendId,
      BackendRun.adopted(identity, this.#runContext, { reports, notes, snapshot }),
    );
    this.#options.log.info(
      { backendId, pid: snapshot.pid, state: snapshot.state },
      'adopted a backend',
    );
  }

  #observe(snapshot: BackendSnapshot): void {
    const run = this.#runs.get(snapshot.backendId);
    if (run !== undefined) run.observe(snapshot);
    else if (snapshot.state === 'gone') {
      this.#sayOver(snapshot.backendId, 'it could not be adopted');
    }
  }

  #sayOver(backendId: string, detail: string): void {
    const line = new ReportLine(backendId, this.#reportContext);
    void line.send({ status: 'terminated', reason: 'internal', detail }).then(() => {
      this.#forget(backendId);
    });
  }

  #forget(backendId: string): void {
    this.#runs.delete(backendId);
    const warden = this.#warden;
    if (warden === undefined || this.#isLetGo) return;
    this.#mark(backendId, 'done');
    void warden.forget(backendId).catch(() => undefined);
  }

  async #act(action: SpawnAction | TerminateAction): Promise<void> {
    const { log } = this.#options;
    try {
      if (action.kind === 'spawn') await this.#spawn(action);
      else await this.#terminate(action);
      await this.#acknowledge(action.actionId);
    } catch (error) {
      // Not acknowledged, so it comes again.
      log.error(
        { err: error, actionId: action.actionId, backendId: action.backendId },
        'an action failed',
      );
    }
  }

  async #spawn(action: SpawnAction): Promise<void> {
    const { backendId, leaseId, fencingToken, ladder, deadlines } = action;
    const seen = this.#seen.get(backendId);
    if (seen !== undefined && seen.mark !== 'never') return;
    const program = this.#options.config.programs[action.program];
    const problem = seen === undefined ? this.#spawnProblem(action) : 'it was never to be started';
    if (problem !== undefined || program === undefined) {
      this.#mark(backendId, 'never');
      this.#options.log.warn(
        { backendId, program: action.program, problem },
        'refused to start a backend',
      );
      const refusal = {
        status: 'terminated',
        reason: 'internal',
        refused: true,
        detail: problem ?? '',
      } as const;
      await new ReportLine(backendId, this.#reportContext).send(refusal);
      return;
    }
    this.#mark(backendId, 'started');
    const identity = {
      backendId,
      leaseId,
      fencingToken,
      ladder,
      program,
      programName: action.program,
    };
    const plan = {
      keyName: action.key.name,
      args: action.args,
      env: action.env,
      lifetimeLimitMs:
        action.lifetimeLimitSeconds === null ? null : action.lifetimeLimitSeconds * 1_000,
    };
    const reports = new ReportLine(backendId, this.#reportContext);
    this.#announceClockRatio(ladder);
    this.#options.log.info({ backendId, program: action.program }, 'starting a backend');
    this.#runs.set(
      backendId,
      BackendRun.spawned(identity, this.#runContext, { reports, deadlines, plan }),
    );
    // Not at the next tick: the first renewal is what the caller of connect waits for.
    this.#renewals.tick(this.#runs.values(), this.#options.clock.nowMs());
  }

  /** The ladder comes with a grant, so what it bears is known with the first one. */
  #announceClockRatio(ladder: Ladder): void {
    const ratio = toleratedClockRatio(ladder);
    if (ratio === this.#announcedClockRatio) return;
    this.#announcedClockRatio = ratio;
    this.#options.log.info(
      { toleratedClockRatio: Number(ratio.toFixed(3)) },
      'the ratio of clock rates that the ladder bears',
    );
  }

  #spawnProblem(action: SpawnAction): string | undefined {
    const { config, clock } = this.#options;
    const program = config.programs[action.program];
    if (this.#isStopping) return 'the drone is stopping';
    if (action.clockId !== this.#warden?.identity.clockId) {
      return 'its deadlines are of another clock';
    }
    if (!isFirstGrantPlausible(action.deadlines, action.ladder, clock.nowMs())) {
      return 'its deadlines have passed or are of another clock';
    }
    if (program === undefined) return 'the drone does not offer the program';
    if (this.#runs.size >= config.capacity) return 'the drone is full';
    const instanceCount = [...this.#runs.values()].filter(
      (run) => run.identity.programName === action.program,
    ).length;
    if (instanceCount >= (program.resources?.instancesMax ?? Number.POSITIVE_INFINITY)) {
      return 'the program runs often enough';
    }
    return wishProblem(program, action);
  }

  async #terminate(action: TerminateAction): Promise<void> {
    const { backendId, mode, reason } = action;
    const run = this.#runs.get(backendId);
    if (run !== undefined) {
      run.stop({ mode, reason, isKeyLost: false });
      return;
    }
    const seen = this.#seen.get(backendId);
    if (seen === undefined) this.#mark(backendId, 'never');
    // One that an earlier warden had may have left descendants: its key runs out by itself.
    else if (seen.mark === 'started' && seen.clockId !== this.#warden?.identity.clockId) return;
    await new ReportLine(backendId, this.#reportContext).send({ status: 'terminated', reason });
  }

  async #acknowledge(actionId: string): Promise<void> {
    const ref = await this.#session.ref();
    try {
      await this.#options.link.acknowledge({ ...ref, actionId });
    } catch (error) {
      if (error instanceof SessionSuperseded) this.#session.superseded(ref);
      else this.#options.log.debug({ err: error, actionId }, 'an acknowledgement got no answer');
    }
  }

  #mark(backendId: string, mark: BackendMark): void {
    this.#seen.mark({ backendId, mark, clockId: this.#warden?.identity.clockId ?? '' });
  }

  async #until(isSo: () => boolean, limitMs: number): Promise<void> {
    const endsAtMs = this.#options.clock.nowMs() + limitMs;
    while (!isSo() && this.#options.clock.nowMs() < endsAtMs) await pause(POLL_MS);
  }
}
