/**
 * The agent of a drone: takes what controllers ask for, has the warden run it, renews its keys and
 * reports what becomes of it.
 *
 * An agent that ends without stopping its backends leaves them to the warden, which ends them at
 * their deadlines unless the next agent adopts and renews them. When the warden dies its backends
 * die with it: the agent forgets them, their keys run out, and a new warden begins a new clock.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { SpawnAction, TerminateAction } from '@leasehold/api';
import { textProblem, toleratedClockRatio, type Ladder } from '@leasehold/keys-core';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import type { DroneConfig } from '../config.ts';
import { SessionSuperseded, type ControllerLink } from './controller-link.ts';
import { DroneSession } from './drone-session.ts';
import { KeyRenewals } from './key-renewals.ts';
import type { Log } from './log.ts';
import { Ports } from './ports.ts';
import { RunBook } from './run-book.ts';
import { SeenBackends } from './seen-backends.ts';
import { logFolderOf } from '../warden/output-log.ts';
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
  /** The agent's own environment; see what backends get of it in `backend-env.ts`. */
  readonly inheritedEnv: Readonly<Record<string, string | undefined>>;
}

/** What stopping may take beyond the longest grace of a program. */
const STOP_ALLOWANCE_MS = 2_000;
/** How long the last reports are waited for once everything is gone. */
const LAST_REPORTS_MS_MAX = 2_000;
const REATTACH_MS = 500;
const POLL_MS = 50;

/** See the protocol at the top of this file. */
export class DroneAgent {
  readonly ended: Promise<AgentEnd>;
  readonly #options: AgentOptions;
  readonly #session: DroneSession;
  readonly #renewals: KeyRenewals;
  readonly #book: RunBook;
  #warden: WardenLink | undefined;
  #stopTicking: () => void = () => undefined;
  #isStopping = false;
  #isLetGo = false;
  #announcedClockRatio: number | undefined;
  #end!: (how: AgentEnd) => void;

  private constructor(options: AgentOptions) {
    const { config, clock, link, log, random, inheritedEnv } = options;
    this.#options = options;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#session = new DroneSession({
      link,
      clock,
      log,
      backendCount: () => this.#book.size,
      onAction: (action) => void this.#act(action),
      onReplaced: () => {
        log.error({}, 'another agent uses the id of this drone; this one ends');
        void this.#letGo('replaced');
      },
    });
    const nowMs = (): number => clock.nowMs();
    const warden = (): WardenLink => {
      if (this.#warden === undefined) throw new WardenLost('there is no warden');
      return this.#warden;
    };
    this.#renewals = new KeyRenewals({ link, warden, nowMs, log, droneId: config.droneId });
    const ports = new Ports({ host: config.host, ...config.ports });
    this.#book = new RunBook({
      config,
      seen: SeenBackends.open(config.stateDir),
      runContext: { warden, nowMs, random, log, host: config.host, ports, inheritedEnv },
      reportContext: { link, session: this.#session, log, random },
      clockId: () => this.#warden?.identity.clockId,
      isStopping: () => this.#isStopping,
      onSpawned: (run) => {
        this.#announceClockRatio(run.identity.ladder);
        // Not at the next tick: the first renewal is what the caller of connect waits for.
        this.#renewals.tick([run], nowMs());
      },
    });
  }

  /**
   * Attaches to the warden, adopts what it runs, and opens a session.
   * @throws {WardenLost} when no warden comes up.
   */
  static async start(options: AgentOptions): Promise<DroneAgent> {
    const agent = new DroneAgent(options);
    await agent.#attach();
    agent.#stopTicking = options.clock.onTick((nowMs) => {
      agent.#renewals.tick(agent.#book.all(), nowMs);
    });
    return agent;
  }

  /** Stops every backend softly, bounded by the longest grace, and the warden with them. */
  async stop(): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    const runs = this.#book.all();
    const graceMs = Math.max(0, ...runs.map((run) => run.identity.program.stopGraceMs));
    this.#book.stopAll({ mode: 'soft', reason: 'external', isKeyLost: false });
    await this.#until(() => runs.every((run) => run.isOver), graceMs + STOP_ALLOWANCE_MS);
    await this.#until(() => this.#book.size === 0, LAST_REPORTS_MS_MAX);
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
    this.#book.close();
    this.#warden?.close();
    await this.#options.link.close();
    this.#end(how);
  }

  async #attach(): Promise<void> {
    const { config, log, version } = this.#options;
    const warden = await this.#takeCommand();
    const { clockId, pid, isolation, isolationDetail } = warden.identity;
    log.info({ clockId, wardenPid: pid, isolation, isolationDetail }, 'attached to the warden');
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
      logFolder: tellable(logFolderOf(config.stateDir)),
    });
  }

  /**
   * Has a warden, and has adopted what it runs. One that is lost before that is a failure of this
   * attempt, and nothing else begins another one meanwhile: two would supersede each other.
   */
  async #takeCommand(): Promise<WardenLink> {
    let stage: 'attaching' | 'attached' | 'lost' = 'attaching';
    const isLost = (): boolean => stage === 'lost';
    const warden = await this.#options.supplyWarden({
      changed: (snapshot) => {
        this.#book.observe(snapshot);
      },
      superseded: () => {
        this.#options.log.error({}, 'a newer agent commands the warden; this one ends');
        void this.#letGo('replaced');
      },
      lost: () => {
        const wasAttached = stage === 'attached';
        stage = 'lost';
        if (wasAttached) void this.#recover();
      },
    });
    this.#warden = warden;
    try {
      await this.#book.adopt(warden);
      if (isLost()) throw new WardenLost('the warden is gone');
    } catch (error) {
      warden.close();
      this.#loseWarden();
      throw error;
    }
    stage = 'attached';
    return warden;
  }

  #loseWarden(): void {
    this.#warden = undefined;
    this.#book.abandonAll();
  }

  /**
   * The warden is dead, and its backends with it, or it does not answer any more. What a living one
   * still runs is adopted again.
   */
  async #recover(): Promise<void> {
    if (this.#isStopping) return;
    this.#options.log.error({ backendCount: this.#book.size }, 'the warden is gone');
    this.#session.close();
    this.#loseWarden();
    while (!this.#hasEnded()) {
      try {
        await this.#attach();
        return;
      } catch (error) {
        this.#options.log.error({ err: error }, 'no warden comes up');
        await pause(REATTACH_MS);
      }
    }
  }

  #hasEnded(): boolean {
    return this.#isStopping;
  }

  async #act(action: SpawnAction | TerminateAction): Promise<void> {
    const { actionId, backendId } = action;
    try {
      await this.#book.act(action);
      await this.#acknowledge(actionId);
    } catch (error) {
      // Not acknowledged, so it comes again.
      this.#options.log.error({ err: error, actionId, backendId }, 'an action failed');
    }
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

  /** The ladder comes with a grant, so what it bears is known with the first one. */
  #announceClockRatio(ladder: Ladder): void {
    const ratio = Number(toleratedClockRatio(ladder).toFixed(3));
    if (ratio === this.#announcedClockRatio) return;
    this.#announcedClockRatio = ratio;
    this.#options.log.info({ toleratedClockRatio: ratio }, 'how far clock rates may differ');
  }

  async #until(isSo: () => boolean, limitMs: number): Promise<void> {
    const endsAtMs = this.#options.clock.nowMs() + limitMs;
    while (!isSo() && this.#options.clock.nowMs() < endsAtMs) await pause(POLL_MS);
  }
}

const PATH_BYTES_MAX = 1_024;

/** A path that may travel; one that may not is kept back, rather than the session refused for it. */
function tellable(path: string): string | undefined {
  return textProblem(path, { bytesMax: PATH_BYTES_MAX }) === undefined ? path : undefined;
}
