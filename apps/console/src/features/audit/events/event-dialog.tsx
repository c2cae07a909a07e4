import { type EventView, resourceText } from '@leasehold/keys-core';
import { Modal, Stack } from '@mantine/core';
import { fullName } from '~/lib/format.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import { EVENT_LOOKS, EventSentence, EventTime } from '~/resources/grant/grant-panels.tsx';
import { PersonLink } from '~/resources/looks.tsx';
import { Facts, JsonView } from '~/ui/page.tsx';
import { CopyableId, Link, LongName, Mono } from '~/ui/text.tsx';

/** One event in words, what it names as links, and all of it as the API gives it. */
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
      {event === null ? null : (
        <Stack gap="md">
          <p style={{ margin: 0 }}>
            <EventSentence event={event} />.
          </p>
          <Facts
            items={{
              'Time (UTC)': <EventTime at={event.at} />,
              Resource: (
                <>
                  {event.face}{' '}
                  <Link href={routeOf(event.face, event)}>
                    <LongName>{resourceText(event)}</LongName>
                  </Link>
                </>
              ),
              By: <PersonLink name={event.actor} />,
              Token: <Mono>{event.fencingToken}</Mono>,
              Lease: <CopyableId id={event.leaseId} label="lease id" />,
              More: (
                <Link href={routes.events({ q: `lease:${event.leaseId}` })}>
                  All events of this grant
                </Link>
              ),
            }}
          />
          <JsonView value={event} label="Event as JSON" />
        </Stack>
      )}
    </Modal>
  );
}
