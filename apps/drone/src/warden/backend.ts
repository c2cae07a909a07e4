import { BOOT_READINGS_APART_MS } from '@leasehold/service-kit/boot-clock';
import type {
  BackendSnapshot,
  BackendState,
  OfferedDeadlines,
  StartRequest,
  StopRequest,
} from './protocol.ts';

/** What the warden needs of a backend's processes, or of its container. */
export interface OwnedProcess {
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
  #isGone = false;

  constructor(request: StartRequest, process: OwnedProcess) {
    this.#request = request;
    this.#process = process;
    this.#softAtMs = request.softAtMs;
    this.#hardAtMs = request.hardAtMs;
    this.#meta = request.meta;
  }

  /** The key that it runs for, where no other backend of that key may run beside it. */
  get keyId(): string | undefined {
    return 'container' in this.#request ? this.#request.container.keyId : undefined;
  }

  get state(): BackendState {
    if (this.#isGone) return 'gone';
    return this.#stopReason === null ? 'running' : 'stopping';
  }

  /** When it must have been killed at the latest; undefined once it has been, or is gone. */
  get actByMs(): number | undefined {
    return this.#isKilled || this.#isGone ? undefined : this.#hardAtMs + this.#request.leashMs;
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
      detail: this.#process.detail ?? null,
      meta: this.#meta,
    };
  }

  note(meta: unknown): void {
    this.#meta = meta;
  }

  /** Moves the deadlines later; says what is wrong if it may not. */
  extend(offered: OfferedDeadlines, nowMs: number): DeadlineProblem | undefined {
    if (this.#isGone || this.#isKeyLost || this.#isKilled) return 'stopping';
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
    if (this.#isGone || this.#isKilled) return false;
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
  tick(nowMs: number): boolean {
    if (this.#isGone) return false;
    if (this.#process.isGone()) {
      this.#isGone = true;
      return true;
    }
    let isChanged = false;
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
