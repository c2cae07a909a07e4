/**
 * The warm processes of a drone: programs that run already and wait for a key, so that a connect need not wait until
 * they have started.
 *
 *   started ──▶ warm ──a spawn reserves it──▶ reserved ──▶ claimed: a backend like any other
 *                 │                              └── not claimed ──▶ ended
 *                 └── it ends, or gives way ──▶ another one, after a pause
 *
 * They hold nothing, and so the agent may end them at any time. They count against the capacity, and give way to
 * backends. A new one is started when no backend is about to become ready, whose processor it would take.
 */
import { backoffMs, type SpawnAction } from '@leasehold/keys-core';
import type { DroneConfig, Log, ProgramConfig } from '../config.ts';
import type { WarmEnd, WarmStart } from '../warden/protocol.ts';
import type { BackendRun } from './backend-run.ts';
import type { HeartbeatInput } from './controller-link.ts';
import type { Ports } from './ports.ts';
import { StartFailed, WardenLost, type WardenLink } from './warden-link.ts';
import type { KeptWarm, Work } from './work.ts';

/** The pause after a warm process has ended by itself, or could not be started; longer each time. */
const RETRY_FIRST_MS = 500;
const RETRY_MS_MAX = 60_000;
/** One that has lived so long was well: the next failure is the first one again. */
const WELL_AFTER_MS = 30_000;
/** How long a backend that does not become ready keeps warm processes from being started. */
const UNREADY_MS_MAX = 10_000;

interface WarmPoolOptions {
  readonly config: Pick<DroneConfig, 'capacity' | 'programs'>;
  /** @throws {WardenLost} while none exists. */
  readonly warden: () => WardenLink;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly newId: () => string;
  readonly log: Log;
  readonly ports: Ports;
  readonly workOf: (program: ProgramConfig) => Work;
  readonly runs: () => readonly BackendRun[];
  /** The last lines that a process wrote; undefined without any. */
  readonly lastOutput: (id: string) => Promise<string | undefined>;
}

/** What is reported about the warm processes of one program. */
type WarmCount = NonNullable<HeartbeatInput['load']['warm']>[number];

/** How it went with the warm processes of one program. */
interface History {
  failureCount: number;
  retryAtMs: number;
  problem: string | null;
}

/** One process, from its start to its end or its claim. */
class WarmOne implements KeptWarm {
  readonly warmId: string;
  readonly port: number;
  readonly program: string;
  readonly startedAtMs: number;
  claimFile = '';
  hasEnded = false;
  isReserved = false;
  /** Whether it is to be ended as soon as it has started. */
  isUnwanted = false;
  /** Whether the agent has asked for its end. */
  isCooled = false;
  #isClaimed = false;
  readonly #pool: {
    readonly claimed: (one: WarmOne) => void;
    readonly cool: (one: WarmOne) => void;
  };

  constructor(of: {
    readonly warmId: string;
    readonly program: string;
    readonly port: number;
    readonly nowMs: number;
    readonly claimed: (one: WarmOne) => void;
    readonly cool: (one: WarmOne) => void;
  }) {
    this.warmId = of.warmId;
    this.program = of.program;
    this.port = of.port;
    this.startedAtMs = of.nowMs;
    this.#pool = of;
  }

  claimed(): void {
    this.#isClaimed = true;
    this.#pool.claimed(this);
  }

  discard(): void {
    if (!this.#isClaimed) this.#pool.cool(this);
  }
}

/** See the protocol at the top of this file. */
export class WarmPool {
  readonly #options: WarmPoolOptions;
  readonly #ones = new Map<string, WarmOne>();
  readonly #histories = new Map<string, History>();
  #isStarting = false;
  #isPaused = false;
  #isClosed = false;

  constructor(options: WarmPoolOptions) {
    this.#options = options;
  }

  /** The warm processes of each program that should have some, for the reports of the drone. */
  counts(): WarmCount[] {
    this.#forgetFailures();
    return this.#wanting().map(([program, { warm: wanted }]) => {
      const problem = this.#histories.get(program)?.problem ?? null;
      return { program, count: this.#warmOf(program).length, wanted, problem };
    });
  }

  /** Of programs whose processes have all been well for a while: the next failure is a first one. */
  #forgetFailures(): void {
    const wellSinceMs = this.#options.nowMs() - WELL_AFTER_MS;
    for (const [program, { warm: wanted }] of this.#wanting()) {
      const warm = this.#warmOf(program);
      const isWell = warm.length >= wanted && warm.every((one) => one.startedAtMs <= wellSinceMs);
      if (isWell) this.#histories.delete(program);
    }
  }

  /** Whether it is the id of one of them: their output is named by it. */
  has(warmId: string): boolean {
    return this.#ones.has(warmId);
  }

  /** A warm process for a spawn, which no other one gets; undefined where none is, or it cannot tell all of the spawn. */
  reserve({ program, args }: Pick<SpawnAction, 'program' | 'args'>): KeptWarm | undefined {
    if (args.length > 0 || this.#isClosed) return undefined;
    // The oldest: it has had the most time to get ready.
    const [one] = this.#warmOf(program);
    if (one === undefined) return undefined;
    one.isReserved = true;
    return one;
  }

  /** Lets warm processes give way to the backends that there are. */
  makeRoom(): void {
    const { config, runs } = this.#options;
    for (const [program] of this.#wanting()) {
      const tooMany = this.#warmOf(program).length - this.#roomFor(program);
      for (const one of this.#warmOf(program).slice(0, Math.max(0, tooMany))) this.#cool(one);
    }
    const idle = [...this.#ones.values()].filter((one) => !one.isReserved && !one.isCooled);
    const tooMany = runs().length + idle.length - config.capacity;
    for (const one of idle.slice(0, Math.max(0, tooMany))) this.#cool(one);
  }

  /** Starts what is missing, one at a time. */
  tick(nowMs: number): void {
    this.#forgetFailures();
    if (this.#isClosed || this.#isPaused || this.#isStarting) return;
    const missing = this.#missing(nowMs);
    if (missing === undefined) return;
    const isBusy = this.#options
      .runs()
      .some((run) => run.isBecomingReady && nowMs - run.begunAtMs < UNREADY_MS_MAX);
    if (isBusy) return;
    this.#isStarting = true;
    void this.#start(missing).finally(() => {
      this.#isStarting = false;
    });
  }

  /** The warden has reported the end of one. */
  cooled({ warmId, exitCode, detail }: WarmEnd): void {
    const one = this.#ones.get(warmId);
    if (one === undefined) return;
    this.#forget(one);
    if (one.isCooled) return;
    const nowMs = this.#options.nowMs();
    const history = this.#historyOf(one.program);
    if (nowMs - one.startedAtMs >= WELL_AFTER_MS) history.failureCount = 0;
    const code = exitCode === null ? 'was killed' : `ended with exit code ${String(exitCode)}`;
    this.#failed(one.program, `it ${code}${detail === null ? '' : `: ${detail}`}`, one.warmId);
  }

  /** A drone that starts no backends needs none; one that does again, gets them again. */
  pause(isPaused: boolean): void {
    if (this.#isPaused === isPaused) return;
    this.#isPaused = isPaused;
    if (isPaused) this.#coolIdle();
  }

  /** The warden is gone, or commanded by another agent, and they with it. */
  abandon(): void {
    for (const one of [...this.#ones.values()]) this.#forget(one);
  }

  /** Starts no more, and ends those that there are. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#coolIdle();
  }

  #coolIdle(): void {
    for (const one of this.#ones.values()) if (!one.isReserved) this.#cool(one);
  }

  #wanting(): (readonly [string, ProgramConfig & { readonly warm: number }])[] {
    return Object.entries(this.#options.config.programs).flatMap(([name, program]) =>
      program.kind === 'command' && program.warm > 0 ? [[name, program] as const] : [],
    );
  }

  /** Those that a spawn may claim. */
  #warmOf(program: string): WarmOne[] {
    return [...this.#ones.values()].filter(
      (one) => one.program === program && one.claimFile !== '' && !one.isReserved && !one.isCooled,
    );
  }

  /** How many there may be of a program, beside its backends. */
  #roomFor(program: string): number {
    const instancesMax = this.#options.config.programs[program]?.resources?.instancesMax;
    if (instancesMax === undefined) return Number.POSITIVE_INFINITY;
    const runs = this.#options.runs().filter((run) => run.identity.programName === program);
    return Math.max(0, instancesMax - runs.length);
  }

  /** The next program to start one of. */
  #missing(nowMs: number): string | undefined {
    const { config, runs } = this.#options;
    // Reserved ones are counted as runs; those that end still have their processes.
    const idle = [...this.#ones.values()].filter((one) => !one.isReserved);
    if (runs().length + idle.length >= config.capacity) return undefined;
    const found = this.#wanting().find(([name, { warm }]) => {
      const count = idle.filter((one) => one.program === name).length;
      const isDue = nowMs >= (this.#histories.get(name)?.retryAtMs ?? 0);
      return isDue && count < Math.min(warm, this.#roomFor(name));
    });
    return found?.[0];
  }

  async #start(name: string): Promise<void> {
    const { ports, log } = this.#options;
    let one: WarmOne | undefined;
    try {
      const warden = this.#options.warden();
      const requestOf = this.#work(name);
      const port = await ports.take('auto');
      if (port === undefined) throw new StartFailed('no free port');
      one = this.#add(name, port);
      const { claimFile } = await warden.warm(requestOf(one));
      one.claimFile = claimFile;
      log.info({ program: name, warmId: one.warmId }, 'keeps a process warm');
      if (one.isUnwanted || this.#isClosed || this.#isPaused) this.#cool(one);
    } catch (error) {
      if (one !== undefined) this.#forget(one);
      // Without a warden there is nothing to do: the next one gets them all again.
      if (error instanceof WardenLost) return;
      this.#failed(name, error instanceof Error ? error.message : String(error));
    }
  }

  /** What the warden is asked to start. @throws {StartFailed} when the program cannot run here. */
  #work(name: string): (one: WarmOne) => WarmStart {
    const program = this.#options.config.programs[name];
    if (program === undefined) throw new StartFailed('the drone does not offer the program');
    const { stopSignal } = program;
    const { refusal, warmFieldsOf } = this.#options.workOf(program);
    if (refusal !== undefined) throw new StartFailed(refusal);
    if (warmFieldsOf === undefined) throw new StartFailed('it is not a command');
    return ({ warmId, port }) => ({ ...warmFieldsOf(port), warmId, program: name, stopSignal });
  }

  #add(program: string, port: number): WarmOne {
    const one = new WarmOne({
      warmId: this.#options.newId(),
      program,
      port,
      nowMs: this.#options.nowMs(),
      claimed: (claimed) => this.#claimed(claimed),
      cool: (unwanted) => this.#cool(unwanted),
    });
    this.#ones.set(one.warmId, one);
    return one;
  }

  /** Its end and its port are the backend's business now. */
  #claimed(one: WarmOne): void {
    this.#ones.delete(one.warmId);
    const history = this.#historyOf(one.program);
    history.failureCount = 0;
    history.problem = null;
  }

  /** Its port is free when the warden reports its end. */
  #cool(one: WarmOne): void {
    if (one.isCooled || one.hasEnded) return;
    if (one.claimFile === '') {
      one.isUnwanted = true;
      return;
    }
    one.isCooled = true;
    try {
      this.#options
        .warden()
        .cool(one.warmId)
        .then(
          (isThere) => {
            if (!isThere) this.#forget(one);
          },
          // Without a warden they are all gone.
          () => undefined,
        );
    } catch {
      // As above.
    }
  }

  #forget(one: WarmOne): void {
    one.hasEnded = true;
    // Nobody has had its address.
    if (this.#ones.delete(one.warmId)) this.#options.ports.giveBack(one.port, 0);
  }

  #historyOf(program: string): History {
    const found = this.#histories.get(program);
    if (found !== undefined) return found;
    const made = { failureCount: 0, retryAtMs: 0, problem: null };
    this.#histories.set(program, made);
    return made;
  }

  #failed(program: string, problem: string, warmId?: string): void {
    const { nowMs, random, log, lastOutput } = this.#options;
    const history = this.#historyOf(program);
    history.failureCount += 1;
    const times = { firstMs: RETRY_FIRST_MS, maxMs: RETRY_MS_MAX, random };
    const pauseMs = Math.round(backoffMs(history.failureCount, times));
    history.retryAtMs = nowMs() + pauseMs;
    history.problem = problem;
    const { failureCount } = history;
    const said = warmId === undefined ? Promise.resolve(undefined) : lastOutput(warmId);
    void said.then((output) =>
      log.warn(
        { program, warmId, failureCount, pauseMs, ...(output && { output }) },
        `a process of program ${program} could not be kept warm: ${problem}`,
      ),
    );
  }
}
