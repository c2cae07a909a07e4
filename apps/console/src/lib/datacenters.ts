import { textParam, useQueryStates } from './address.ts';
import type { Outputs } from '~/lib/api/api.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { listedDatacenters } from './routes.ts';
import { useSession } from './session.tsx';

/** A datacenter as this controller sees it. */
export type Datacenter = Outputs['datacenters']['list']['items'][number];

/** One that somebody has declared lost. */
export type GivenUpDatacenter = Outputs['datacenters']['list']['givenUp'][number];

/** No event reports that another datacenter became unreachable, or reachable again. */
const EVERY_MS = 3_000;

/** Every datacenter, this one first; empty before they are known. */
export function useDatacenters() {
  const { datacenter: here } = useSession();
  const { data } = useLiveQuery('datacenters', 'list', {}, { everyMs: EVERY_MS });
  const items: readonly Datacenter[] = data?.items ?? [];
  const givenUp: readonly GivenUpDatacenter[] = data?.givenUp ?? [];
  // With only one, the pages do not mention datacenters.
  return { here, items, isSeveral: items.length > 1, store: data?.store, givenUp };
}

/** Which datacenters a list is of, kept in the address as `datacenter`. */
export type DatacenterFilter = ReturnType<typeof useDatacenterFilter>;

/** All datacenters unless one was chosen. Another choice begins at the first page. */
export function useDatacenterFilter() {
  const { here, isSeveral } = useDatacenters();
  const [{ datacenter }, setState] = useQueryStates({ datacenter: textParam, after: textParam });
  return {
    isSeveral,
    /** Null: all of them. */
    chosen: datacenter,
    setChosen: (next: string | null) => setState({ datacenter: next, after: null }),
    /** The additional input of the list's procedure; empty if there is only one datacenter. */
    input: listedDatacenters(datacenter, isSeveral),
    /** Whether rows may be of another datacenter, whose events do not arrive here. */
    isOfOthers: isSeveral && datacenter !== here,
  };
}
