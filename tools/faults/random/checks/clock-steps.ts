import type { ClockStep, FaultSeen } from '../history.ts';

/** Before and after a step, a time of the database may have been put into the machine's clock wrongly. */
const BLUR_MS = 300;

/**
 * Whether the database clock may have been stepped within a span of time. A promise of before the step then has
 * another expiry in the machine's clock than after it.
 */
export function isStepped(steps: readonly ClockStep[], fromMs: number, untilMs: number): boolean {
  return steps.some((step) => step.untilMs > fromMs - BLUR_MS && step.fromMs < untilMs + BLUR_MS);
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
