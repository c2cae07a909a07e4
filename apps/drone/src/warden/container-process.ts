import type { Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { Engine, EngineRefused } from '../engine.ts';
import { closeGate, openGate, type ContainerGuard } from './container-guard.ts';
import { OutputLog } from './output-log.ts';
import {
  isLiving,
  killContainer,
  killsForMemory,
  mainProcessOf,
  mayKill,
  namespaceCensus,
  processesOf,
  signalMain,
  type Census,
  type MainProcess,
} from './processes.ts';
import type { ContainerStart } from './protocol.ts';

/** The longest wait for a container to be made, however far ahead soft is. */
const CREATE_MS_MAX = 60_000;
/** The longest wait for the answer to a start. After that, the container is looked for. */
const START_MS_MAX = 10_000;
/** How long the engine may take to notice an end. Without an answer the exit code stays unknown. */
const END_MS_MAX = 5_000;
/** How long a disk may take for what it wrote last. */
const LAST_OUTPUT_MS_MAX = 500;
/** How often the engine is asked again: for output that it has ended, for a kill, and for a removal. */
const RETRY_MS = 1_000;
/** How old a look at all processes may be, while the engine has not answered a start. */
const LOOK_AGE_MS_MAX = 100;
/** As a shell reports the end by SIGKILL. */
const KILLED_CODE = 137;
const OUT_OF_SIGHT =
  'its processes cannot be reached from here, so that only the engine could end it: drone and engine must run on one machine, in one PID namespace, the drone as root or as the user of the engine';

/** What the containers of one warden have in common. */
export interface ContainerContext {
  readonly stateDir: string;
  readonly logFolder: string;
  readonly guard: ContainerGuard;
  readonly removals: ContainerRemovals;
  readonly nowMs: () => number;
  readonly onProblem: (problem: string) => void;
}

/**
 * One container, which its engine starts and the warden ends. Signals go to its processes directly,
 * and a kill also through the engine: either alone is enough. Whether it is gone is judged by its
 * processes, never by what the engine says.
 *
 *   made ──release──▶ started ──its first process is found──▶ running ──no process left──▶ gone
 *                        └── the engine refuses, or it ended at once ─────────────────────▶
 */
export class ContainerProcess {
  readonly #request: ContainerStart;
  readonly #context: ContainerContext;
  readonly #engine: Engine;
  readonly #containerId: string;
  #main: MainProcess | undefined;
  #census: Census | undefined;
  /** `unknown`: the engine has not answered, and may start it at any time. */
  #startOutcome: 'none' | 'unknown' | 'started' | 'failed' = 'none';
  #isStopAsked = false;
  #isKilled = false;
  #isEnding = false;
  #isGone = false;
  #hasFailed = false;
  #exitCode: number | null = null;
  #detail: string | null = null;
  #sinks: { readonly stdout: Writable; readonly stderr: Writable } | undefined;
  /** Resolves when the engine has sent all that it has written, or has been restarted. */
  #outputEnded: Promise<void> = Promise.resolve();
  #restWritten: Promise<void> | undefined;
  #killAskedAtMs = Number.NEGATIVE_INFINITY;

  private constructor(request: ContainerStart, containerId: string, context: ContainerContext) {
    this.#request = request;
    this.#context = context;
    this.#containerId = containerId;
    this.#engine = context.removals.engineAt(request.container.engine);
  }

  /**
   * Makes the container. It has not run when this returns, and never does unless {@link release} is called.
   * @throws {Error} when the engine does not make it before the soft deadline of the request.
   */
  static async prepare(
    request: ContainerStart,
    context: ContainerContext,
  ): Promise<ContainerProcess> {
    const { backendId, container, softAtMs } = request;
    const { stateDir, removals, guard, nowMs } = context;
    const timeoutMs = Math.min(softAtMs - nowMs(), CREATE_MS_MAX);
    openGate(stateDir, backendId);
    try {
      const engine = removals.engineAt(container.engine);
      const containerId = await engine.create(container.name, container.create, timeoutMs);
      const made = new ContainerProcess(request, containerId, context);
      try {
        await guard.watch(containerId, backendId);
        await made.#follow(softAtMs - nowMs());
      } catch (error) {
        made.kill();
        throw error;
      }
      return made;
    } catch (error) {
      closeGate(stateDir, backendId);
      throw error;
    }
  }

  /** Zero until its first process is found. */
  get pid(): number {
    return this.#main?.pid ?? 0;
  }

  /** As a shell reports it; null while it is not known, and when it was killed by the warden. */
  get exitCode(): number | null {
    return this.#exitCode;
  }

  /** What else is known of its end, for an operator. */
  get detail(): string | null {
    return this.#detail;
  }

  /** Whether it was not started, or cannot be guarded; `detail` has the reason. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Has the engine start it. Resolves when that is answered, or when the engine hangs: then it is looked for. */
  async release(): Promise<void> {
    if (this.#isKilled) return;
    this.#startOutcome = 'unknown';
    const { softAtMs } = this.#request;
    const timeoutMs = Math.min(softAtMs - this.#context.nowMs(), START_MS_MAX);
    try {
      await this.#engine.start(this.#containerId, timeoutMs);
      this.#find();
      if (this.#main === undefined) await this.#explainAbsence();
    } catch (error) {
      if (error instanceof EngineRefused) {
        this.#startOutcome = 'failed';
        this.#fail(error.message);
      } else this.#context.onProblem(`${this.#request.backendId}: ${String(error)}`);
    }
  }

  /** Asks the program to stop, as soon as it runs. */
  signalStop(): void {
    this.#isStopAsked = true;
    // A cast that the protocol has checked: it is the name of a signal.
    if (this.#main !== undefined) {
      signalMain(this.#main, this.#request.stopSignal as NodeJS.Signals);
    }
  }

  /** Ends every process of it without asking, and everything that the engine may still start. May be called again. */
  kill(): void {
    const ageMsMax = this.#isKilled ? LOOK_AGE_MS_MAX : 0;
    this.#isKilled = true;
    closeGate(this.#context.stateDir, this.#request.backendId);
    try {
      this.#find(ageMsMax);
      killContainer(this.#containerId, this.#main, ageMsMax);
    } catch (error) {
      this.#context.onProblem(`${this.#request.backendId}: ${String(error)}`);
    }
    if (this.#startOutcome === 'none') {
      this.#close();
      // Nobody asks any more whether one that was never started is gone.
      void this.#writeRest();
    } else this.#killThroughEngine();
  }

  /** Whether every process of it has been seen to be gone, and none can start any more. */
  isGone(): boolean {
    if (this.#isGone || this.#isEnding) return this.#isGone;
    this.#find(this.#startOutcome === 'unknown' ? LOOK_AGE_MS_MAX : 0);
    if (this.#main === undefined) {
      // Only an engine that has answered starts nothing later.
      if (this.#startOutcome === 'unknown' || processesOf(this.#containerId).length > 0) {
        return false;
      }
    } else if (isLiving(this.#main) || this.#census?.isEmpty() === false) return false;
    this.#isEnding = true;
    void this.#end();
    return false;
  }

  #find(ageMsMax = 0): void {
    if (this.#main !== undefined || this.#startOutcome === 'none') return;
    const main = mainProcessOf(this.#containerId, ageMsMax);
    if (main === undefined) return;
    const census = namespaceCensus(main.pid);
    if (census === undefined) return; // it is just ending
    this.#main = main;
    this.#census = census;
    this.#startOutcome = 'started';
    if (!mayKill(main)) this.#fail(OUT_OF_SIGHT);
    else if (this.#isStopAsked) this.signalStop();
  }

  /** The engine has started it, and no process of it is seen: it has ended, or is out of sight. */
  async #explainAbsence(): Promise<void> {
    const isRunning = await this.#engine.isRunning(this.#containerId);
    this.#find();
    if (this.#main !== undefined) return;
    // Where it runs out of sight, only the answer to a kill tells that it has ended.
    if (isRunning) this.#fail(OUT_OF_SIGHT);
    else this.#startOutcome = 'started';
  }

  #fail(detail: string): void {
    this.#hasFailed = true;
    this.#detail = detail;
    this.kill();
  }

  #killThroughEngine(): void {
    const nowMs = this.#context.nowMs();
    if (nowMs - this.#killAskedAtMs < RETRY_MS) return;
    this.#killAskedAtMs = nowMs;
    this.#engine.kill(this.#containerId).then(
      () => this.#startRefused(),
      (error: unknown) => {
        // It does not run, and an engine that answers again has carried out or dropped the start.
        if (error instanceof EngineRefused) this.#startRefused();
      },
    );
  }

  /** The engine answers, after the gate was closed: a start that had no answer never comes to anything. */
  #startRefused(): void {
    if (this.#startOutcome === 'unknown') this.#startOutcome = 'failed';
  }

  async #end(): Promise<void> {
    if (!this.#isKilled) await this.#learnEnd();
    this.#close();
    await this.#writeRest();
    this.#isGone = true;
  }

  async #learnEnd(): Promise<void> {
    const killsByKernel = this.#main === undefined ? undefined : killsForMemory(this.#main);
    const end = await this.#engine
      .endOf(this.#containerId, END_MS_MAX)
      .catch(() => ({ exitCode: null, isOutOfMemory: false }));
    this.#exitCode = end.exitCode;
    if (end.exitCode === KILLED_CODE) {
      const { memory } = this.#request.container;
      const isOutOfMemory = end.isOutOfMemory || (killsByKernel ?? 0) > 0;
      this.#detail = isOutOfMemory
        ? `the kernel killed it: it needed more memory than its limit of ${memory}`
        : `it was killed by SIGKILL, and not by Leasehold; its limit of memory is ${memory}`;
    } else if (end.exitCode === null) this.#detail = 'the engine does not tell its exit code';
  }

  /** What it wrote last is in its log before its end is known, unless the engine or the disk hangs. */
  #writeRest(): Promise<void> {
    this.#restWritten ??= this.#closeOutput();
    return this.#restWritten;
  }

  async #closeOutput(): Promise<void> {
    const sinks = Object.values(this.#sinks ?? {});
    const signal = AbortSignal.timeout(LAST_OUTPUT_MS_MAX);
    const isLate = new Promise((resolve) => signal.addEventListener('abort', resolve));
    await Promise.race([this.#outputEnded, isLate]);
    for (const sink of sinks) sink.end();
    await Promise.allSettled(sinks.map((sink) => finished(sink, { signal })));
  }

  #close(): void {
    const { stateDir, guard, removals } = this.#context;
    this.#census?.close();
    closeGate(stateDir, this.#request.backendId);
    guard.forget(this.#containerId);
    removals.add(this.#engine, this.#containerId);
  }

  async #follow(timeoutMs: number): Promise<void> {
    const log = new OutputLog(this.#context.logFolder, this.#request.backendId);
    const sinks = { stdout: log.writer('stdout'), stderr: log.writer('stderr') };
    this.#sinks = sinks;
    let ended = (): void => undefined;
    this.#outputEnded = new Promise((resolve) => (ended = resolve));
    const again = (): void => {
      ended();
      if (this.#isEnding || this.#isKilled) return;
      // An engine that was restarted has ended it, and the container goes on.
      setTimeout(() => {
        if (this.#isEnding || this.#isKilled) return;
        this.#engine.follow(this.#containerId, sinks, { onEnd: again }).catch(again);
      }, RETRY_MS).unref();
    };
    await this.#engine.follow(this.#containerId, sinks, { onEnd: again, timeoutMs });
  }
}

/** The engines that the warden has to do with, and the containers that they are yet to remove. */
export class ContainerRemovals {
  readonly #engines = new Map<string, Engine>();
  readonly #left = new Set<string>();

  /** Whether nothing is left to remove. */
  get isDone(): boolean {
    return this.#left.size === 0;
  }

  engineAt(socket: string): Engine {
    const engine = this.#engines.get(socket) ?? new Engine(socket);
    this.#engines.set(socket, engine);
    return engine;
  }

  /** Removes a container that has ended, however often the engine has to be asked. */
  add(engine: Engine, containerId: string): void {
    if (this.#left.has(containerId)) return;
    this.#left.add(containerId);
    void this.#remove(engine, containerId);
  }

  async #remove(engine: Engine, containerId: string): Promise<void> {
    try {
      await engine.remove(containerId);
      this.#left.delete(containerId);
    } catch {
      setTimeout(() => void this.#remove(engine, containerId), RETRY_MS).unref();
    }
  }
}
