import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { onAbort } from './signals.ts';

test('calls that follow one signal share its listener, and leave none behind', () => {
  const controller = new AbortController();
  const seen: string[] = [];
  const ends = ['a', 'b', 'c'].map((name) =>
    onAbort(controller.signal, (reason) => seen.push(`${name} ${String(reason)}`)),
  );
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);

  ends[1]?.();
  ends[1]?.();
  controller.abort('over');

  expect(seen).toEqual(['a over', 'c over']);
  ends[0]?.();
  ends[2]?.();
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
});

test('the last one that leaves takes the listener away, and the next one brings it back', () => {
  const controller = new AbortController();
  let count = 0;
  onAbort(controller.signal, () => (count += 1))();
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);

  onAbort(controller.signal, () => (count += 1));
  controller.abort();
  onAbort(controller.signal, () => (count += 1));

  expect(count).toBe(2);
});
