import type { FaultSeen } from '../history.ts';

/** Before and after a step, a time of the database may have been put into the machine's clock wrongly. */
const BLUR_MS = 300;

/**
 * Whether the database clock was stepped within a span of time. A promise of before the step then has
 * another expiry in the machine's clock than after it.
 */
export function isStepped(faults: readonly FaultSeen[], fromMs: number, untilMs: number): boolean {
  return faults.some(
    (fault) =>
      (fault.name === 'F7' || fault.name === 'F7b') &&
      fault.fromMs > fromMs - BLUR_MS &&
      fault.fromMs < untilMs + BLUR_MS,
  );
}

/**
 * Whether an end comes at a time when the database calls expired what was not: holders lose what they
 * hold then, and nobody is granted it early.
 */
export function isInDoubt(faults: readonly FaultSeen[], atMs: number): boolean {
  return faults.some(
    ({ name, fromMs, untilMs }) =>
      name === 'F7b' && fromMs - BLUR_MS < atMs && atMs < untilMs + BLUR_MS,
  );
}
