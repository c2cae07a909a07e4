import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { EventChanges } from '../kernel/face-types.ts';
import type { Resource } from '../kernel/resource.ts';
import { CHANGES_EVERY_MS, CHANGES_NAMED_MAX, changesOf } from './index.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const CLOCK = {
  nowMs: () => Date.now(),
  at(atMs: number, fn: () => void) {
    const timer = setTimeout(fn, atMs - Date.now());
    return () => {
      clearTimeout(timer);
    };
  },
};

const keyOf = (name: string): Resource => ({ face: 'key', namespace: 'a', name });

/** Follows events that the test makes, and notes when each message came. */
function follow() {
  const waiting: Resource[] = [];
  let more = (): void => undefined;
  let failure: Error | undefined;
  async function* events(): AsyncGenerator<Resource> {
    for (;;) {
      while (waiting.length > 0) yield waiting.shift() as Resource;
      if (failure !== undefined) throw failure;
      await new Promise<void>((resolve) => (more = resolve));
    }
  }
  const leaving = new AbortController();
  const leave = vi.fn();
  const messages: { atMs: number; changes: EventChanges }[] = [];
  const beganAtMs = Date.now();
  const ended = (async () => {
    const options = { store: { clock: CLOCK }, signal: leaving.signal, leave };
    for await (const changes of changesOf(events(), options)) {
      messages.push({ atMs: Date.now() - beganAtMs, changes });
    }
  })();
  const happen = (...resources: readonly Resource[]): void => {
    waiting.push(...resources);
    more();
  };
  const fail = (error: Error): void => {
    failure = error;
    more();
  };
  const stop = (): void => {
    leaving.abort();
  };
  return { messages, happen, fail, ended, leave, stop };
}

test('however many events there are, one message a second names what they happened to', async () => {
  const { messages, happen } = follow();

  for (let step = 0; step < 50; step += 1) {
    happen(keyOf(`k${String(step % 5)}`), { face: 'lease', namespace: '', name: 'l' });
    await vi.advanceTimersByTimeAsync(CHANGES_EVERY_MS / 10);
  }

  const gaps = messages.slice(1).map(({ atMs }, index) => atMs - (messages[index]?.atMs ?? 0));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(CHANGES_EVERY_MS);
  expect(messages.length).toBeGreaterThanOrEqual(5);
  expect(messages[1]?.changes).toMatchObject({ eventCount: 20, manyOf: [] });
  expect(messages[1]?.changes.resources).toHaveLength(6);
});

test('the first event after a quiet time is told at once, together with what happens beside it', async () => {
  const { messages, happen } = follow();
  await vi.advanceTimersByTimeAsync(CHANGES_EVERY_MS * 3);

  happen(keyOf('one'));
  await vi.advanceTimersByTimeAsync(20);
  happen(keyOf('two'));
  await vi.advanceTimersByTimeAsync(CHANGES_EVERY_MS / 10);

  expect(messages.map(({ changes }) => changes.resources.map(({ name }) => name))).toEqual([
    ['one', 'two'],
  ]);
});

test('more resources of a face than a message names are reported as many, and others still by name', async () => {
  const { messages, happen } = follow();

  happen({ face: 'environment', namespace: '', name: 'prod' });
  for (let count = 0; count <= CHANGES_NAMED_MAX; count += 1) happen(keyOf(String(count)));
  await vi.advanceTimersByTimeAsync(CHANGES_EVERY_MS);

  expect(messages[0]?.changes).toEqual({
    eventCount: CHANGES_NAMED_MAX + 2,
    resources: [{ face: 'environment', namespace: '', name: 'prod' }],
    manyOf: ['key'],
  });
});

test('what came before a failure of the stream is told, and the failure after it', async () => {
  const { messages, happen, fail, ended, leave } = follow();
  const outcome = expect(ended).rejects.toThrow('compacted');

  happen(keyOf('last'));
  fail(new Error('compacted'));
  await vi.advanceTimersByTimeAsync(CHANGES_EVERY_MS);

  await outcome;
  expect(messages).toHaveLength(1);
  expect(leave).toHaveBeenCalledOnce();
});

test('ends with its signal, and leaves the stream', async () => {
  const { ended, leave, stop } = follow();

  stop();
  await vi.advanceTimersByTimeAsync(CHANGES_EVERY_MS);

  await ended;
  expect(leave).toHaveBeenCalledOnce();
});
