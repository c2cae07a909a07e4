import { expect } from 'vitest';

/**
 * Asserts that something took `maxMs` at most: in every run except the gate's, which is `npm test`. The gate
 * asserts order and outcomes, because a busy machine delays anything; `npm run test:all` asserts the times.
 * `what` explains a failure.
 */
export function expectPrompt(ms: number, maxMs: number, what = 'in time'): void {
  if (process.env['LEASEHOLD_TEST_SUITE'] === 'gate') return;
  expect(ms, what).toBeLessThanOrEqual(maxMs);
}
