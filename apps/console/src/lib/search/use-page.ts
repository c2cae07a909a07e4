import { parseAsString, useQueryState } from 'nuqs';

const PAGE_ROWS = 100;

/** Which page of a list is shown, in the address: the list's input for it, and what its table needs. */
export function usePage() {
  const [after, setAfter] = useQueryState('after', parseAsString.withOptions({ history: 'push' }));
  return {
    page: { limit: PAGE_ROWS, cursor: after ?? undefined },
    state: { after, setAfter: (next: string | null) => void setAfter(next) },
  };
}
