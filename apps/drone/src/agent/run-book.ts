/**
 * All backends that a drone has to do with, and the actions of controllers on them.
 *
 * At most once: a backend id is on the disk before anything is done about it, and a repeated
 * request is only acknowledged. A spawn that cannot be carried out is refused with a reason, which
 * frees its key; before that, its id is recorded as never to be started.
 */
import type { SpawnAction, TerminateAction } from '@leasehold/api';
import { isFirstGrantPlausible } from '@leasehold/keys-core';
import type { DroneConfig } from '../config.ts';
import type { BackendSnapshot } from '../warden/protocol.ts';
import { BackendRun, endReasonOf, type RunContext, type StopRequest } from './backend-run.ts';
import { ReportLine, type ReportBody, type ReportContext } from './drone-session.ts';
import type { BackendMark, SeenBackends } from './seen-backends.ts';
import { hasOutlivedKey, WardenLost, type WardenLink } from './warden-link.ts';
import { readNotes, requestProblem, type KeptWarm } from './work.ts';

interface RunBookOptions {
  readonly config: Pick<DroneConfig, 'capacity' | 'programs'>;
  /** Opens the drone's memory as it is now; only the agent in command may, because it replaces the file. */
  readonly openSeen: () => SeenBackends;
  readonly runContext: Omit<RunContext, 'onFinished'>;
  readonly reportContext: Omit<ReportContext, 'onKill' | 'onNotAllowed'>;
  /** A warm process that the spawn may claim, and no other one. */
  readonly reserve: (action: SpawnAction) => KeptWarm | undefined;
  /** The clock that local times belong to; undefined while there is no warden. */
  readonly clockId: () => string | undefined;
  readonly isStopping: () => boolean;
  /** This is all that the warden runs; nothing is started before this is called. */
  readonly onAdopted: (snapshots: readonly BackendSnapshot[]) => void;
  /** A backend that has ended was reported, and is not known here any more. */
  readonly onForgotten: () => void;
  /** A run has begun and waits for its first renewal. */
  readonly onSpawned: (run: BackendRun) => void;
}

/** See the protocol at the top of this file. */
export class RunBook {
  readonly #options: RunBookOptions;
  readonly #runs = new Map<string, BackendRun>();
  readonly #runContext: RunContext;
  readonly #reportContext: ReportContext;
  #isClosed = false;
  #seen: SeenBackends | undefined;
  /** Whether all that the warden runs is known. */
  #isAdopted = false;
  /** What the warden has reported before that. */
  readonly #early: BackendSnapshot[] = [];

  constructor(options: RunBookOptions) {
    this.#options = options;
    this.#runContext = {
      ...options.runContext,
      onFinished: (backendId) => this.#forget(backendId),
    };
    this.#reportContext = {
      ...options.reportContext,
      onKill: (backendId) => {
        this.#runs.get(backendId)?.stop({ mode: 'hard', reason: 'revoked', isKeyLost: true });
      },
      onNotAllowed: (backendId) => {
        const problem = "the token of this drone does not allow the backend's address";
        this.#runs.get(backendId)?.giveUpOn(problem, 'hard');
      },
    };
  }

  /** Whether all that the warden runs is known: before that, a backend that is not here may run all the same. */
  get isAdopted(): boolean {
    return this.#isAdopted && !this.#isClosed;
  }

  get size(): number {
    return this.#runs.size;
  }

  has(backendId: string): boolean {
    return this.#runs.has(backendId);
  }

  all(): BackendRun[] {
    return [...this.#runs.values()];
  }

  /** Resolves when the action may be acknowledged. */
  async act(action: SpawnAction | TerminateAction): Promise<void> {
    await (action.kind === 'spawn' ? this.#spawn(action) : this.#terminate(action));
  }

  /** Takes over what the warden has from an earlier agent, and reports the rest as over. */
  async adopt(warden: WardenLink): Promise<void> {
    const snapshots = await warden.list();
    // Another agent may be in command by now, and has the file.
    if (this.#isClosed) return;
    const seen = this.#options.openSeen();
    this.#seen?.close();
    this.#seen = seen;
    this.#isAdopted = true;
    this.#options.onAdopted(snapshots);
    for (const snapshot of snapshots) this.#adoptOne(warden, snapshot);
    const known = new Set(snapshots.map((snapshot) => snapshot.backendId));
    for (const backendId of seen.unfinished(warden.identity.clockId)) {
      // This warden has never started it, and nobody else will.
      if (!known.has(backendId)) {
        const detail = 'the agent ended before it was started';
        this.#reportTerminated(backendId, { reason: 'internal', detail });
      }
    }
    const ended = new Set(
      snapshots.filter(({ state }) => state === 'gone').map(({ backendId }) => backendId),
    );
    for (const snapshot of this.#early.splice(0)) {
      if (!ended.has(snapshot.backendId)) this.observe(snapshot);
    }
  }

  /** Takes a report of the warden about a backend. */
  observe(snapshot: BackendSnapshot): void {
    if (!this.#isAdopted) {
      // What ends before everything is adopted has its own reason.
      this.#early.push(snapshot);
      return;
    }
    const run = this.#runs.get(snapshot.backendId);
    if (run !== undefined) run.observe(snapshot);
    else if (snapshot.state === 'gone') this.#reportUnadopted(snapshot);
  }

  stopAll(request: StopRequest): void {
    for (const run of this.all()) run.stop(request);
  }

  /** The warden is gone, and all backends with it: their keys run out. */
  abandonAll(): void {
    for (const run of this.all()) run.abandon();
    this.#runs.clear();
    this.#isAdopted = false;
    this.#early.length = 0;
  }

  /** Sends no more reports, and leaves everything as it is. */
  close(): void {
    this.#isClosed = true;
    for (const run of this.all()) run.reports.close();
    this.#seen?.close();
  }

  /** @throws {WardenLost} before this agent has been in command. */
  get #memory(): SeenBackends {
    if (this.#seen === undefined) throw new WardenLost('there is no warden');
    return this.#seen;
  }

  async #spawn(action: SpawnAction): Promise<void> {
    const { backendId } = action;
    const seen = this.#memory.get(backendId);
    if (seen !== undefined && seen.mark !== 'never') return;
    const program = this.#options.config.programs[action.program];
    const problem =
      seen === undefined
        ? (this.#problemOf(action) ?? this.#noteStart(backendId))
        : 'it must not be started';
    if (problem !== undefined || program === undefined) {
      await this.#refuse(action, problem ?? '');
      return;
    }
    const { leaseId, fencingToken, ladder } = action;
    const programName = action.program;
    const run = BackendRun.spawned(
      { backendId, leaseId, fencingToken, ladder, program, programName },
      this.#runContext,
      {
        reports: new ReportLine(backendId, this.#reportContext, ladder),
        action,
        plan: {
          key: action.key,
          args: action.args,
          env: action.env,
          lifetimeLimitMs: lifetimeMs(action.lifetimeLimitSeconds, program.lifetimeLimitSeconds),
          warm: this.#options.reserve(action),
        },
      },
    );
    this.#runs.set(backendId, run);
    this.#options.runContext.log.info({ backendId, program: programName }, 'starting a backend');
    this.#options.onSpawned(run);
  }

  /**
   * Why a spawn cannot be carried out, for an operator; undefined when it can. Deadlines that were
   * computed for another clock would let a backend run for as long as the clocks differ.
   */
  #problemOf(action: SpawnAction): string | undefined {
    const { config, clockId, isStopping, runContext } = this.#options;
    if (isStopping()) return 'the drone is stopping';
    if (action.clockId !== clockId()) return 'its deadlines are of another clock';
    if (!isFirstGrantPlausible(action.deadlines, action.ladder, runContext.nowMs())) {
      return 'its deadlines have passed, or are of another clock';
    }
    const program = config.programs[action.program];
    if (program === undefined) return 'the drone does not offer the program';
    const { refusal } = runContext.workOf(program);
    if (refusal !== undefined) return refusal;
    if (this.#runs.size >= config.capacity) return 'the drone is full';
    const instances = this.all().filter((run) => run.identity.programName === action.program);
    const instancesMax = program.resources?.instancesMax ?? Number.POSITIVE_INFINITY;
    if (instances.length >= instancesMax) return 'the drone is at its limit for this program';
    return requestProblem(program, action);
  }

  /** Why it must not be started, for an operator: what is not written down could be started twice. */
  #noteStart(backendId: string): string | undefined {
    try {
      this.#mark(backendId, 'started');
      return undefined;
    } catch (error) {
      const cause = error instanceof Error ? error.message : String(error);
      return `the drone cannot write to its state folder: ${cause}`;
    }
  }

  async #refuse({ backendId, program, ladder }: SpawnAction, detail: string): Promise<void> {
    this.#mark(backendId, 'never');
    this.#options.runContext.log.warn({ backendId, program, detail }, 'refused to start a backend');
    const line = new ReportLine(backendId, this.#reportContext, ladder);
    await line.send({ status: 'terminated', reason: 'internal', refused: true, detail });
  }

  async #terminate(action: TerminateAction): Promise<void> {
    const { backendId, mode, reason } = action;
    const run = this.#runs.get(backendId);
    if (run !== undefined) {
      run.trace.asked(action);
      await run.stopAcknowledged({ mode, reason, isKeyLost: false });
      return;
    }
    const warden = this.#options.runContext.warden();
    const seen = this.#memory.get(backendId);
    if (seen === undefined) this.#mark(backendId, 'never');
    // One of an earlier warden may have left descendants: its key runs out by itself.
    else if (seen.mark === 'started' && seen.clockId !== warden.identity.clockId) return;
    // One that could not be adopted still runs. Its end is reported when the warden reports it.
    if (await warden.stop({ backendId, mode, reason, isKeyLost: false })) return;
    await new ReportLine(backendId, this.#reportContext).send({ status: 'terminated', reason });
  }

  #adoptOne(warden: WardenLink, snapshot: BackendSnapshot): void {
    const { backendId, pid, state } = snapshot;
    const { log } = this.#options.runContext;
    const notes = readNotes(snapshot.meta);
    const program = notes && this.#options.config.programs[notes.program];
    if (notes === undefined || program === undefined) {
      log.warn({ backendId }, 'cannot adopt a backend whose program is not offered any more');
      this.#stopUnadopted(warden, snapshot);
      return;
    }
    const { leaseId, fencingToken, ladder, program: programName } = notes;
    const run = BackendRun.adopted(
      { backendId, leaseId, fencingToken, ladder, program, programName },
      this.#runContext,
      { reports: new ReportLine(backendId, this.#reportContext, ladder), notes, snapshot },
    );
    this.#runs.set(backendId, run);
    log.info({ backendId, pid, state }, 'adopted a backend');
  }

  #stopUnadopted(warden: WardenLink, snapshot: BackendSnapshot): void {
    if (snapshot.state === 'gone') {
      this.observe(snapshot);
      return;
    }
    const { backendId } = snapshot;
    // Nobody renews it, so its deadlines end it even if this is lost.
    const stop = { backendId, mode: 'soft', reason: 'external', isKeyLost: true } as const;
    void warden.stop(stop).catch(() => undefined);
  }

  /** With its own end, as the warden has seen it. */
  #reportUnadopted(snapshot: BackendSnapshot): void {
    const { backendId, exitCode, detail, meta, softAtMs } = snapshot;
    const ladder = readNotes(meta)?.ladder;
    this.#reportTerminated(backendId, {
      reason: endReasonOf(snapshot),
      ...(exitCode !== null && { exitCode }),
      ...(typeof detail === 'string' && { detail }),
      ...(ladder && hasOutlivedKey(snapshot, softAtMs, ladder) && { hasOutlivedKey: true }),
    });
  }

  #reportTerminated(backendId: string, end: Omit<ReportBody, 'status'>): void {
    const line = new ReportLine(backendId, this.#reportContext);
    void line.send({ status: 'terminated', ...end }).then(() => this.#forget(backendId));
  }

  #forget(backendId: string): void {
    if (this.#isClosed) return;
    this.#runs.delete(backendId);
    this.#mark(backendId, 'done');
    this.#options.onForgotten();
    // The warden keeps an exit until it receives this: if it does not, the next agent reports it again.
    if (this.#options.clockId() === undefined) return;
    void this.#options.runContext
      .warden()
      .forget(backendId)
      .catch(() => undefined);
  }

  #mark(backendId: string, mark: BackendMark): void {
    this.#memory.mark({ backendId, mark, clockId: this.#options.clockId() ?? '' });
  }
}

/** A controller that was not told the program's own limit may have asked for more. */
function lifetimeMs(asked: number | null, ofProgram: number | undefined): number | null {
  const seconds = Math.min(asked ?? Infinity, ofProgram ?? Infinity);
  return seconds === Infinity ? null : seconds * 1_000;
}
