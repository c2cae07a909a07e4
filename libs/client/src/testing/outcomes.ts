import { TICK_MS, type TickingClock } from '@leasehold/service-kit/boot-clock';
import type { Lease } from '../lease/lease.ts';

/** What a promise rejects with. */
export const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );

/** Fulfilled with the reason when the signal aborts. */
export function endOf(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    const tell = (): void => {
      resolve(signal.reason);
    };
    if (signal.aborted) tell();
    else signal.addEventListener('abort', tell, { once: true });
  });
}

/**
 * The reason of the abort, and how late it was after the deadline at that time. A process that stood still checks
 * deadlines late: the time by which its clock's last ticks were further apart than usual does not count.
 */
export async function deadlineOf(
  lease: Lease,
  clock: TickingClock,
): Promise<{ reason: unknown; lateMs: number }> {
  let deadlineMs = 0;
  let tickedAtMs = clock.nowMs();
  let stoodStillMs = 0;
  const end = clock.onTick((nowMs) => {
    stoodStillMs = Math.max(0, nowMs - tickedAtMs - TICK_MS);
    tickedAtMs = nowMs;
    deadlineMs = Math.max(deadlineMs, nowMs + lease.remainingMs());
  });
  const reason = await endOf(lease.signal);
  end();
  const nowMs = clock.nowMs();
  // It may stand still once more between its last tick and the signal.
  stoodStillMs += Math.max(0, nowMs - tickedAtMs - TICK_MS);
  return { reason, lateMs: nowMs - deadlineMs - stoodStillMs };
}
