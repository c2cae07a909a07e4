import type { Clock } from '../kernel/clock.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { RefusalReason, ReleaseOutcome } from '../kernel/lease.ts';
import type { CoordinatorHeartbeat } from './coordinator-types.ts';
import type { LeaseDeadlines } from './lease-types.ts';

/** How long to wait before a heartbeat that had no answer is sent again. */
const RETRY_MS = 250;

export interface Holding {
  /** The clock that the deadlines are in. */
  readonly clock: Clock;
  readonly deadlines: LeaseDeadlines;
  readonly heartbeat: () => Promise<CoordinatorHeartbeat>;
}

/** Nothing is known of work that is lost: it may still be running. */
export type WorkOutcome<Result> =
  | { readonly outcome: 'done'; readonly result: Result }
  | { readonly outcome: 'failed'; readonly failure: unknown }
  | { readonly outcome: 'lost'; readonly error: LeaseError };

/** Runs work and renews its lease meanwhile; never rejects. Nothing is renewed afterwards. */
export async function workWhileHeld<Result>(
  holding: Holding,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<WorkOutcome<Result>> {
  const renewer = new Renewer(holding);
  const lost = renewer.start();
  try {
    const ended = await Promise.race([lost, outcomeOf(work, renewer.signal)]);
    // The release would meet the lock of a heartbeat that is under way.
    const lostMeanwhile = await Promise.race([lost, renewer.drain()]);
    return ended.outcome === 'done' ? (lostMeanwhile ?? ended) : ended;
  } finally {
    renewer.stop();
  }
}

/** Why a lease is lost, for its holder: a grant that is no longer known counts as expired. */
export function lossOf(how: RefusalReason | ReleaseOutcome, cause?: unknown): LeaseError {
  const reasons: Partial<Record<typeof how, string>> = {
    not_found: 'expired',
    renewal_blocked: 'revoked',
    already_released: 'released',
  };
  const details = { reason: reasons[how] ?? how };
  return new LeaseError('lease.lost', undefined, { details, cause });
}

async function outcomeOf<Result>(
  work: (signal: AbortSignal) => Promise<Result>,
  signal: AbortSignal,
): Promise<WorkOutcome<Result>> {
  try {
    signal.throwIfAborted();
    return { outcome: 'done', result: await work(signal) };
  } catch (failure) {
    return { outcome: 'failed', failure };
  }
}

/** Renews a lease until it is stopped or the lease is lost. */
class Renewer {
  readonly #holding: Holding;
  readonly #abort = new AbortController();
  #isDraining = false;
  #isOver = false;
  #renewing: Promise<void> | undefined;
  #cancelRenewal = (): void => undefined;
  #cancelDeadline = (): void => undefined;
  #onLost: (lost: WorkOutcome<never>) => void = () => undefined;
  /** Why the latest heartbeat had no answer. */
  #failure: unknown;

  constructor(holding: Holding) {
    this.#holding = holding;
  }

  /** Aborts when the work is to stop. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** @returns a promise that resolves when the lease is lost. */
  start(): Promise<WorkOutcome<never>> {
    const lost = new Promise<WorkOutcome<never>>((resolve) => {
      this.#onLost = resolve;
    });
    const { clock, deadlines } = this.#holding;
    if (clock.nowMs() >= deadlines.loseAtMs) this.#lose();
    else this.#keep(deadlines);
    return lost;
  }

  /** Begins no other heartbeat. Resolves when the one that is under way has ended. */
  async drain(): Promise<undefined> {
    this.#isDraining = true;
    this.#cancelRenewal();
    await this.#renewing;
    return undefined;
  }

  stop(): void {
    this.#isOver = true;
    this.#cancelRenewal();
    this.#cancelDeadline();
  }

  #keep({ renewAtMs, loseAtMs }: LeaseDeadlines): void {
    this.#failure = undefined;
    this.#cancelDeadline();
    this.#cancelDeadline = this.#holding.clock.at(loseAtMs, () => this.#lose());
    this.#renewAt(renewAtMs);
  }

  #renewAt(atMs: number): void {
    if (this.#isDraining) return;
    this.#cancelRenewal = this.#holding.clock.at(atMs, () => {
      this.#renewing = this.#renew();
    });
  }

  async #renew(): Promise<void> {
    const { clock, heartbeat } = this.#holding;
    try {
      const answer = await heartbeat();
      if (this.#isOver) return;
      if (answer.outcome === 'renewed') this.#keep(answer.deadlines);
      // Revoked in good time: it lasts until its deadline, and the work may end properly.
      else if (answer.reason === 'renewal_blocked') this.#abort.abort(lossOf(answer.reason));
      else this.#lose(lossOf(answer.reason));
    } catch (error) {
      if (this.#isOver) return;
      this.#failure = error;
      this.#renewAt(clock.nowMs() + RETRY_MS);
    }
  }

  #lose(error?: LeaseError): void {
    if (this.#isOver) return;
    this.stop();
    // Work that was told of a revocation keeps that reason.
    const told = this.signal.aborted ? (this.signal.reason as LeaseError) : undefined;
    const lost = told ?? error ?? lossOf('expired', this.#failure);
    this.#onLost({ outcome: 'lost', error: lost });
    this.#abort.abort(lost);
  }
}
