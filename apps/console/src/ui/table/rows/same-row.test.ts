import { expect, test } from 'vitest';
import { isSameRow } from './same-row.ts';

const ladder = { ttlMs: 1 };
const row = { name: 'a', ladder, asOf: '1' };

test('a row that was only read again is the same', () => {
  expect(isSameRow(row, { ...row, asOf: '2' })).toBe(true);
});

test.each([
  ['another value', { ...row, name: 'b' }],
  ['another part', { ...row, ladder: { ttlMs: 2 } }],
  ['a field more', { ...row, holder: 'x' }],
  ['nothing', null],
])('a row with %s is another one', (_what, other) => {
  expect(isSameRow(row, other)).toBe(false);
});
