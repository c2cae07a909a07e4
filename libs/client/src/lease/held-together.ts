/** Leases of one process that were acquired together, as one: the first that is lost takes the others with it. */
import { onAbort } from '@leasehold/service-kit/signals';
import { Ending } from '../signals.ts';
import type { HeldLease } from './held-lease.ts';
import { LeaseLost, type Lease, type ReleaseReport } from './lease.ts';

/** One of the leases: what a guarded write is sent with. */
export type LeaseGrant = Pick<Lease, 'leaseId' | 'fencingToken' | 'namespace' | 'key'>;

/**
 * Several leases that this process holds together, made by `leasehold.acquireAll`. They are renewed by one call, and
 * released by one. `await using` releases them at the end of the block.
 */
export interface LeasesTogether extends AsyncDisposable {
  /** In the order in which they were asked for. Each has a fencing token of its own scope. */
  readonly grants: readonly LeaseGrant[];
  /**
   * Aborts when the first of them is lost, with its `LeaseLost` as the reason: see `Lease.signal`. The others are
   * released then. It never aborts after {@link release}.
   */
  readonly signal: AbortSignal;
  /** Aborts when the first of them will not be renewed any more: see `Lease.revoking`. */
  readonly revoking: AbortSignal;
  /** Whether the holder may act on all of them now. */
  readonly isHeld: boolean;
  /** Call it right before a guarded act. @throws as `Lease.assertHeld`, for any of them. */
  assertHeld(): void;
  /** As {@link assertHeld}, but waits for the controller's answer if one is unconfirmed. @throws {LeaseLost} */
  confirm(): Promise<void>;
  /** The least time until a deadline of them, without a renewal; 0 if they are over. Milliseconds. */
  remainingMs(): number;
  /** Runs `fn` with all of them in its context: see `Lease.run`. Does not release them. */
  run<T>(fn: () => T): T;
  /**
   * Releases all of them: see `Lease.release`. Safe to repeat: only the first call counts.
   * @returns `released` if all were, otherwise what became of the first that was not.
   */
  release(result?: 'ok' | 'failed', detail?: string): Promise<ReleaseReport>;
}

export class HeldTogether implements LeasesTogether {
  readonly #leases: readonly HeldLease[];
  readonly #closing: AbortSignal;
  readonly #ending = new Ending();
  readonly #notice = new Ending();
  #lost: LeaseLost | undefined;
  #release: Promise<ReleaseReport> | undefined;
  #isKept = false;

  /** `closing` aborts when the client is closed: then nothing is released, because the work may go on. */
  constructor(leases: readonly HeldLease[], closing: AbortSignal) {
    this.#leases = leases;
    this.#closing = closing;
    for (const lease of leases) {
      onAbort(lease.revoking, (reason) => this.#notice.end(reason));
      onAbort(lease.signal, (reason) => this.#end(reason));
    }
  }

  get grants(): readonly LeaseGrant[] {
    return this.#leases.map(({ leaseId, fencingToken, namespace, key }) => ({
      leaseId,
      fencingToken,
      namespace,
      key,
    }));
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  get revoking(): AbortSignal {
    return this.#notice.signal;
  }

  get isHeld(): boolean {
    return this.#lost === undefined && this.#leases.every((lease) => lease.isHeld);
  }

  assertHeld(): void {
    // First: the others are released for it.
    if (this.#lost !== undefined) throw this.#lost;
    for (const lease of this.#leases) lease.assertHeld();
  }

  async confirm(): Promise<void> {
    if (this.#lost !== undefined) throw this.#lost;
    await Promise.all(this.#leases.map((lease) => lease.confirm()));
  }

  remainingMs(): number {
    return this.#lost === undefined
      ? Math.min(...this.#leases.map((lease) => lease.remainingMs()))
      : 0;
  }

  run<T>(fn: () => T): T {
    const runAll = this.#leases.reduceRight<() => T>((inner, lease) => () => lease.run(inner), fn);
    return runAll();
  }

  /** @see {@link keepUntilReleased} */
  keep(): void {
    this.#isKept = true;
  }

  release(result: 'ok' | 'failed' = 'ok', detail?: string): Promise<ReleaseReport> {
    this.#release ??= this.#releaseAll(result, detail);
    return this.#release;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #releaseAll(result: 'ok' | 'failed', detail: string | undefined): Promise<ReleaseReport> {
    const reports = await Promise.all(this.#leases.map((lease) => lease.release(result, detail)));
    return reports.find((report) => report !== 'released') ?? 'released';
  }

  /** One is lost, or the work that they belong to is over: then they are held until they are released, or run out. */
  #end(reason: unknown): void {
    if (this.#release !== undefined) return;
    if (this.#lost === undefined && this.#isOneLostBy(reason)) {
      this.#lost = reason;
      // What is left of them guards nothing any more.
      if (!this.#closing.aborted && !this.#isKept) void this.release('failed', reason.message);
    }
    this.#ending.end(reason);
  }

  /** The work that they belong to may be over because its own lease is lost. */
  #isOneLostBy(reason: unknown): reason is LeaseLost {
    if (!(reason instanceof LeaseLost)) return false;
    const lostId = reason.grant?.leaseId;
    return this.#leases.some(({ leaseId }) => leaseId === lostId);
  }
}

/**
 * For a holder whose work goes on for a while after the signal, as a command until it is killed: when one of the leases
 * is lost, the others are not released, and are renewed until `release` is called.
 */
export function keepUntilReleased(leases: LeasesTogether): void {
  if (leases instanceof HeldTogether) leases.keep();
}
