import { expect, test } from 'vitest';
import { openKernel } from '../testing/kernel-fixture.ts';
import { fragment } from './sql.ts';
import { boundedCount, boundedLogCount } from './paging.ts';

test.each([
  { rows: 0, counted: { count: 0, isExact: true } },
  { rows: 3, counted: { count: 3, isExact: true } },
  { rows: 4, counted: { count: 3, isExact: false } },
  { rows: 1_000_000_000, counted: { count: 3, isExact: false } },
])('a count of $rows rows ends at its bound of 3, and reports it', async ({ rows, counted }) => {
  const { store } = await openKernel();

  const found = await boundedCount(
    store.general,
    fragment`(select generate_series(1, ${rows}::int)) i`,
    3,
  );

  expect(found).toEqual(counted);
});

test.each([
  { last: 6, counted: { count: 3, isExact: true } },
  { last: 7, counted: { count: 3, isExact: false } },
  { last: 999_999_999, counted: { count: 3, isExact: false } },
])(
  'a log of $last rows is looked through up to its bound of 6, whatever is wanted',
  async ({ last, counted }) => {
    const { store } = await openKernel();

    const found = await boundedLogCount(
      store.reads,
      {
        rows: fragment`select generate_series(${last}::int, 1, -1) as id`,
        wanted: fragment`v.id % 2 = 0`,
      },
      6,
    );

    expect(found).toEqual(counted);
  },
);
