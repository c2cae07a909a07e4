import { describe, expect, test } from 'vitest';
import { holdRows, isSameRow } from './held-rows.ts';

const rowId = (row: { id: string }): string => row.id;
const rowsOf = (text: string, note = '') => Array.from(text, (id) => ({ id, note }));
const ids = (rows: readonly { id: string }[]): string => rows.map(rowId).join('');

describe('holdRows', () => {
  test('shows the newest rows at once when nobody holds the table', () => {
    const held = holdRows(rowsOf('abc'), rowsOf('xab'), { isHeld: false, rowId });

    expect(ids(held.rows)).toBe('xab');
    expect(held.changeCount).toBe(0);
  });

  test.each([
    ['one came and one fell off the page', 'abc', 'xab', 1],
    ['one went', 'abc', 'ac', 1],
    ['two changed places', 'abc', 'bac', 1],
    ['everything is other', 'abc', 'xyz', 3],
  ])('leaves rows where they are and counts what changed: %s', (_what, shown, newest, count) => {
    const held = holdRows(rowsOf(shown), rowsOf(newest), { isHeld: true, rowId });

    expect(ids(held.rows)).toBe(shown);
    expect(held.changeCount).toBe(count);
  });

  test('gives the rows that stay their newest values', () => {
    const held = holdRows(rowsOf('ab', 'old'), rowsOf('xb', 'new'), { isHeld: true, rowId });

    expect(held.rows).toEqual([
      { id: 'a', note: 'old' },
      { id: 'b', note: 'new' },
    ]);
  });

  test('counts no change when only values changed', () => {
    const newest = rowsOf('ab', 'new');

    expect(holdRows(rowsOf('ab', 'old'), newest, { isHeld: true, rowId })).toEqual({
      rows: newest,
      changeCount: 0,
    });
  });
});

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
