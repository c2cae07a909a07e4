import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { createStreamPacer } from './pacing.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Reads events until the test is over. @returns how many it has had. */
function read(turn: () => Promise<void> | undefined, onEvent: () => void): () => number {
  let count = 0;
  const over = new AbortController();
  onTestFinished(() => over.abort());
  const go = async (): Promise<void> => {
    while (!over.signal.aborted) {
      await turn();
      count += 1;
      onEvent();
    }
  };
  void go();
  return () => count;
}

/** Some turns of the event loop. */
async function turns(): Promise<void> {
  for (let count = 0; count < 20; count += 1) await new Promise(setImmediate);
}

test('streams that take long rest for as long as they took', async () => {
  let nowMs = 0;
  const pacer = createStreamPacer(() => nowMs);
  const count = read(pacer.open('a'), () => (nowMs += 1));

  await turns();
  const first = count();
  vi.advanceTimersByTime(15);
  await turns();
  const rested = count();
  vi.advanceTimersByTime(1);
  await turns();

  expect(first).toBeGreaterThan(15);
  expect(rested).toBe(first);
  expect(count()).toBe(first + 16);
});

test('streams of which each event takes no time do not rest, and principals take turns', async () => {
  const pacer = createStreamPacer(() => 0);
  const one = read(pacer.open('a'), () => undefined);
  const others = [1, 2, 3, 4].map(() => read(pacer.open('b'), () => undefined));

  await turns();

  expect(one()).toBeGreaterThan(64);
  expect(one()).toBeGreaterThanOrEqual(Math.max(...others.map((count) => count())));
});
