import { parseAsString, useQueryState, useQueryStates } from 'nuqs';

const PAGE_ROWS = 100;

/** Which page of a list is shown, in the address: the list's input for it, and what its table needs. */
export function usePage() {
  const [after, setAfter] = useQueryState('after', parseAsString.withOptions({ history: 'push' }));
  return {
    page: { limit: PAGE_ROWS, cursor: after ?? undefined },
    state: { after, setAfter: (next: string | null) => void setAfter(next) },
  };
}

/** The same for a list that can be searched; another search begins at its first page. */
export function useSearchedPage() {
  const [{ q, after }, setAddress] = useQueryStates(
    { q: parseAsString.withDefault(''), after: parseAsString },
    { history: 'push' },
  );
  const search = q === '' ? undefined : q;
  return {
    page: { limit: PAGE_ROWS, cursor: after ?? undefined, search },
    state: { after, setAfter: (next: string | null) => void setAddress({ after: next }) },
    q,
    setQ: (next: string) => void setAddress({ q: next === '' ? null : next, after: null }),
  };
}
