import { expect, test } from 'vitest';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { fragment } from '../sql.ts';
import { boundedCount } from './bounded-count.ts';

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
