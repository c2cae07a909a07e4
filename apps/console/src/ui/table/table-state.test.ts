import { expect, test } from 'vitest';
import { placeText } from './table-state.ts';

const MANY = { count: 100_013, isExact: true };
const BOUND = { count: 200_000, isExact: false };

test.each([
  [
    'one that was not read yet',
    { before: 0, rowCount: undefined, hasNext: false, total: undefined },
    '',
  ],
  ['the only page', { before: 0, rowCount: 12, hasNext: false, total: undefined }, '12 rows'],
  ['the first', { before: 0, rowCount: 100, hasNext: true, total: MANY }, '1 to 100 of 100,013'],
  [
    'a later one',
    { before: 300, rowCount: 100, hasNext: true, total: MANY },
    '301 to 400 of 100,013',
  ],
  [
    'the last, which is counted by itself',
    { before: 200, rowCount: 4, hasNext: false, total: undefined },
    '201 to 204 of 204',
  ],
  [
    'beyond the bound of a count',
    { before: 0, rowCount: 100, hasNext: true, total: BOUND },
    '1 to 100 of at least 200,000',
  ],
  [
    'before it is counted',
    { before: 0, rowCount: 100, hasNext: true, total: undefined },
    '1 to 100 of more than 100',
  ],
  [
    'rows came since the count',
    { before: 100, rowCount: 100, hasNext: true, total: { count: 190, isExact: true } },
    '101 to 200 of more than 200',
  ],
  [
    'its place is not known',
    { before: null, rowCount: 100, hasNext: true, total: MANY },
    '100 rows of 100,013',
  ],
  [
    'its place is not known, at the end',
    { before: null, rowCount: 1, hasNext: false, total: undefined },
    '1 row',
  ],
  [
    'its rows are gone',
    { before: 100, rowCount: 0, hasNext: false, total: undefined },
    'None of 100',
  ],
])('%s', (_what, place, text) => {
  expect(placeText(place)).toBe(text);
});
