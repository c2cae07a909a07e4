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

/** The reason of the abort, and how late it was after the deadline at that time. */
export async function deadlineOf(
  lease: Lease,
  nowMs: () => number,
): Promise<{ reason: unknown; lateMs: number }> {
  let deadlineMs = 0;
  const look = setInterval(() => {
    deadlineMs = Math.max(deadlineMs, nowMs() + lease.remainingMs());
  }, 20);
  const reason = await endOf(lease.signal);
  clearInterval(look);
  return { reason, lateMs: nowMs() - deadlineMs };
}
