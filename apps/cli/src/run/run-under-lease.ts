import { TICK_MS, type TickingClock } from '@leasehold/service-kit';
import type { CommandEnd, GuardDeadlines } from './guard-protocol.ts';
import type { GuardLink } from './guard-link.ts';

/** What is needed of a lease that a command runs under. */
export interface RunLease {
  /** Until the holder's own deadline; 0 from then on. */
  remainingMs(): number;
  /** Aborted when the lease is lost. */
  readonly signal: AbortSignal;
  /** Aborted when it will not be renewed any more. */
  readonly revoking: AbortSignal;
}

export interface RunOptions {
  readonly command: readonly string[];
  /** Added to the environment of the command. */
  readonly environment: Readonly<Record<string, string>>;
  readonly lease: RunLease;
  readonly guard: GuardLink;
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** The boot clock, which the guard reads too. */
  readonly clock: TickingClock;
  /** Told once, as a stop begins, with the time that the command has left. */
  readonly onStopping: (stop: Stop, leftMs: number) => void;
}

/** Why a command was stopped. */
export type Stop =
  { readonly why: 'deadline' } | { readonly why: 'lost' | 'revoking'; readonly reason: unknown };

/** How a command ended, and why it was stopped, if it was. */
export interface RunEnd extends CommandEnd {
  readonly stop: Stop | undefined;
  /** Whether it had ended before the holder's own deadline. */
  readonly isInTime: boolean;
}

/** The guard looks at the clock once per tick, so it is told to act by this much earlier. */
const MARGIN_MS = 2 * TICK_MS;

/** A guard that has done nothing this long after its deadline does not work: it is done without it. */
const GUARD_LATE_MS = 500;

/**
 * Runs a command under a lease, and ends it before the lease is lost: gently when it is not renewed
 * any more, at once when it is lost already.
 * @throws {CliFailure} `run.not_started`.
 */
export async function runUnderLease(options: RunOptions): Promise<RunEnd> {
  const { command, environment, lease, clock, guard, graceMs } = options;
  const deadlinesNow = (): GuardDeadlines => {
    // Read before what is left is: the sum is never too late.
    const nowMs = clock.nowMs();
    const hardAtMs = nowMs + lease.remainingMs() - MARGIN_MS;
    return { softAtMs: hardAtMs - graceMs, hardAtMs };
  };
  let sent = deadlinesNow();
  let stop: Stop | undefined;
  // What the guard does counts, not what it was asked: the command may have ended before.
  let isStopped = false;
  const begin = (reason: Stop): void => {
    if (stop !== undefined) return;
    stop = reason;
    options.onStopping(reason, sent.hardAtMs - clock.nowMs());
  };

  const over = new AbortController();
  const whenAborted = (signal: AbortSignal, act: () => void): void => {
    if (signal.aborted) act();
    else signal.addEventListener('abort', act, { signal: over.signal });
  };
  const stopTicking = clock.onTick((nowMs) => {
    const next = deadlinesNow();
    if (next.hardAtMs > sent.hardAtMs + TICK_MS) {
      sent = next;
      guard.extend(sent);
    }
    if (nowMs > sent.hardAtMs + GUARD_LATE_MS) guard.kill();
  });
  try {
    const ended = guard.run({
      ...{ command, environment, deadlines: sent },
      onStopping: (_kind, cause) => {
        isStopped = true;
        if (cause === 'deadline') begin({ why: 'deadline' });
      },
    });
    whenAborted(lease.revoking, () => {
      begin({ why: 'revoking', reason: lease.revoking.reason });
      guard.stop('soft');
    });
    whenAborted(lease.signal, () => {
      begin({ why: 'lost', reason: lease.signal.reason });
      guard.stop('hard');
    });
    const { exitCode, signal, atMs } = await ended;
    const isInTime = atMs <= sent.hardAtMs + MARGIN_MS;
    return { exitCode, signal, stop: isStopped ? stop : undefined, isInTime };
  } finally {
    over.abort();
    stopTicking();
  }
}
