import { setTimeout as pause } from 'node:timers/promises';

/** Waits until `look` is true. @throws {Error} naming `what` when that does not come in time. */
export async function until(
  what: string,
  look: () => boolean | Promise<boolean>,
  limitMs = 10_000,
): Promise<void> {
  const endsAtMs = performance.now() + limitMs;
  while (!(await look())) {
    if (performance.now() > endsAtMs) {
      throw new Error(`${what} did not happen within ${String(limitMs)} ms`);
    }
    await pause(20);
  }
}
