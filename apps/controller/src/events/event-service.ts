import type { EventService } from '@leasehold/api';
import type { EventView } from '@leasehold/keys-core/keys';
import type { EventRow, EventStream } from '@leasehold/keys-core/store';

/** The event stream of this controller, as it travels. */
export function createEventService(stream: EventStream, datacenter: string): EventService {
  return {
    head: () => stream.head(),
    watch: async (request, signal) => views(await stream.open(request, signal), datacenter),
  };
}

async function* views(
  events: AsyncIterable<EventRow>,
  datacenter: string,
): AsyncGenerator<EventView, void> {
  for await (const event of events) {
    yield { ...event, at: new Date(event.at).toISOString(), datacenter };
  }
}
