'use client';

import { parseAsString, useQueryStates } from 'nuqs';
import { listedDatacenters } from './listed-datacenters.ts';
import { useDatacenters } from './use-datacenters.ts';

/** Which datacenters a list is of, kept in the address as `datacenter`. */
export interface DatacenterFilter {
  readonly isSeveral: boolean;
  /** Null: all of them. */
  readonly chosen: string | null;
  readonly setChosen: (datacenter: string | null) => void;
  /** The additional input of the list's procedure; empty if there is only one datacenter. */
  readonly input: { readonly datacenter?: string };
  /** Whether rows may be of another datacenter, whose events do not arrive here. */
  readonly isOfOthers: boolean;
}

/** All datacenters unless one was chosen. Another choice begins at the first page. */
export function useDatacenterFilter(): DatacenterFilter {
  const { here, isSeveral } = useDatacenters();
  const [{ datacenter }, setState] = useQueryStates(
    { datacenter: parseAsString, after: parseAsString },
    { history: 'push' },
  );
  return {
    isSeveral,
    chosen: datacenter,
    setChosen: (next) => void setState({ datacenter: next, after: null }),
    input: listedDatacenters(datacenter, isSeveral),
    isOfOthers: isSeveral && datacenter !== here,
  };
}
