import type { Count } from '../../kernel/face-types.ts';
import type { Face } from '../../kernel/resource/resource.ts';
import { boundedCount } from '../../postgres/paging/bounded-count.ts';
import { C, fragment, type Sql } from '../../postgres/sql.ts';
import {
  FAR_ROWS_MAX,
  othersOf,
  rangeOf,
  rareNames,
  type ResourceFilter,
} from './resource-list.ts';

/**
 * How many resources all pages of a list have together, up to a bound. Index: as for a page. Names that many
 * resources have a part of are compared one by one, so only the first ones are; where there are more, the
 * count says so.
 */
export async function countResources(
  sql: Sql<'reads'>,
  face: Face,
  filter: ResourceFilter,
): Promise<Count> {
  const range = fragment`l.face = ${face} ${C} and ${rangeOf(filter)}`;
  const wanted = othersOf(filter);
  const rare = await rareNames(sql, face, filter);
  const isFew = filter.leaseId !== undefined || filter.droneId !== undefined;
  if (rare !== undefined || filter.contains === undefined || isFew) {
    return boundedCount(sql, fragment`${rare ?? fragment`lease l`} where ${range} and ${wanted}`);
  }
  const [row] = await sql.$queryRaw<{ count: number; isWhole: boolean }[]>`
    select count(*) filter (where ${wanted})::int as count, count(*) <= ${FAR_ROWS_MAX} as "isWhole"
    from (select l.* from lease l where ${range} limit ${FAR_ROWS_MAX + 1}) l`;
  return { count: row?.count ?? 0, isExact: row?.isWhole === true };
}
