import { expect, test } from 'vitest';
import { createRateLimit } from './rate-limit.ts';

test('one that asks too often is refused until the second is over, and nobody else is', () => {
  let nowMs = 100;
  const limit = createRateLimit({ nowMs: () => nowMs }, 2);

  expect(['a', 'a', 'a', 'b'].map((caller) => limit.mayAsk(caller))).toEqual([
    true,
    true,
    false,
    true,
  ]);
  nowMs = 1_099;
  expect(limit.mayAsk('a')).toBe(false);
  nowMs = 1_100;
  expect(limit.mayAsk('a')).toBe(true);
});
