'use client';

import { keyNameOf, LIMITS, reservationKeyText } from '@leasehold/keys-core';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { listedDatacenters } from '~/lib/listed-datacenters.ts';
import { useDatacenters } from '~/lib/use-datacenters.ts';
import type { UnreachableDatacenter } from '~/components/states/unreachable-notice.tsx';
import type { ReservationItem } from './reservation-item.ts';

const EVERY_MS = 3_000;

/**
 * What each datacenter says of its own reservations of a key: who moved it, when and why. A chain itself
 * has ids alone. A datacenter that cannot be reached is missing, and said.
 */
export function useStories(key: readonly string[]): {
  readonly byId: ReadonlyMap<string, ReservationItem>;
  readonly asOf: string | undefined;
  readonly unreachable: readonly UnreachableDatacenter[];
} {
  const { isSeveral } = useDatacenters();
  const named = keyNameOf(key);
  const { data } = useLiveQuery(
    'reservations',
    'list',
    {
      // The list is in the order of keys: of those that begin so, this one comes first.
      ...(named === undefined ? {} : { prefix: named.name }),
      ...(named === undefined || named.namespace === '' ? {} : { namespace: named.namespace }),
      limit: LIMITS.pageSizeMax,
      ...listedDatacenters(null, isSeveral),
    },
    { everyMs: EVERY_MS },
  );
  const text = reservationKeyText(key);
  const own = (data?.items ?? []).filter((item) => reservationKeyText(item.key) === text);
  return {
    byId: new Map(own.map((item) => [item.reservationId, item])),
    asOf: data?.asOf,
    unreachable: data?.unreachable ?? [],
  };
}
