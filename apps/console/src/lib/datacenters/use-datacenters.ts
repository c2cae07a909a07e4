import type { Outputs } from '../api/api.ts';
import { useLiveQuery } from '../live/use-live-query.ts';
import { useSession } from '../session/session.tsx';
import { parseAsString, useQueryStates } from 'nuqs';
import { listedDatacenters } from './here.ts';

/** A datacenter as this controller sees it. */
export type Datacenter = Outputs['datacenters']['list']['items'][number];

/** No event reports that another datacenter became unreachable, or reachable again. */
const EVERY_MS = 3_000;

/** Every datacenter, this one first; empty before they are known. */
export function useDatacenters(): {
  /** The name of this controller's datacenter. */
  readonly here: string;
  readonly items: readonly Datacenter[];
  /** With only one, the pages do not mention datacenters. */
  readonly isSeveral: boolean;
  readonly store: Outputs['datacenters']['list']['store'] | undefined;
} {
  const { datacenter: here } = useSession();
  const { data } = useLiveQuery('datacenters', 'list', {}, { everyMs: EVERY_MS });
  const items = data?.items ?? [];
  return { here, items, isSeveral: items.length > 1, store: data?.store };
}

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
