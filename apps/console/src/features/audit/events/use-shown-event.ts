import { EVENT_KINDS, type EventView } from '@leasehold/keys-core';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at } from '~/lib/routes.ts';
import { eventBefore, parseEventAddress } from './event-address.ts';

/** A day: an event never changes. */
const EVERY_MS = 86_400_000;

/** The event that the address names: one of those that are there, or read by itself. */
export function useShownEvent(
  address: string | null,
  rows: readonly EventView[],
): { readonly event: EventView | null; readonly isGone: boolean } {
  const wanted = parseEventAddress(address);
  const isWanted = (event: EventView): boolean =>
    event.id === wanted?.id &&
    (wanted.datacenter === undefined || event.datacenter === wanted.datacenter);
  const there = rows.find(isWanted);
  const read = useLiveQuery(
    'events',
    'list',
    {
      ...{
        afterId: wanted === undefined ? '0' : eventBefore(wanted.id),
        direction: 'asc',
        limit: 1,
      },
      kinds: [...EVENT_KINDS],
      ...at(wanted?.datacenter),
    },
    { everyMs: EVERY_MS, enabled: wanted !== undefined && there === undefined },
  );
  const event = there ?? read.data?.items.find(isWanted) ?? null;
  const isRead = read.isError || (read.data !== undefined && !read.isPlaceholderData);
  return { event, isGone: wanted !== undefined && event === null && isRead };
}
