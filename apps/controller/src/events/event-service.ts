import type { EventService } from '@leasehold/api';
import type { EventView } from '@leasehold/keys-core';
import {
  changesOf,
  countEvents,
  listEvents,
  type EventRow,
  type EventStream,
} from '@leasehold/keys-core/events';
import type { Store } from '@leasehold/keys-core/postgres';

/** The place before all events, for a reader that may see none. */
const OLDEST = 'oldest';

/** The event stream of this controller and its history, in the form of the API. */
export function createEventService(
  stream: EventStream,
  store: Pick<Store, 'reads' | 'datacenter' | 'clock'>,
): EventService {
  const { datacenter } = store;
  return {
    async head(limits) {
      const head = await stream.head();
      if (limits === null) return head;
      const endOf = async (direction: 'asc' | 'desc'): Promise<string | undefined> =>
        (await listEvents(store.reads, { direction, limit: 1 }, limits)).items[0]?.id;
      const [oldestId, lastId] = await Promise.all([endOf('asc'), endOf('desc')]);
      return { lastId: lastId ?? OLDEST, oldestId: oldestId ?? null };
    },
    async list(input, limits) {
      const { items, nextCursor } = await listEvents(store.reads, input, limits);
      return { items: items.map((event) => viewOf(event, datacenter)), nextCursor };
    },
    count: (input, limits) => countEvents(store.reads, input, limits),
    watch: async (request, signal) => views(await stream.open(request, signal), datacenter),
    async changes(request, signal) {
      const leaving = new AbortController();
      const events = await stream.open(request, AbortSignal.any([signal, leaving.signal]));
      return changesOf(events, { store, signal, leave: () => leaving.abort() });
    },
  };
}

async function* views(
  events: AsyncIterable<EventRow>,
  datacenter: string,
): AsyncGenerator<EventView, void> {
  for await (const event of events) yield viewOf(event, datacenter);
}

function viewOf(event: EventRow, datacenter: string): EventView {
  return { ...event, at: new Date(event.at).toISOString(), datacenter };
}
