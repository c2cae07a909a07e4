import { parseAsString, parseAsStringLiteral, useQueryStates } from 'nuqs';

/**
 * How a list is sorted, in the address: its input, and what its table needs. The first of the sorts is the list's own
 * order; the others begin with the most. Another order begins at the first page.
 */
export function useSort<Sort extends string>(
  sorts: readonly [Sort, ...Sort[]],
  own: 'asc' | 'desc',
) {
  const [{ sort: named, dir }, setAddress] = useQueryStates(
    {
      sort: parseAsStringLiteral<string>(sorts).withDefault(sorts[0]),
      dir: parseAsStringLiteral(['asc', 'desc'] as const),
      after: parseAsString,
    },
    { history: 'push' },
  );
  const sort = sorts.find((known) => known === named) ?? sorts[0];
  const first = (by: Sort): 'asc' | 'desc' => (by === sorts[0] ? own : 'desc');
  const direction = dir ?? first(sort);
  return {
    input: { sort, direction },
    table: {
      ...{ sort, direction },
      setSort: (by: Sort, to: 'asc' | 'desc') =>
        void setAddress({ sort: by, dir: by === sort ? to : first(by), after: null }),
    },
  };
}
