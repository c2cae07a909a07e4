import { describe, expect, test } from 'vitest';
import { sharedRead } from './index.ts';

/** A read whose answers are numbered, and a clock that the test moves. */
function numbered(): {
  read: () => Promise<number>;
  clock: { nowMs: () => number };
  pass: (ms: number) => void;
  answer: () => void;
  fail: () => void;
} {
  let nowMs = 0;
  let count = 0;
  let settle: { resolve: (answer: number) => void; reject: (error: Error) => void } | undefined;
  return {
    read: () => {
      count += 1;
      return new Promise((resolve, reject) => {
        settle = { resolve, reject };
      });
    },
    clock: { nowMs: () => nowMs },
    pass: (ms) => {
      nowMs += ms;
    },
    answer: () => settle?.resolve(count),
    fail: () => settle?.reject(new Error('no')),
  };
}

describe('a shared read', () => {
  test('is shared by callers that ask while it is under way', async () => {
    const { read, clock, answer } = numbered();
    const ask = sharedRead(clock, read);

    const asked = [ask(), ask(), ask()];
    answer();

    expect(await Promise.all(asked)).toEqual([1, 1, 1]);
  });

  test('an answer serves for two seconds, and no longer', async () => {
    const { read, clock, pass, answer } = numbered();
    const ask = sharedRead(clock, read);
    const first = ask();
    answer();
    await first;

    pass(1_999);
    expect(await ask()).toBe(1);
    pass(1);
    const next = ask();
    answer();
    expect(await next).toBe(2);
  });

  test('an answer that took a second serves for ten', async () => {
    const { read, clock, pass, answer } = numbered();
    const ask = sharedRead(clock, read);
    const first = ask();
    pass(1_000);
    answer();
    await first;

    pass(9_999);
    expect(await ask()).toBe(1);
    pass(1);
    const next = ask();
    answer();
    expect(await next).toBe(2);
  });

  test('a failed read is repeated for the next caller at once', async () => {
    const { read, clock, answer, fail } = numbered();
    const ask = sharedRead(clock, read);
    const first = ask();
    fail();
    await expect(first).rejects.toThrow('no');

    const next = ask();
    answer();
    expect(await next).toBe(2);
  });
});
