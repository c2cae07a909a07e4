import { setTimeout as sleep } from 'node:timers/promises';

/** Long enough for a busy machine: it only decides how soon a test that hangs fails. */
const PATIENCE_MS = 30_000;

/** How long to wait, and how often to look. */
export interface WaitOptions {
  /** A test that promises a time passes that time. */
  readonly timeoutMs?: number | undefined;
  readonly pollMs?: number | undefined;
  /** What is waited for, for the message of the failure. */
  readonly what?: string | undefined;
}

/**
 * Calls `look` until it returns something other than `undefined`, `null` or `false`, and returns that.
 * An error of `look` counts as "not yet"; the last one is the cause of the failure.
 */
export async function waitUntil<T>(
  look: () => T | Promise<T>,
  { timeoutMs = PATIENCE_MS, pollMs = 20, what = 'what was waited for' }: WaitOptions = {},
): Promise<NonNullable<Exclude<T, false>>> {
  const startedAt = performance.now();
  let cause: unknown;
  while (performance.now() - startedAt < timeoutMs) {
    try {
      const seen = await look();
      if (seen !== undefined && seen !== null && seen !== false) {
        return seen as NonNullable<Exclude<T, false>>;
      }
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    await sleep(pollMs);
  }
  throw new Error(`${what} did not happen within ${String(timeoutMs)} ms`, { cause });
}
