/**
 * The agent of a drone: takes what controllers ask for, has the warden run it, renews its keys and
 * reports what becomes of it.
 *
 * An agent that ends without stopping its backends leaves them to the warden, which ends them at
 * their deadlines unless the next agent adopts and renews them. When the warden dies its backends
 * die with it: the agent forgets them, their keys run out, and a new warden begins a new clock.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { SpawnAction, TerminateAction } from '@leasehold/api';
import {
  isFullyIsolated,
  type Ladder,
  LIMITS,
  textProblem,
  toleratedClockRatio,
} from '@leasehold/keys-core';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import type { DroneConfig, Log, ProgramConfig } from '../config.ts';
import { openFilesProblem } from '../warden/limits.ts';
import { lastOutput, logFolderOf, readOutput, removeOldOutput } from '../warden/output-log.ts';
import type { IsolationFacts } from '../warden/protocol.ts';
import type { BackendRun } from './backend-run.ts';
import { Containers } from './containers.ts';
import { type ControllerLink, type RenewResult, SessionSuperseded } from './controller-link.ts';
import { DroneSession } from './drone-session.ts';
import { LoadWatch } from './load.ts';
import { Ports } from './ports.ts';
import { readListeners } from './probe.ts';
import { RunBook } from './run-book.ts';
import { SeenBackends } from './seen-backends.ts';
import { WarmPool } from './warm-pool.ts';
import { WardenCommand } from './warden-command.ts';
import { renewWindowMs, type WardenLink, type WardenSource } from './warden-link.ts';
import { commandWork, type DronePlace, placeOf, requireIsolation, type Work } from './work.ts';

/** Why an agent ended. */
type AgentEnd = 'stopped' | 'left' | 'replaced';

interface AgentOptions {
  readonly config: DroneConfig;
  readonly clock: TickingClock;
  readonly log: Log;
  readonly random: () => number;
  readonly version: string;
  readonly link: ControllerLink;
  readonly wardens: WardenSource;
  /** The file of the drone's own program. */
  readonly entry: string;
  /** The agent's own environment, of which backends get little: see `backendEnv`. */
  readonly inheritedEnv: Readonly<Record<string, string | undefined>>;
}

/** What stopping may take beyond the longest grace of a program. */
const STOP_ALLOWANCE_MS = 2_000;
/** How long to wait for the last reports once everything is gone. */
const LAST_REPORTS_MS_MAX = 2_000;
/** How long a stop waits at its end for the answer to its goodbye, which is said at its beginning. */
const GOODBYE_MS_MAX = 1_000;
const POLL_MS = 50;
/** How often output that is old is removed. */
const TIDY_MS = 3_600_000;
/** And after how many ends: a program that crashes at once fills a disk in less time. */
const TIDY_AFTER_ENDS = 100;

/** See the protocol at the top of this file. */
export class DroneAgent {
  readonly ended: Promise<AgentEnd>;
  readonly #options: AgentOptions;
  readonly #session: DroneSession;
  readonly #renewals: KeyRenewals;
  readonly #book: RunBook;
  readonly #command: WardenCommand;
  readonly #containers: Containers;
  readonly #load: LoadWatch;
  readonly #pool: WarmPool;
  #stopTicking: () => void = () => undefined;
  #tidying: NodeJS.Timeout | undefined;
  #isTidying = false;
  #endsSinceTidy = 0;
  #isStopping = false;
  #isLeaving = false;
  #isLetGo = false;
  #announcedClockRatio: number | undefined;
  #programProblems: string[] = [];
  /** Resolves when the backends are adopted: an action before that would miss them. */
  #commanding: Promise<void> = Promise.resolve();
  #takeActions: () => void = () => undefined;
  #end!: (how: AgentEnd) => void;

  constructor(options: AgentOptions) {
    const { config, clock, link, log, random, inheritedEnv } = options;
    this.#options = options;
    const logFolder = logFolderOf(config.stateDir);
    this.ended = new Promise((resolve) => (this.#end = resolve));
    this.#session = new DroneSession({
      link,
      clock,
      log,
      load: () => ({
        backends: this.#book.size,
        engine: this.#containers.status,
        warm: this.#pool.counts(),
        machine: this.#load.machine,
      }),
      takeUsage: () => this.#load.takeUsage(),
      onAction: (action) => void this.#act(action),
      readLog: (request) =>
        readOutput(logFolder, request, { isEnded: () => this.#hasEnded(request.backendId) }),
      onDraining: (isDraining) => this.#pool.pause(isDraining),
      onReplaced: () => {
        log.error({}, 'another agent uses the id of this drone; this one ends');
        void this.#letGo('replaced');
      },
    });
    this.#containers = new Containers({ config, environment: inheritedEnv, log });
    const nowMs = (): number => clock.nowMs();
    this.#load = new LoadWatch({
      stateDir: config.stateDir,
      nowMs,
      log,
      backends: () => this.#book.all().flatMap((run) => run.measured ?? []),
    });
    const warden = (): WardenLink => this.#command.warden;
    this.#renewals = new KeyRenewals({ link, warden, nowMs, log, droneId: config.droneId });
    const ports = new Ports({ host: config.host, ...config.ports }, log, nowMs);
    const workOf = (program: ProgramConfig): Work => this.#workOf(program);
    const lastOutputOf = (id: string): Promise<string | undefined> => lastOutput(logFolder, id);
    const runs = (): readonly BackendRun[] => this.#book.all();
    const ofPool = { config, warden, nowMs, random, log, ports, workOf, runs };
    this.#pool = new WarmPool({ ...ofPool, newId: randomUUID, lastOutput: lastOutputOf });
    this.#book = new RunBook({
      config,
      openSeen: () => SeenBackends.open(config.stateDir),
      runContext: {
        warden,
        nowMs,
        random,
        log,
        host: config.host,
        ports,
        listeners: readListeners,
        workOf,
        lastOutput: lastOutputOf,
      },
      reserve: (action) => this.#pool.reserve(action),
      reportContext: { link, session: this.#session, log, random },
      clockId: () => this.#command.clockId,
      isStopping: () => this.#isStopping,
      onAdopted: (snapshots) => this.#containers.clear(snapshots),
      onForgotten: () => this.#noteEnd(),
      onSpawned: (run) => {
        this.#announceClockRatio(run.identity.ladder);
        this.#pool.makeRoom();
        // Not at the next tick: the first renewal is what the caller of connect waits for.
        this.#renewals.tick([run], nowMs());
      },
    });
    this.#command = this.#commandOf(options);
  }

  /** Whether a backend writes nothing more. Of none it is known before the warden has told which run. */
  #hasEnded(backendId: string): boolean {
    return this.#book.isAdopted && !this.#book.has(backendId);
  }

  /**
   * Resolves when a controller has accepted this agent and it commands the warden; never when it is
   * stopped before that, see `ended`.
   * @throws {WardenLost} when no warden comes up.
   */
  async start(): Promise<void> {
    this.#stopTicking = this.#options.clock.onTick((nowMs) => this.#tick(nowMs));
    this.#containers.start();
    this.#load.start();
    await this.#command.take();
    void this.#tidy();
    this.#tidying = setInterval(() => void this.#tidy(), TIDY_MS).unref();
  }

  #noteEnd(): void {
    this.#endsSinceTidy += 1;
    if (this.#endsSinceTidy >= TIDY_AFTER_ENDS) void this.#tidy();
  }

  async #tidy(): Promise<void> {
    // Output of what runs must not be taken for that of what has ended.
    if (!this.#book.isAdopted || this.#isTidying) return;
    this.#isTidying = true;
    this.#endsSinceTidy = 0;
    const folder = logFolderOf(this.#options.config.stateDir);
    try {
      await removeOldOutput(folder, (id) => this.#book.has(id) || this.#pool.has(id));
    } catch (error) {
      this.#options.log.debug({ err: error }, 'old output could not be removed');
    } finally {
      this.#isTidying = false;
    }
  }

  /**
   * Stops every backend softly, bounded by the longest grace, and the warden with them. Says goodbye first, so that
   * nothing more is started here.
   */
  async stop(): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    const saidGoodbye = this.#session.sayGoodbye();
    this.#pool.close();
    const runs = this.#book.all();
    const graceMs = Math.max(0, ...runs.map((run) => run.identity.program.stopGraceMs));
    this.#book.stopAll({ mode: 'soft', reason: 'external', isKeyLost: false });
    await this.#until(() => runs.every((run) => run.isOver), graceMs + STOP_ALLOWANCE_MS);
    await this.#until(() => this.#book.size === 0, LAST_REPORTS_MS_MAX);
    await this.#command.shutdown();
    await Promise.race([saidGoodbye, pause(GOODBYE_MS_MAX)]);
    await this.#letGo('stopped');
  }

  /**
   * Ends, and leaves the backends to the warden for the next agent: with their keys just renewed,
   * so that it has the whole time up to soft. Later actions wait for it.
   */
  async leave(): Promise<void> {
    if (this.#isLeaving || this.#isStopping) return this.#letGo('left');
    this.#isLeaving = true;
    this.#pool.close();
    const runs = this.#book.all();
    const windowMs = renewWindowMs(runs.map((run) => run.identity.ladder));
    const beganAtMs = this.#options.clock.nowMs();
    await this.#until(() => !runs.some((run) => run.isStarting), windowMs);
    const leftMs = windowMs - (this.#options.clock.nowMs() - beganAtMs);
    await Promise.race([this.#renewals.handOver(runs), pause(leftMs)]);
    await this.#letGo('left');
  }

  async #letGo(how: AgentEnd): Promise<void> {
    if (this.#isLetGo) return;
    this.#isLetGo = true;
    this.#isStopping = true;
    this.#stopTicking();
    clearInterval(this.#tidying);
    this.#load.close();
    this.#pool.close();
    this.#session.close();
    this.#book.close();
    this.#containers.close();
    this.#command.close();
    await this.#options.link.close();
    this.#end(how);
  }

  #commandOf({ wardens, log }: AgentOptions): WardenCommand {
    return new WardenCommand({
      wardens,
      log,
      runs: () => this.#book.all(),
      examine: (isolation) => this.#examine(isolation),
      openSession: (clockId, isolation) => this.#openSession(clockId, isolation),
      accepted: () => this.#session.ref().then(() => undefined),
      adopt: async (warden) => {
        this.#warnOfOpenFiles(warden);
        await this.#book.adopt(warden);
        this.#takeActions();
      },
      abandon: () => {
        this.#session.close();
        this.#book.abandonAll();
        this.#pool.abandon();
      },
      cooled: (end) => {
        this.#pool.cooled(end);
        this.#noteEnd();
      },
      changed: (backend) => this.#book.observe(backend),
      onReplaced: () => void this.#letGo('replaced'),
    });
  }

  #tick(nowMs: number): void {
    this.#renewals.tick(this.#book.all(), nowMs);
    this.#command.tick(nowMs);
    this.#pool.tick(nowMs);
  }

  /** What is likely to keep programs from running here, found when it took command; a sentence each. */
  get programProblems(): readonly string[] {
    return this.#programProblems;
  }

  /** Logs what the machine does not provide, and what is likely to keep programs from running. */
  #examine(isolation: IsolationFacts): void {
    const { config, log } = this.#options;
    requireIsolation(isolation, config.isolation.require);
    this.#programProblems = [];
    log[isFullyIsolated(isolation) ? 'info' : 'warn'](
      { isolation },
      `isolation of programs: ${isolation.detail}`,
    );
    for (const [name, program] of Object.entries(config.programs)) {
      if (program.kind === 'container') continue;
      const { problems, refusal } = placeOf(program, this.#placeWith(isolation));
      for (const problem of [...problems, ...(refusal === undefined ? [] : [refusal])]) {
        log.warn({ program: name }, `program ${name}: ${problem}`);
        this.#programProblems.push(`program ${name}: ${problem}`);
      }
    }
  }

  #warnOfOpenFiles({ identity }: WardenLink): void {
    const problem = openFilesProblem(identity.pid, this.#options.config.capacity);
    if (problem !== undefined) this.#options.log.warn({}, problem);
  }

  #workOf(program: ProgramConfig): Work {
    const { isolation } = this.#command.warden.identity;
    return program.kind === 'container'
      ? this.#containers.workOf(program)
      : commandWork(program, placeOf(program, this.#placeWith(isolation)), {
          inherited: this.#options.inheritedEnv,
          capacity: this.#options.config.capacity,
        });
  }

  #placeWith(facts: IsolationFacts): DronePlace {
    const { config, inheritedEnv, entry } = this.#options;
    return {
      facts,
      stateDir: config.stateDir,
      home: config.home,
      steering: [config.file, entry],
      searchPath: inheritedEnv['PATH'] ?? '',
    };
  }

  #openSession(clockId: string, isolation: IsolationFacts | undefined): void {
    const { config, version } = this.#options;
    this.#holdActions();
    this.#session.open({
      droneId: config.droneId,
      clockId,
      datacenter: config.datacenter,
      programs: Object.entries(config.programs).map(([name, program]) => ({
        name,
        allowArgs: program.allowArgs,
        allowEnv: program.allowEnv,
        ...(program.kind === 'container' && { image: program.image }),
        lifetimeLimitSeconds: program.lifetimeLimitSeconds,
        idleStopSeconds: program.idleStopSeconds,
      })),
      version,
      capacity: config.capacity,
      logFolder: tellable(logFolderOf(config.stateDir)),
      isolation,
    });
  }

  #holdActions(): void {
    this.#commanding = new Promise((resolve) => {
      this.#takeActions = resolve;
    });
  }

  async #act(action: SpawnAction | TerminateAction): Promise<void> {
    const { actionId, backendId } = action;
    try {
      await this.#commanding;
      if (this.#isLeaving) return; // not acknowledged: the next agent gets it
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

  /** The ladder comes with a grant, so the clock ratio that it tolerates is known with the first one. */
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

/** A path that may be sent; any other is left out, so that the session is not refused for it. */
function tellable(path: string): string | undefined {
  return textProblem(path, { bytesMax: PATH_BYTES_MAX }) === undefined ? path : undefined;
}

// The renewals of all keys of a drone: those that are due at a tick travel together. Just before each call
// the warden is asked what is alive, and a backend that should run and is not alive is not renewed: a key
// must not be held for a backend that nobody runs. Without a warden nothing is renewed.

interface DueRenewal {
  readonly run: BackendRun;
  readonly requestId: number;
}

interface KeyRenewalsOptions {
  readonly link: ControllerLink;
  readonly warden: () => WardenLink;
  readonly nowMs: () => number;
  readonly log: Log;
  readonly droneId: string;
}

export class KeyRenewals {
  readonly #options: KeyRenewalsOptions;

  constructor(options: KeyRenewalsOptions) {
    this.#options = options;
  }

  /** Lets every run do what is due, and sends the renewals among it. */
  tick(runs: Iterable<BackendRun>, nowMs: number): void {
    const due: DueRenewal[] = [];
    for (const run of runs) {
      const requestId = run.tick(nowMs);
      if (requestId !== undefined) due.push({ run, requestId });
    }
    for (const page of pagesOf(due)) void this.#renew(page);
  }

  /**
   * Renews the keys of all runs, due or not, and gives the warden their deadlines: the next agent
   * has until then. A key that cannot be renewed keeps the deadlines that it has.
   */
  async handOver(runs: readonly BackendRun[]): Promise<void> {
    try {
      await Promise.all(pagesOf(runs).map((page) => this.#handOverPage(page)));
    } catch (error) {
      this.#options.log.warn(
        { err: error, count: runs.length },
        'keys were not renewed before the end',
      );
    }
  }

  async #handOverPage(runs: readonly BackendRun[]): Promise<void> {
    const { asked, results } = await this.#ask(runs);
    const byLease = new Map([...asked].map(({ identity }) => [identity.leaseId, identity]));
    const extensions = results.flatMap((result) => {
      const identity = byLease.get(result.leaseId);
      if (identity === undefined || result.outcome !== 'renewed') return [];
      const { backendId, leaseId } = identity;
      const { softTerminateAtMs: softAtMs, hardTerminateAtMs: hardAtMs } = result.deadlines;
      return [{ backendId, leaseId, softAtMs, hardAtMs }];
    });
    await this.#options.warden().extend(extensions);
  }

  async #renew(due: readonly DueRenewal[]): Promise<void> {
    try {
      const { asked, results } = await this.#ask(due.map(({ run }) => run));
      await this.#take(
        due.filter(({ run }) => asked.has(run)),
        results,
      );
    } catch (error) {
      this.#options.log.debug({ err: error, count: due.length }, 'renewals got no answer');
      for (const { run, requestId } of due) run.failed(requestId);
    }
  }

  /** Asks the warden which of them are alive, and a controller to renew those. */
  async #ask(
    runs: readonly BackendRun[],
  ): Promise<{ asked: ReadonlySet<BackendRun>; results: readonly RenewResult[] }> {
    const { link, droneId, nowMs } = this.#options;
    const warden = this.#options.warden();
    // One that the warden does not have yet is not among those: its first renewal need not wait for the answer.
    const aliveIds = new Set(runs.some((run) => run.isLaunched) ? await warden.alive() : []);
    const asked = new Set(runs.filter((run) => run.isWorthRenewing(aliveIds)));
    if (asked.size === 0) return { asked, results: [] };
    const identities = [...asked].map(({ identity }) => identity);
    const results = await link.renew(
      {
        droneId,
        clockId: warden.identity.clockId,
        // Read before it is sent: the answer's deadlines are counted from here.
        localTimeMs: nowMs(),
        renewals: identities.map(({ leaseId, fencingToken }) => ({ leaseId, fencingToken })),
      },
      // After soft, no answer moves it.
      Math.max(...identities.map(({ ladder }) => ladder.softAfterMs)),
    );
    return { asked, results };
  }

  async #take(due: readonly DueRenewal[], results: readonly RenewResult[]): Promise<void> {
    const resultOf = new Map(results.map((result) => [result.leaseId, result]));
    const moved: BackendRun[] = [];
    for (const { run, requestId } of due) {
      const result = resultOf.get(run.identity.leaseId);
      if (result === undefined) run.failed(requestId);
      else if (result.outcome === 'refused') run.refused(requestId, result.reason);
      else if (run.renewed(requestId, result.deadlines)) moved.push(run);
    }
    if (moved.length === 0) return;
    const problems = await this.#options.warden().extend(moved.map((run) => run.extension()));
    for (const [index, problem] of problems.entries()) {
      const backendId = moved[index]?.identity.backendId;
      // A stop that began in the meantime is final; any other problem is logged.
      if (problem !== null && problem !== 'stopping') {
        this.#options.log.warn({ backendId, problem }, 'the warden did not take a deadline');
      }
    }
  }
}

/** The items in pages, each of them as large as one call may be. */
function pagesOf<Item>(items: readonly Item[]): (readonly Item[])[] {
  const size = LIMITS.renewalsPerCallMax;
  return Array.from({ length: Math.ceil(items.length / size) }, (_page, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}
