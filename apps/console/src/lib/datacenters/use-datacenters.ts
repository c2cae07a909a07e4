'use client';

import type { Outputs } from '../api/api.ts';
import { useLiveQuery } from '../live/use-live-query.ts';
import { useSession } from '../session/session.tsx';

/** A datacenter as this controller sees it. */
export type Datacenter = Outputs['datacenters']['list']['items'][number];

/** That another datacenter cannot be reached, or can again, has no event. */
const EVERY_MS = 3_000;

/** Every datacenter, this one first. Before they are known, and with one alone, that is all there is. */
export function useDatacenters(): {
  /** The name of this controller's. */
  readonly here: string;
  readonly items: readonly Datacenter[];
  /** With one, nothing is said of datacenters. */
  readonly isSeveral: boolean;
  readonly store: Outputs['datacenters']['list']['store'] | undefined;
} {
  const { datacenter: here } = useSession();
  const { data } = useLiveQuery('datacenters', 'list', {}, { everyMs: EVERY_MS });
  const items = data?.items ?? [];
  return { here, items, isSeveral: items.length > 1, store: data?.store };
}
