import { startProblem, WardenBackend, type OwnedProcess } from './backend.ts';
import type { BackendSnapshot, ExtendRequest, StartRequest, StopRequest } from './protocol.ts';

/**
 * Prepares a backend up to the point where `release` lets the program run. A release that fails is
 * reported as the end of the backend.
 */
export type Launch = (
  request: StartRequest,
) => Promise<OwnedProcess & { release(): void | Promise<void> }>;

/** Why a backend was not started. It never will be: its id is used up. */
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
  readonly nowMs: () => number;
  readonly onChange: (backend: BackendSnapshot) => void;
  /**
   * Called with the moment by which a backend must be killed next, before its program runs and
   * after every change; undefined while none exists.
   */
  readonly onActBy: (atMs: number | undefined) => void;
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
  #actByMs: number | undefined;
  #isShuttingDown = false;

  constructor(options: WardenOptions) {
    this.#options = options;
  }

  /** @throws {StartRefused} saying why; nothing runs then. */
  async start(request: StartRequest): Promise<BackendSnapshot> {
    const { backendId } = request;
    this.#refuseUnlessNew(backendId);
    this.#refuseUnlessWanted(request);

    const process = await this.#launchWanted(request);
    try {
      if (!this.#launchingIds.delete(backendId)) throw new StartRefused('not_wanted_any_more');
      // Launching took time; the program runs only if soft is still ahead.
      this.#refuseUnlessWanted(request);
    } catch (refusal) {
      process.kill();
      throw refusal;
    }
    const backend = new WardenBackend(request, process);
    this.#backends.set(backendId, backend);
    this.#tellActByAlso(backend);
    await process.release();
    return backend.snapshot();
  }

  /**
   * What is being launched is never released. Another agent takes over: a backend that is not in
   * its list must never run, because that agent reports it as over.
   */
  cancelLaunches(): void {
    this.#launchingIds.clear();
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
    // The loss of its key may have moved its hard deadline.
    this.#tellActByAlso(backend);
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
    for (const backendId of this.aliveIds()) {
      this.stop({ backendId, mode: 'hard', reason: 'internal', isKeyLost: false });
    }
  }

  tick(nowMs: number): void {
    for (const backend of this.#backends.values()) {
      if (backend.tick(nowMs)) this.#options.onChange(backend.snapshot());
    }
    this.#tellActBy();
  }

  #tellActBy(): void {
    this.#actByMs = undefined;
    for (const backend of this.#backends.values()) this.#actByAlso(backend);
    this.#options.onActBy(this.#actByMs);
  }

  /** For a backend that is new, or whose deadline may have moved earlier: the others need no check. */
  #tellActByAlso(backend: WardenBackend): void {
    this.#actByAlso(backend);
    this.#options.onActBy(this.#actByMs);
  }

  #actByAlso({ actByMs }: WardenBackend): void {
    if (actByMs === undefined) return;
    this.#actByMs = Math.min(this.#actByMs ?? actByMs, actByMs);
  }

  async #launchWanted(request: StartRequest): ReturnType<Launch> {
    this.#launchingIds.add(request.backendId);
    try {
      return await this.#options.launch(request);
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
