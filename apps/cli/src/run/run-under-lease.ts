import type { Lease } from '@leasehold/client';
import { TICK_MS, type TickingClock } from '@leasehold/service-kit';
import type { CommandEnd, GuardDeadlines } from './guard-protocol.ts';
import type { GuardLink } from './guard-link.ts';

export interface RunOptions {
  readonly command: readonly string[];
  /** Added to the environment of the command. */
  readonly environment: Readonly<Record<string, string>>;
  readonly lease: Pick<Lease, 'remainingMs' | 'signal' | 'revoking'>;
  readonly guard: GuardLink;
  /** How long before the lease is lost the command is asked to stop. */
  readonly graceMs: number;
  /** The boot clock, which the guard reads too. */
  readonly clock: TickingClock;
  /** Called once, as a stop begins, with the time that the command has left. */
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

/**
 * Runs a command under a lease, and ends it before the lease is lost: gently when it is not renewed
 * any more, at once when it is lost already.
 * @throws {CliFailure} `run.not_started`.
 */
export async function runUnderLease(options: RunOptions): Promise<RunEnd> {
  const { command, environment, lease, clock, guard, graceMs } = options;
  const deadlinesNow = (): GuardDeadlines => {
    // Read before the remaining time, so that the sum is never too late.
    const nowMs = clock.nowMs();
    const loseAtMs = nowMs + lease.remainingMs();
    return { softAtMs: loseAtMs - graceMs, hardAtMs: loseAtMs - MARGIN_MS };
  };
  let sent = deadlinesNow();
  const stops: Stop[] = [];
  // What the guard does counts, not what it was asked to do: the command may have ended before.
  const done: ('soft' | 'hard')[] = [];
  const begin = (stop: Stop): void => {
    if (stops.push(stop) === 1) options.onStopping(stop, sent.hardAtMs - clock.nowMs());
  };

  const over = new AbortController();
  const whenAborted = (signal: AbortSignal, act: () => void): void => {
    if (signal.aborted) act();
    else signal.addEventListener('abort', act, { signal: over.signal });
  };
  const stopTicking = clock.onTick((nowMs) => {
    const next = deadlinesNow();
    if (next.hardAtMs > nowMs && next.hardAtMs > sent.hardAtMs + TICK_MS) {
      sent = next;
      guard.extend(sent);
    }
    // A guard that is this late does not work: the command is killed without it.
    if (nowMs >= sent.hardAtMs + MARGIN_MS) {
      done.push('hard');
      begin({ why: 'deadline' });
      guard.kill();
    }
  });
  try {
    const ended = guard.run({
      ...{ command, environment, deadlines: sent },
      onStopping: (kind, cause) => {
        done.push(kind);
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
    return { exitCode, signal, stop: done.length > 0 ? stops[0] : undefined, isInTime };
  } finally {
    over.abort();
    stopTicking();
  }
}
