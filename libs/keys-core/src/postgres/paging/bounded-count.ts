import type { Count } from '../../kernel/face-types.ts';
import { type Fragment, type Sql } from '../sql.ts';

/** Counting ends here: a number above it helps nobody, and would cost more than the page it is shown with. */
const COUNT_MAX = 200_000;

/** How many rows `from` has, which begins with a table and may have conditions. Reads no more than the bound. */
export async function boundedCount(
  sql: Sql<'general' | 'reads'>,
  from: Fragment,
  countMax: number = COUNT_MAX,
): Promise<Count> {
  const [row] = await sql.$queryRaw<{ count: number }[]>`
    select count(*)::int as count
    from (select from ${from} limit ${countMax + 1}) counted`;
  const count = row?.count ?? 0;
  return { count: Math.min(count, countMax), isExact: count <= countMax };
}

/** A log is counted in its newest rows, so many of them. */
const LOOKED_THROUGH_MAX = 100_000;

/**
 * How many rows of a log are wanted. Reads no more rows than the bound, whether they are wanted or not: what a
 * filter leaves may be rare.
 * @param rows a statement that lists the rows in which to look, newest first
 * @param wanted a condition on such a row, whose alias is `v`
 */
export async function boundedLogCount(
  sql: Sql<'reads'>,
  { rows, wanted }: { readonly rows: Fragment; readonly wanted: Fragment },
  lookedThroughMax: number = LOOKED_THROUGH_MAX,
): Promise<Count> {
  const [row] = await sql.$queryRaw<{ count: number; isWhole: boolean }[]>`
    select count(*) filter (where ${wanted})::int as count,
      count(*) <= ${lookedThroughMax}::int as "isWhole"
    from (${rows} limit ${lookedThroughMax + 1}) v`;
  return { count: row?.count ?? 0, isExact: row?.isWhole ?? true };
}
