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
