import { setImmediate, setTimeout as sleep } from 'node:timers/promises';

/** Long enough for a busy machine: it only decides how soon a test that hangs fails. */
const PATIENCE_MS = 30_000;

/** How long to wait, and how often to look. */
export interface WaitOptions {
  /** When to give up, if the default is too soon or too late. */
  readonly timeoutMs?: number | undefined;
  /**
   * A time that the test promises: in every run except the gate's, which asserts no times, it fails when that
   * has passed.
   */
  readonly withinMs?: number | undefined;
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
  { withinMs, timeoutMs = patienceFor(withinMs), ...options }: WaitOptions = {},
): Promise<NonNullable<Exclude<T, false>>> {
  const { pollMs = 20, what = 'what was waited for' } = options;
  const startedAt = performance.now();
  let cause: unknown;
  for (;;) {
    // A process that was held up looks once more, when it has taken in what came meanwhile.
    const isLast = performance.now() - startedAt >= timeoutMs;
    if (isLast) await setImmediate();
    try {
      const seen = await look();
      if (seen !== undefined && seen !== null && seen !== false) {
        return seen as NonNullable<Exclude<T, false>>;
      }
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    if (isLast) break;
    await sleep(pollMs);
  }
  throw new Error(`${what} did not happen within ${String(timeoutMs)} ms`, { cause });
}

function patienceFor(withinMs = PATIENCE_MS): number {
  const isGate = process.env['LEASEHOLD_TEST_SUITE'] === 'gate';
  return isGate ? Math.max(PATIENCE_MS, withinMs) : withinMs;
}
