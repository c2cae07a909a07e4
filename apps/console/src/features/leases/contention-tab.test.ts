import { expect, test } from 'vitest';
import type { ContentionView } from '@leasehold/keys-core/leases';
import { linesOf } from './contention-tab.tsx';

const waiting = (
  name: string,
  waiter: string,
  place: number,
  face: ContentionView['face'] = 'lease',
): ContentionView => ({
  face,
  namespace: 'n',
  name,
  waiter,
  since: '2026-11-21T12:00:00.000Z',
  waitedMs: 1,
  place,
  holder: `${name}-holder`,
  heldSince: null,
  remainingMs: 1,
  datacenter: 'fra',
});

test('waiters are grouped by resource; the longest wait comes first', () => {
  const lines = linesOf([waiting('b', 'w1', 1), waiting('a', 'w2', 1), waiting('b', 'w3', 2)]);

  expect(lines.map(({ name, waiters }) => [name, waiters.map(({ waiter }) => waiter)])).toEqual([
    ['b', ['w1', 'w3']],
    ['a', ['w2']],
  ]);
  expect(lines[0]).toMatchObject({ holder: 'b-holder', before: 0 });
});

test('a key and a lease of the same name have a line each', () => {
  const lines = linesOf([waiting('a', 'w1', 1), waiting('a', 'w2', 1, 'key')]);

  expect(lines.map(({ face, waiters }) => [face, waiters.length])).toEqual([
    ['lease', 1],
    ['key', 1],
  ]);
});

test('a line that began on the previous page says how many waiters came before', () => {
  expect(linesOf([waiting('b', 'w', 201)])).toMatchObject([{ before: 200 }]);
});
