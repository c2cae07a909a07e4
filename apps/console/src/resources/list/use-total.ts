import type { Count } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api/api.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';

/** The groups of procedures whose lists can be counted. */
type Counted =
  | 'keys'
  | 'leases'
  | 'environments'
  | 'reservations'
  | 'drones'
  | 'backends'
  | 'events'
  | 'audit'
  | 'people'
  | 'tokens';

/** A total changes little, and is read beside a page that is read often. */
const EVERY_MS = 30_000;

/** What asks for one page of a list, and not for which rows it has. */
const OF_A_PAGE = ['limit', 'cursor', 'sort', 'direction'];

/**
 * How many rows all pages of a list have. Asked for on its own, so that no page waits for it, and only
 * where the page that is shown does not answer it: one that is the first and the last has every row.
 */
export function useTotal<G extends Counted>(
  group: G,
  input: NonNullable<Inputs[G]['list']>,
  read: { readonly data?: { readonly nextCursor: string | null } | undefined },
): Count | undefined {
  const filter = Object.fromEntries(
    Object.entries(input).filter(([field]) => !OF_A_PAGE.includes(field)),
  );
  const isMore = typeof read.data?.nextCursor === 'string';
  const counted = useLiveQuery(group, 'count', filter as Inputs[G]['count'], {
    everyMs: EVERY_MS,
    isOnTimer: true,
    enabled: isMore,
  });
  return counted.data as Count | undefined;
}
