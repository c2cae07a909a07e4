import { parseAsString, useQueryState } from 'nuqs';

/** The field of an address that holds the moment somebody asks about; it belongs to one tab. */
export const MOMENT_PARAM = 'at';

/** The moment that is asked about, in the address, and how to ask about another; null for none. */
export function useMoment() {
  return useQueryState(MOMENT_PARAM, parseAsString.withOptions({ history: 'push' }));
}
