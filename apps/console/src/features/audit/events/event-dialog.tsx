import type { EventView } from '@leasehold/keys-core';
import { Modal } from '@mantine/core';
import { JsonView } from '~/ui/page/json-view.tsx';
import { fullName } from '~/lib/format.ts';
import { EVENT_LOOKS } from '~/resources/timeline/event-looks.ts';

/** All of one event, as the API gives it. */
export function EventDialog({
  event,
  onClose,
}: {
  readonly event: EventView | null;
  readonly onClose: () => void;
}) {
  return (
    <Modal
      opened={event !== null}
      onClose={onClose}
      size="lg"
      title={event === null ? '' : `${EVENT_LOOKS[event.kind].label}: ${fullName(event)}`}
    >
      {event === null ? null : <JsonView value={event} label="The event" />}
    </Modal>
  );
}
