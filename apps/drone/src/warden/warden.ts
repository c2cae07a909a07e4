import { BOOT_READINGS_APART_MS } from '@leasehold/service-kit/boot-clock';
import { seldomProblem, tolerantLook, type IsGone } from './processes.ts';
import {
  NOT_WARM,
  type BackendSnapshot,
  type BackendState,
  type ClaimStart,
  type CommandStart,
  type ContainerStart,
  type ExtendRequest,
  type OfferedDeadlines,
  type StartRequest,
  type StopRequest,
  type WarmEnd,
  type WarmStart,
} from './protocol.ts';

/** What the warden needs of a backend's processes, or of its container. */
export interface OwnedProcess {
  /** Zero while it is not known. */
  readonly pid: number;
  readonly exitCode: number | null;
  /** What else is known of its end. */
  readonly detail?: string | null;
  /** Whether it could not be run. */
  readonly hasFailed?: boolean;
  signalStop(): void;
  kill(): void;
  isGone(): boolean;
}

/** The reason of a stop when the warden was the first to notice that the key expired. */
const KEY_EXPIRED = 'key_expired';
/** The reason of an end by a failure to run it. */
const FAILED = 'internal';

/**
 * One backend and the two moments at which the warden ends it.
 *
 *   running ── soft deadline, or a soft stop ──▶ stopping ── kill moment ──▶ killed ──▶ gone
 *      └────────────── it ends by itself, or a hard stop ───────────────────────────────▶
 *
 * A stop that the key itself began freezes the deadlines. A stop for another reason has a limit of
 * its own, `stopGraceMs` after the first request; the hard deadline binds it too and may still move
 * later, because the agent goes on renewing until everything is gone.
 */
export class WardenBackend {
  readonly #process: OwnedProcess;
  readonly #request: StartRequest;
  #softAtMs: number;
  #hardAtMs: number;
  #meta: unknown;
  #stopReason: string | null = null;
  #isKeyLost = false;
  /** The end of the grace of the first stop; later ones postpone nothing. */
  #graceEndsAtMs = Number.POSITIVE_INFINITY;
  #isKilled = false;
  #goneAtMs: number | null = null;
  /** As the last tick found it. */
  #pid: number;

  constructor(request: StartRequest, process: OwnedProcess) {
    this.#request = request;
    this.#process = process;
    this.#pid = process.pid;
    this.#softAtMs = request.softAtMs;
    this.#hardAtMs = request.hardAtMs;
    this.#meta = request.meta;
  }

  /** The key that it runs for, where no other backend of that key may run beside it. */
  get keyId(): string | undefined {
    return 'container' in this.#request ? this.#request.container.keyId : undefined;
  }

  get state(): BackendState {
    if (this.#goneAtMs !== null) return 'gone';
    return this.#stopReason === null ? 'running' : 'stopping';
  }

  /** When it must have been killed at the latest; undefined once it has been, or is gone. */
  get actByMs(): number | undefined {
    return this.#isKilled || this.#goneAtMs !== null
      ? undefined
      : this.#hardAtMs + this.#request.leashMs;
  }

  snapshot(): BackendSnapshot {
    return {
      backendId: this.#request.backendId,
      leaseId: this.#request.leaseId,
      pid: this.#process.pid,
      state: this.state,
      softAtMs: this.#softAtMs,
      hardAtMs: this.#hardAtMs,
      stopReason: this.#stopReason ?? (this.#process.hasFailed === true ? FAILED : null),
      isKilled: this.#isKilled,
      exitCode: this.#process.exitCode,
      goneAtMs: this.#goneAtMs,
      detail: this.#process.detail ?? null,
      meta: this.#meta,
    };
  }

  note(meta: unknown): void {
    this.#meta = meta;
  }

  /** Moves the deadlines later; says what is wrong if it may not. */
  extend(offered: OfferedDeadlines, nowMs: number): DeadlineProblem | undefined {
    if (this.#goneAtMs !== null || this.#isKeyLost || this.#isKilled) return 'stopping';
    const { leaseId, hardAfterMs } = this.#request;
    const held = { leaseId, softAtMs: this.#softAtMs, hardAtMs: this.#hardAtMs, hardAfterMs };
    const problem = extensionProblem(held, offered, nowMs);
    if (problem !== undefined) return problem;
    this.#softAtMs = offered.softAtMs;
    this.#hardAtMs = offered.hardAtMs;
    return undefined;
  }

  /** Begins or hardens a stop. Returns whether anything changed. */
  stop(stop: StopRequest, nowMs: number): boolean {
    if (this.#goneAtMs !== null || this.#isKilled) return false;
    if (stop.mode === 'hard') {
      this.#stopReason ??= stop.reason;
      this.#kill();
      return true;
    }
    if (stop.isKeyLost) this.#loseKey(nowMs);
    if (this.#stopReason !== null) return false;
    this.#beginStop(stop.reason, nowMs);
    return true;
  }

  /** Does what is due at this reading. Returns whether anything changed. */
  tick(nowMs: number, isGone: IsGone = (process) => process.isGone()): boolean {
    if (this.#goneAtMs !== null) return false;
    if (isGone(this.#process)) {
      this.#goneAtMs = nowMs;
      return true;
    }
    // That of a container is found after the answer to its start, where its engine is slow.
    let isChanged = this.#pid !== this.#process.pid;
    this.#pid = this.#process.pid;
    if (!this.#isKeyLost && nowMs >= this.#softAtMs) {
      this.#isKeyLost = true;
      if (this.#stopReason === null) {
        this.#beginStop(KEY_EXPIRED, nowMs);
        isChanged = true;
      }
    }
    if (nowMs < Math.min(this.#hardAtMs, this.#graceEndsAtMs)) return isChanged;
    const wasKilled = this.#isKilled;
    // Repeated at every tick: a process may have been forked while the first kill was on its way.
    this.#kill();
    return isChanged || !wasKilled;
  }

  /** The key is lost before its deadline: from soft to hard is all the time that is left. */
  #loseKey(nowMs: number): void {
    if (this.#isKeyLost) return;
    this.#isKeyLost = true;
    this.#hardAtMs = Math.min(this.#hardAtMs, nowMs + this.#request.softToHardMs);
  }

  #beginStop(reason: string, nowMs: number): void {
    this.#stopReason = reason;
    // A key that ran out leaves the time up to hard; every other stop has the program's own grace.
    if (!this.#isKeyLost) this.#graceEndsAtMs = nowMs + this.#request.stopGraceMs;
    this.#process.signalStop();
  }

  #kill(): void {
    this.#isKilled = true;
    this.#process.kill();
  }
}

/**
 * The deadlines of a backend: readings of the boot clock. The agent may have been paused between
 * receiving an answer and passing it on, may have been restarted, or may be one of two: so its
 * deadlines are accepted only by the rules below.
 */
export interface HeldDeadlines extends OfferedDeadlines {
  /** The ladder's length from grant to hard: no deadline may be further ahead of the agent's now. */
  readonly hardAfterMs: number;
}

type DeadlineProblem =
  | 'unknown_backend'
  | 'other_lease'
  | 'stopping'
  | 'too_late'
  | 'out_of_order'
  | 'not_later'
  | 'too_far_ahead';

/** What is wrong with deadlines that a backend would be started on; undefined when nothing is. */
export function startProblem(offered: HeldDeadlines, nowMs: number): DeadlineProblem | undefined {
  if (offered.softAtMs >= offered.hardAtMs) return 'out_of_order';
  if (offered.softAtMs <= nowMs) return 'too_late';
  // The agent has read the clock in a process of its own, whose readings may be ahead of these.
  const aheadMsMax = offered.hardAfterMs + BOOT_READINGS_APART_MS;
  return offered.hardAtMs - nowMs > aheadMsMax ? 'too_far_ahead' : undefined;
}

/**
 * What is wrong with later deadlines for a running backend; undefined when nothing is. Soft having
 * passed counts as stopping, whether or not a tick has noticed it.
 */
export function extensionProblem(
  held: HeldDeadlines,
  offered: OfferedDeadlines,
  nowMs: number,
): DeadlineProblem | undefined {
  if (offered.leaseId !== held.leaseId) return 'other_lease';
  if (held.softAtMs <= nowMs) return 'stopping';
  if (offered.softAtMs <= held.softAtMs || offered.hardAtMs <= held.hardAtMs) return 'not_later';
  return startProblem({ ...held, ...offered }, nowMs);
}

/**
 * Prepares a backend up to the point where `release` lets the program run. A release that fails is
 * reported as the end of the backend.
 */
export type Launch = (
  request: CommandStart | ContainerStart,
) => Promise<OwnedProcess & { release(): void | Promise<void> }>;

/** A program that runs without a key, or is prepared up to the point where `release` lets it run. */
export interface WarmProcess extends OwnedProcess {
  /** Where it finds its claim. */
  readonly claimFile: string;
  release(): void;
  /** Makes it a backend. A claim that fails is reported as the end of the backend. */
  claim(backendId: string, variables: Readonly<Record<string, string>>): void;
}

/** Prepares a warm process. */
export type LaunchWarm = (request: WarmStart) => Promise<WarmProcess>;

/** A process that is about to become a backend. */
interface Launched {
  readonly process: OwnedProcess;
  release(): void | Promise<void>;
  /** In place of the release: it serves nobody. */
  drop(): void;
}

/** Why a backend was not started. It never will be, unless it is {@link NOT_WARM}: its id is used up. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused';
}

/**
 * How many ids are remembered. A duplicate that comes after so many others is refused by its
 * deadlines.
 */
const SEEN_IDS_MAX = 100_000;

interface WardenOptions {
  readonly launch: Launch;
  readonly launchWarm: LaunchWarm;
  readonly nowMs: () => number;
  readonly onChange: (backend: BackendSnapshot) => void;
  /** A warm process of the agent in command has ended, and no backend has claimed it. */
  readonly onCooled: (end: WarmEnd) => void;
  /**
   * Called with the moment by which a backend must be killed next, before its program runs and after every change;
   * undefined while none exists. A program for which it throws does not run.
   */
  readonly onActBy: (atMs: number | undefined) => void;
  /** Told of what has failed at ticks and is tried again, now and then while it fails. */
  readonly onProblem: (problem: string) => void;
  /** Resolves when what follows that moment can be woken for an earlier one; waited for before a program runs. */
  readonly whenLeashed?: (() => Promise<void>) | undefined;
  readonly seenIdsMax?: number | undefined;
}

/**
 * All backends of a drone, and the clock that ends them. Nothing that an agent does or fails to do
 * leaves a backend running past its hard deadline.
 */
export class Warden {
  readonly #options: WardenOptions;
  readonly #backends = new Map<string, WardenBackend>();
  /** The newest ids that were requested: a backend is started at most once. */
  readonly #seenIds = new Set<string>();
  /** The launches that are still wanted: one that is removed early is never released. */
  readonly #launchingIds = new Set<string>();
  readonly #warm: WarmProcesses;
  readonly #isGone: IsGone;
  readonly #onUntold: (problem: string) => void;
  #actByMs: number | undefined;
  #isShuttingDown = false;

  constructor(options: WardenOptions) {
    this.#options = options;
    this.#isGone = tolerantLook(options);
    this.#onUntold = seldomProblem(options);
    this.#warm = new WarmProcesses(options, this.#isGone);
  }

  /**
   * A claim of a warm process that has ended is refused as {@link NOT_WARM}, and leaves its id unused: the backend may
   * still be started without one.
   * @throws {StartRefused} saying why; nothing runs then.
   */
  async start(request: StartRequest): Promise<BackendSnapshot> {
    const { backendId } = request;
    if ('claim' in request && !this.#warm.has(request.claim.warmId)) {
      throw new StartRefused(NOT_WARM);
    }
    this.#refuseUnlessNew(backendId);
    this.#refuseUnlessWanted(request);

    const launched = 'claim' in request ? this.#claim(request) : await this.#launchWanted(request);
    const backend = new WardenBackend(request, launched.process);
    await this.#options.whenLeashed?.();
    try {
      if (!this.#launchingIds.delete(backendId)) throw new StartRefused('not_wanted_any_more');
      // Launching took time; the program runs only if soft is still ahead.
      this.#refuseUnlessWanted(request);
      // Where it fails, the next tick tells what holds without this backend.
      this.#actByAlso(backend);
      this.#options.onActBy(this.#actByMs);
    } catch (refusal) {
      launched.drop();
      throw refusal;
    }
    this.#backends.set(backendId, backend);
    await launched.release();
    return backend.snapshot();
  }

  /**
   * What is being launched is never released. Another agent takes over: a backend that is not in
   * its list must never run, because that agent reports it as over.
   */
  cancelLaunches(): void {
    this.#launchingIds.clear();
    this.coolAll();
  }

  /**
   * Starts a process that holds no key, and has no deadlines, until a backend claims it.
   * @throws {StartRefused} when nothing is started any more.
   */
  async warm(request: WarmStart): Promise<{ claimFile: string }> {
    if (this.#isShuttingDown) throw new StartRefused('shutting_down');
    return this.#warm.start(request);
  }

  /** Kills a warm process; it has nothing to lose. Returns whether there is one. */
  cool(warmId: string): boolean {
    return this.#warm.end(warmId, true);
  }

  /** Kills all warm processes: the agent that they belong to is not in command any more, and is told nothing. */
  coolAll(): void {
    this.#warm.endAll();
  }

  /** Whether no process is left, of a backend or a warm one. */
  get isEmpty(): boolean {
    return this.aliveIds().length === 0 && this.#warm.isEmpty;
  }

  /** What is wrong with each of the offered deadlines, in order; null where nothing is. */
  extend(items: readonly ExtendRequest[]): (string | null)[] {
    const nowMs = this.#options.nowMs();
    const problems = items.map((item) => {
      const backend = this.#backends.get(item.backendId);
      return backend === undefined ? 'unknown_backend' : (backend.extend(item, nowMs) ?? null);
    });
    this.#tellActBy();
    return problems;
  }

  /**
   * Stops a backend. Returns whether it exists; one that is being launched does not, and never
   * will.
   */
  stop(stop: StopRequest): boolean {
    this.#launchingIds.delete(stop.backendId);
    const backend = this.#backends.get(stop.backendId);
    if (backend === undefined) return false;
    const isChanged = backend.stop(stop, this.#options.nowMs());
    // The loss of its key may have moved its hard deadline; those of the others have not moved.
    this.#actByAlso(backend);
    this.#tellAgain();
    if (isChanged) this.#options.onChange(backend.snapshot());
    return true;
  }

  note(backendId: string, meta: unknown): boolean {
    const backend = this.#backends.get(backendId);
    backend?.note(meta);
    return backend !== undefined;
  }

  /** The ids of the backends of which processes are left. */
  aliveIds(): string[] {
    return this.list()
      .filter((backend) => backend.state !== 'gone')
      .map((backend) => backend.backendId);
  }

  list(): BackendSnapshot[] {
    return [...this.#backends.values()].map((backend) => backend.snapshot());
  }

  /** Drops the record of a backend that is gone. */
  forget(backendId: string): boolean {
    return this.#backends.get(backendId)?.state === 'gone' && this.#backends.delete(backendId);
  }

  /** Ends everything without asking; nothing is started from now on. */
  shutdown(): void {
    this.#isShuttingDown = true;
    this.coolAll();
    for (const backendId of this.aliveIds()) {
      this.stop({ backendId, mode: 'hard', reason: 'internal', isKeyLost: false });
    }
  }

  tick(nowMs: number): void {
    for (const backend of this.#backends.values()) {
      if (backend.tick(nowMs, this.#isGone)) this.#options.onChange(backend.snapshot());
    }
    this.#warm.tick();
    this.#tellActBy();
  }

  #tellActBy(): void {
    this.#actByMs = undefined;
    for (const backend of this.#backends.values()) this.#actByAlso(backend);
    this.#tellAgain();
  }

  /** Where it fails, the deadlines hold all the same, and the next tick repeats it. */
  #tellAgain(): void {
    try {
      this.#options.onActBy(this.#actByMs);
    } catch (error) {
      this.#onUntold(`the leash cannot be told: ${String(error)}`);
    }
  }

  #actByAlso({ actByMs }: WardenBackend): void {
    if (actByMs === undefined) return;
    this.#actByMs = Math.min(this.#actByMs ?? actByMs, actByMs);
  }

  /** What lets it serve the backend is its claim, as the release does for a process that is launched. */
  #claim({ backendId, claim }: ClaimStart): Launched {
    const process = this.#warm.take(claim.warmId);
    this.#launchingIds.add(backendId);
    return {
      process,
      release: () => process.claim(backendId, claim.variables),
      drop: () => this.#warm.drop(claim.warmId, process, false),
    };
  }

  async #launchWanted(request: CommandStart | ContainerStart): Promise<Launched> {
    this.#launchingIds.add(request.backendId);
    try {
      const process = await this.#options.launch(request);
      return { process, release: () => process.release(), drop: () => process.kill() };
    } catch (error) {
      this.#launchingIds.delete(request.backendId);
      throw error;
    }
  }

  /** Uses the id up. One that runs is known even if its id is older than all that are remembered. */
  #refuseUnlessNew(backendId: string): void {
    const isKnown =
      this.#seenIds.has(backendId) ||
      this.#backends.has(backendId) ||
      this.#launchingIds.has(backendId);
    if (isKnown) throw new StartRefused('started_before');
    this.#seenIds.add(backendId);
    const [oldestId] = this.#seenIds;
    const { seenIdsMax = SEEN_IDS_MAX } = this.#options;
    if (this.#seenIds.size > seenIdsMax && oldestId !== undefined) {
      this.#seenIds.delete(oldestId);
    }
  }

  #refuseUnlessWanted(request: StartRequest): void {
    const problem = this.#isShuttingDown
      ? 'shutting_down'
      : startProblem(request, this.#options.nowMs());
    if (problem !== undefined) throw new StartRefused(problem);
    if ('container' in request && this.#isRunning(request.container.keyId)) {
      throw new StartRefused('an earlier container of its key has not ended');
    }
  }

  #isRunning(keyId: string): boolean {
    return [...this.#backends.values()].some(
      (backend) => backend.keyId === keyId && backend.state !== 'gone',
    );
  }
}

/** The processes that run without a key, until one is claimed. They belong to the agent in command. */
class WarmProcesses {
  readonly #options: Pick<WardenOptions, 'launchWarm' | 'onCooled'>;
  readonly #isGone: IsGone;
  readonly #warm = new Map<string, WarmProcess>();
  /** The launches that are still wanted. */
  readonly #launchingIds = new Set<string>();
  /** What was killed and is not gone yet, and whether the agent is to be told. */
  readonly #ending = new Map<string, { readonly process: OwnedProcess; isTold: boolean }>();

  constructor(options: Pick<WardenOptions, 'launchWarm' | 'onCooled'>, isGone: IsGone) {
    this.#options = options;
    this.#isGone = isGone;
  }

  get isEmpty(): boolean {
    return this.#warm.size === 0 && this.#ending.size === 0;
  }

  /** Whether it can be claimed: it has not ended. */
  has(warmId: string): boolean {
    const process = this.#warm.get(warmId);
    return process?.exitCode === null && !this.#isGone(process);
  }

  async start(request: WarmStart): Promise<{ claimFile: string }> {
    const { warmId } = request;
    if (this.#warm.has(warmId) || this.#launchingIds.has(warmId) || this.#ending.has(warmId)) {
      throw new StartRefused('started_before');
    }
    this.#launchingIds.add(warmId);
    const process = await this.#options.launchWarm(request).catch((error: unknown) => {
      this.#launchingIds.delete(warmId);
      throw error;
    });
    if (!this.#launchingIds.delete(warmId)) {
      process.kill();
      throw new StartRefused('not_wanted_any_more');
    }
    this.#warm.set(warmId, process);
    process.release();
    return { claimFile: process.claimFile };
  }

  /** It is somebody's from now on: no other claim finds it. */
  take(warmId: string): WarmProcess {
    const process = this.#warm.get(warmId);
    if (process === undefined) throw new StartRefused(NOT_WARM);
    this.#warm.delete(warmId);
    return process;
  }

  end(warmId: string, isTold: boolean): boolean {
    const wasLaunching = this.#launchingIds.delete(warmId);
    const process = this.#warm.get(warmId);
    if (process === undefined) return wasLaunching;
    this.#warm.delete(warmId);
    this.drop(warmId, process, isTold);
    return true;
  }

  /** Kills one that is not in the list any more, and sees to its end. */
  drop(warmId: string, process: OwnedProcess, isTold: boolean): void {
    this.#ending.set(warmId, { process, isTold });
    process.kill();
  }

  endAll(): void {
    this.#launchingIds.clear();
    for (const one of this.#ending.values()) one.isTold = false;
    for (const warmId of [...this.#warm.keys()]) this.end(warmId, false);
  }

  tick(): void {
    for (const [warmId, process] of this.#warm) {
      if (!this.#isGone(process)) continue;
      this.#warm.delete(warmId);
      this.#tell(warmId, process);
    }
    for (const [warmId, { process, isTold }] of this.#ending) {
      // Repeated: a process may have been forked while the first kill was on its way.
      process.kill();
      if (!this.#isGone(process)) continue;
      this.#ending.delete(warmId);
      if (isTold) this.#tell(warmId, process);
    }
  }

  #tell(warmId: string, { exitCode, detail = null }: OwnedProcess): void {
    this.#options.onCooled({ warmId, exitCode, detail });
  }
}
