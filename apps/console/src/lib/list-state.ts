import { useMemo } from 'react';
import { choiceParam, textParam, useQueryState, useQueryStates } from './address.ts';
import { at, type ResourceRef } from './routes.ts';
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
  const [state, setState] = useQueryStates({
    q: textParam.withDefault(''),
    sort: choiceParam<string>(sorts).withDefault(sorts[0]),
    dir: choiceParam(['asc', 'desc'] as const).withDefault(direction),
    after: textParam,
  });
  const search = useMemo(() => parseSearch(state.q, fields), [state.q, fields]);
  return {
    q: state.q,
    search,
    sort: sorts.find((known) => known === state.sort) ?? sorts[0],
    direction: state.dir,
    after: state.after,
    setQ: (q) => setState({ q: q === '' ? null : q, after: null }),
    setSort: (sort, dir) => setState({ sort, dir, after: null }),
    setAfter: (after) => setState({ after }),
    isFiltered: state.q !== '',
  };
}

const PAGE_ROWS = 100;

/** Which page of a list is shown, in the address: the list's input for it, and what its table needs. */
export function usePage() {
  const [after, setAfter] = useQueryState('after', textParam);
  return {
    page: { limit: PAGE_ROWS, cursor: after ?? undefined },
    state: { after, setAfter: (next: string | null) => setAfter(next) },
  };
}

/** The same for a list that can be searched; another search begins at its first page. */
export function useSearchedPage() {
  const [{ q, after }, setAddress] = useQueryStates({
    q: textParam.withDefault(''),
    after: textParam,
  });
  const search = q === '' ? undefined : q;
  return {
    page: { limit: PAGE_ROWS, cursor: after ?? undefined, search },
    state: { after, setAfter: (next: string | null) => setAddress({ after: next }) },
    q,
    setQ: (next: string) => setAddress({ q: next === '' ? null : next, after: null }),
  };
}

/**
 * How a list is sorted, in the address: its input, and what its table needs. The first of the sorts is the list's own
 * order; the others begin with the most. Another order begins at the first page.
 */
export function useSort<Sort extends string>(
  sorts: readonly [Sort, ...Sort[]],
  own: 'asc' | 'desc',
) {
  const [{ sort: named, dir }, setAddress] = useQueryStates({
    sort: choiceParam<string>(sorts).withDefault(sorts[0]),
    dir: choiceParam(['asc', 'desc'] as const),
    after: textParam,
  });
  const sort = sorts.find((known) => known === named) ?? sorts[0];
  const first = (by: Sort): 'asc' | 'desc' => (by === sorts[0] ? own : 'desc');
  const direction = dir ?? first(sort);
  return {
    input: { sort, direction },
    table: {
      sort,
      direction,
      setSort: (by: Sort, to: 'asc' | 'desc') =>
        setAddress({ sort: by, dir: by === sort ? to : first(by), after: null }),
    },
  };
}

/** A list about one resource, on its page: its input, and what its table needs of the address. */
export function useDetailList({ namespace, name, datacenter }: ResourceRef) {
  const { page, state } = usePage();
  const input = { namespace, name, ...at(datacenter), ...page };
  return {
    input,
    isFirstPage: state.after === null,
    table: { state, identity: JSON.stringify(input) },
  };
}
