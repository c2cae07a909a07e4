import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { PageQueue } from './page-queue.ts';

const AT_ONCE_MAX = 8;

/** A queue, and the addresses for which pages are made. */
function aQueue() {
  const queue = new PageQueue();
  const made: string[] = [];
  const ends: (() => void)[] = [];
  return {
    made,
    add(address: string) {
      const response = new EventEmitter() as ServerResponse;
      const isAdded = queue.add(address, response, () => {
        made.push(address);
        return new Promise((resolve) => ends.push(resolve));
      });
      return { isAdded, close: () => response.emit('close') };
    },
    async endOne() {
      ends.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test('only a few pages are made at once', async () => {
  const queue = aQueue();

  for (let i = 0; i < AT_ONCE_MAX * 2; i += 1) queue.add('a');
  expect(queue.made).toHaveLength(AT_ONCE_MAX);
  await queue.endOne();

  expect(queue.made).toHaveLength(AT_ONCE_MAX + 1);
});

test('no page is made for a caller that has gone', async () => {
  const queue = aQueue();
  for (let i = 0; i < AT_ONCE_MAX; i += 1) queue.add('a');
  const waiting = [queue.add('a'), queue.add('a'), queue.add('b')];

  for (const { close } of waiting.slice(0, 2)) close();
  await queue.endOne();
  await queue.endOne();

  expect(queue.made.slice(AT_ONCE_MAX)).toEqual(['b']);
});

test('addresses take turns, however much one of them asks for', async () => {
  const queue = aQueue();
  for (let i = 0; i < AT_ONCE_MAX + 30; i += 1) queue.add('a');
  queue.add('b');
  queue.add('c');
  queue.add('b');

  for (let i = 0; i < 6; i += 1) await queue.endOne();

  expect(queue.made.slice(AT_ONCE_MAX)).toEqual(['a', 'b', 'c', 'a', 'b', 'a']);
});

test('an address that asks for too much is refused, and others are not', () => {
  const queue = aQueue();
  const answers = Array.from({ length: 100 }, () => queue.add('a').isAdded);

  expect(answers.filter((isAdded) => isAdded)).toHaveLength(AT_ONCE_MAX + 40);
  expect(queue.add('b').isAdded).toBe(true);
});

test('all addresses together are bounded, and what has left makes place', () => {
  const queue = aQueue();
  const answers = Array.from({ length: 1_000 }, (_, i) => queue.add(`a${String(i)}`));

  expect(answers.filter(({ isAdded }) => isAdded)).toHaveLength(AT_ONCE_MAX + 400);
  answers.at(AT_ONCE_MAX)?.close();
  expect(queue.add('another').isAdded).toBe(true);
});
