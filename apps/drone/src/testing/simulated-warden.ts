import { randomUUID } from 'node:crypto';
import {
  StartFailed,
  type WardenLink,
  type WardenListener,
  type WardenSource,
} from '../agent/warden-link.ts';
import {
  NOT_WARM,
  type BackendSnapshot,
  type ExtendRequest,
  type IsolationFacts,
  type StartRequest,
  type StopRequest,
  type WardenIdentity,
  type WarmStart,
} from '../warden/protocol.ts';
import { type OwnedProcess, WardenBackend } from '../warden/warden.ts';

/** The isolation of a warden that keeps nothing from its programs. */
export const NOT_ISOLATED: IsolationFacts = {
  user: 'shared',
  pidNamespace: false,
  privateProc: false,
  hiddenHome: false,
  noNewPrivs: false,
  detail: 'simulated',
};

/** A simulated process: it stops when it is asked to, unless it ignores that. */
class PaperProcess implements OwnedProcess {
  readonly pid = 1;
  exitCode: number | null = null;
  readonly #ignoresStop: boolean;
  #isGone = false;

  constructor(ignoresStop: boolean) {
    this.#ignoresStop = ignoresStop;
  }

  signalStop(): void {
    if (!this.#ignoresStop) this.end(0);
  }

  kill(): void {
    this.#isGone = true;
  }

  end(exitCode: number): void {
    this.exitCode = exitCode;
    this.#isGone = true;
  }

  isGone(): boolean {
    return this.#isGone;
  }
}

/**
 * A warden without processes, for tests of the agent alone: how it behaves, and what a
 * thousand backends cost it. Deadlines and stops are the real ones.
 */
export class SimulatedWarden implements WardenLink, WardenSource {
  readonly identity: WardenIdentity = {
    clockId: randomUUID(),
    pid: 1,
    isolation: NOT_ISOLATED,
  };
  /** Whether programs that are started from now on ignore their stop signal. */
  ignoresStops = false;
  /** How often an agent took command. */
  commandCount = 0;
  readonly started: StartRequest[] = [];
  /** What was started without a key. */
  readonly warmed: WarmStart[] = [];
  /** Those of them that may be claimed. */
  readonly warmIds = new Set<string>();
  /** Where a warm process of the test finds its claim; nowhere, as if it took the claim at once. */
  claimFile = '/nowhere/claim.json';
  readonly stops: StopRequest[] = [];
  readonly #backends = new Map<string, { backend: WardenBackend; process: PaperProcess }>();
  readonly #nowMs: () => number;
  #listener: WardenListener | undefined;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Connects an agent that is not in command yet. */
  supply(listener: WardenListener): Promise<WardenLink> {
    this.#listener = listener;
    return Promise.resolve(this);
  }

  takeCommand(): Promise<void> {
    this.commandCount += 1;
    return Promise.resolve();
  }

  end(): void {
    // It never fails to answer.
  }

  /** Checks every backend, as the real warden does at each tick. */
  tick(): void {
    for (const { backend } of this.#backends.values()) {
      if (backend.tick(this.#nowMs())) this.#listener?.changed(backend.snapshot());
    }
  }

  /** Lets a backend end by itself. */
  exit(backendId: string, exitCode: number): void {
    this.#backends.get(backendId)?.process.end(exitCode);
    this.tick();
  }

  start(request: StartRequest): Promise<BackendSnapshot> {
    if (this.#backends.has(request.backendId)) {
      return Promise.reject(new StartFailed('started_before'));
    }
    if ('claim' in request && !this.warmIds.delete(request.claim.warmId)) {
      return Promise.reject(new StartFailed(NOT_WARM));
    }
    this.started.push(request);
    const process = new PaperProcess(this.ignoresStops);
    const backend = new WardenBackend(request, process);
    this.#backends.set(request.backendId, { backend, process });
    return Promise.resolve(backend.snapshot());
  }

  warm(request: WarmStart): Promise<{ claimFile: string }> {
    this.warmed.push(request);
    this.warmIds.add(request.warmId);
    return Promise.resolve({ claimFile: this.claimFile });
  }

  cool(warmId: string): Promise<boolean> {
    const isThere = this.warmIds.delete(warmId);
    if (isThere) this.#listener?.cooled({ warmId, exitCode: null, detail: null });
    return Promise.resolve(isThere);
  }

  /** Lets a warm process end by itself; the agent learns it now, or only when it claims it. */
  endWarm(warmId: string, isTold = true): void {
    this.warmIds.delete(warmId);
    if (isTold) this.#listener?.cooled({ warmId, exitCode: 1, detail: null });
  }

  extend(items: readonly ExtendRequest[]): Promise<(string | null)[]> {
    const problems = items.map(
      (item) => this.#backends.get(item.backendId)?.backend.extend(item, this.#nowMs()) ?? null,
    );
    return Promise.resolve(problems);
  }

  stop(stop: StopRequest): Promise<boolean> {
    this.stops.push(stop);
    const isChanged = this.#backends.get(stop.backendId)?.backend.stop(stop, this.#nowMs());
    this.tick();
    return Promise.resolve(isChanged !== undefined);
  }

  note(backendId: string, meta: unknown): Promise<void> {
    this.#backends.get(backendId)?.backend.note(meta);
    return Promise.resolve();
  }

  alive(): Promise<string[]> {
    const living = [...this.#backends].filter(([, { backend }]) => backend.state !== 'gone');
    return Promise.resolve(living.map(([backendId]) => backendId));
  }

  list(): Promise<BackendSnapshot[]> {
    return Promise.resolve([...this.#backends.values()].map(({ backend }) => backend.snapshot()));
  }

  forget(backendId: string): Promise<void> {
    this.#backends.delete(backendId);
    return Promise.resolve();
  }

  shutdown(): Promise<void> {
    this.#backends.clear();
    return Promise.resolve();
  }

  close(): void {
    this.#listener = undefined;
  }
}
