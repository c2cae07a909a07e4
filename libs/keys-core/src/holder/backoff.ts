/**
 * How long to wait before the next try: doubling from `firstMs` to at most `maxMs`, each wait
 * shortened at random by up to half, so that callers that failed together do not retry together.
 */
export interface BackoffOptions {
  readonly firstMs: number;
  readonly maxMs: number;
  /** A number in `[0, 1)`. */
  readonly random: () => number;
}

/** The wait after the `failureCount`-th failure in a row, which counts from 1. */
export function backoffMs(failureCount: number, options: BackoffOptions): number {
  const { firstMs, maxMs, random } = options;
  // 2^30 first waits are longer than any bound in use; beyond that the power would be infinite.
  const doublings = Math.min(Math.max(failureCount - 1, 0), 30);
  const fullMs = Math.min(firstMs * 2 ** doublings, maxMs);
  return fullMs * (1 - random() / 2);
}
