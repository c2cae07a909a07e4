import { expect, test } from 'vitest';
import { rangeOf } from './table-state.ts';

const ROWS = ['a', 'b', 'c', 'd'].map((id) => [id, id] as const);

test.each([
  ['a', 'c', 'abc'],
  ['d', 'b', 'bcd'],
  ['b', 'b', 'b'],
  [null, 'c', 'c'],
  ['gone', 'c', 'c'],
  ['a', 'gone', ''],
])('a range from %s to %s has %s', (from, to, ids) => {
  expect(
    rangeOf(ROWS, from, to)
      .map(([id]) => id)
      .join(''),
  ).toBe(ids);
});
