import { parseAsString, parseAsStringLiteral, useQueryStates } from 'nuqs';
import { useMemo } from 'react';
import { parseSearch, type Search } from './search.ts';

/**
 * What a list shows, kept in the address: `q` (search), `sort`, `dir`, `after` (the cursor of the
 * page before). Changing anything but the page goes back to the first page. Every change is a step
 * of the browser's history.
 */
export interface ListState<Sort extends string> {
  readonly q: string;
  readonly search: Search;
  readonly sort: Sort;
  readonly direction: 'asc' | 'desc';
  readonly after: string | null;
  readonly setQ: (q: string) => void;
  readonly setSort: (sort: Sort, direction: 'asc' | 'desc') => void;
  /** `null` is the first page. */
  readonly setAfter: (after: string | null) => void;
  readonly isFiltered: boolean;
}

export function useListState<Sort extends string>(options: {
  /** Fields of the search language that this list knows, such as `holder`. */
  readonly fields: readonly string[];
  /** The first one is the default. */
  readonly sorts: readonly [Sort, ...Sort[]];
  readonly direction?: 'asc' | 'desc';
}): ListState<Sort> {
  const { fields, sorts, direction = 'asc' } = options;
  const [state, setState] = useQueryStates(
    {
      q: parseAsString.withDefault(''),
      sort: parseAsStringLiteral<string>(sorts).withDefault(sorts[0]),
      dir: parseAsStringLiteral(['asc', 'desc'] as const).withDefault(direction),
      after: parseAsString,
    },
    { history: 'push' },
  );
  const search = useMemo(() => parseSearch(state.q, fields), [state.q, fields]);
  return {
    q: state.q,
    search,
    sort: sorts.find((known) => known === state.sort) ?? sorts[0],
    direction: state.dir,
    after: state.after,
    setQ: (q) => void setState({ q: q === '' ? null : q, after: null }),
    setSort: (sort, dir) => void setState({ sort, dir, after: null }),
    setAfter: (after) => void setState({ after }),
    isFiltered: state.q !== '',
  };
}
