import { parseAsString } from 'nuqs';

/** The fields of an address that hold a time range, for `useQueryStates`. */
export const TIME_RANGE_PARAMS = {
  range: parseAsString,
  from: parseAsString,
  to: parseAsString,
} as const;
