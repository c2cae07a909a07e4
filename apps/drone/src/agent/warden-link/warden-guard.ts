import type { BackendRun } from '../backend/backend-run.ts';
import type { Log } from '../log.ts';
import type { WardenLink } from './warden-link.ts';

/** A warden that does not answer, and when its backends must be gone. */
interface SilentWarden {
  readonly pid: number;
  readonly killAtMs: number;
  isKilled: boolean;
}

/**
 * Guards the warden, as the warden guards the backends: one that does not answer when a backend is
 * to stop is killed before that backend's hard deadline, whatever else the agent is doing.
 */
export class WardenGuard {
  readonly #end: (pid: number) => void;
  readonly #log: Log;
  #silent: SilentWarden | undefined;
  #isAsking = false;

  constructor(options: { end: (pid: number) => void; log: Log }) {
    this.#end = options.end;
    this.#log = options.log;
  }

  /** Whether a warden that does not answer may still have backends, and is not killed yet. */
  get isWaiting(): boolean {
    return this.#silent !== undefined && !this.#silent.isKilled;
  }

  /**
   * Past a backend's soft deadline nothing else may ask the warden about it. The link gives the
   * warden up when it does not reply.
   */
  ask(warden: WardenLink, runs: readonly BackendRun[], nowMs: number): void {
    if (this.#isAsking || !runs.some((run) => (run.watch?.askAtMs ?? Infinity) <= nowMs)) return;
    this.#isAsking = true;
    const answered = (): void => {
      this.#isAsking = false;
    };
    warden.alive().then(answered, answered);
  }

  /** The connection has ended, and these backends may still run. */
  lost(warden: WardenLink, runs: readonly BackendRun[]): void {
    const { pid } = warden.identity;
    const moments = runs.flatMap(({ watch }) => (watch === undefined ? [] : [watch.killAtMs]));
    // Lost again before it listed what it runs: what is known from the first time still counts.
    if (this.#silent?.pid === pid) moments.push(this.#silent.killAtMs);
    if (moments.length === 0) return;
    this.#silent = { pid, killAtMs: Math.min(...moments), isKilled: false };
  }

  /** A warden answers again, or another one is there. */
  found(): void {
    this.#silent = undefined;
  }

  tick(nowMs: number): void {
    const silent = this.#silent;
    if (silent === undefined || silent.isKilled || nowMs < silent.killAtMs) return;
    silent.isKilled = true;
    this.#log.error({ wardenPid: silent.pid }, 'the warden does not answer; it is killed');
    this.#end(silent.pid);
  }
}
