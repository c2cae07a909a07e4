'use client';

import type { Outputs } from '../api/api.ts';
import { useLiveQuery } from '../live/use-live-query.ts';
import { useSession } from '../session/session.tsx';

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
