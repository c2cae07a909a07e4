import { Modal, Stack } from '@mantine/core';
import { useEffect } from 'react';
import { type EventView, resourceText, ROLES } from '@leasehold/keys-core';
import { ROLE_LABELS } from '~/lib/auth.ts';
import { absolute, fullName } from '~/lib/format.ts';
import { pause } from '~/lib/live/live-state.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import { actionLabel, type AuditEntry } from '~/resources/audit.ts';
import { BulkItems } from '~/resources/bulk/bulk-panel.tsx';
import { EVENT_LOOKS, EventSentence, EventTime } from '~/resources/grant/grant-panels.tsx';
import { PersonLink } from '~/resources/looks.tsx';
import { doneBy } from '~/resources/names.ts';
import { Facts, JsonView } from '~/ui/page.tsx';
import { CopyableId, Link, LongName, Mono, VisibleText } from '~/ui/text.tsx';
import { Target } from './audit-columns.tsx';

/** All of one entry, and a link to what else the same person did. */
export function AuditDialog({
  entry,
  onClose,
}: {
  readonly entry: AuditEntry | null;
  readonly onClose: () => void;
}) {
  const isOpen = entry !== null;
  useEffect(() => (isOpen ? pause.hold() : undefined), [isOpen]);
  return (
    <Modal
      opened={isOpen}
      onClose={onClose}
      size="lg"
      title={entry === null ? '' : actionLabel(entry.action)}
    >
      {entry === null ? null : (
        <Stack gap="md">
          <Facts
            items={{
              Time: <Mono>{absolute(entry.at)}</Mono>,
              Resource: <Target entry={entry} />,
              By: (
                <>
                  <PersonLink name={entry.actor} /> ({roleLabel(entry.role)})
                </>
              ),
              Address: <Mono>{entry.source ?? 'not known'}</Mono>,
              Reason:
                entry.reason === null ? 'none given' : <VisibleText>{entry.reason}</VisibleText>,
              More: (
                <Link href={doneBy(entry.actor)} onClick={onClose}>
                  Everything by <VisibleText>{entry.actor}</VisibleText>
                </Link>
              ),
            }}
          />
          {entry.action === 'bulk.start' ? <BulkItems {...bulkOf(entry)} /> : null}
          <JsonView value={entry} label="Entry as JSON" />
        </Stack>
      )}
    </Modal>
  );
}

/** The bulk action that an entry began, and how many grants it has. */
function bulkOf({ resource, detail }: AuditEntry) {
  const { total } = { total: 0, ...(detail as { readonly total?: number } | null) };
  return { bulkId: resource.slice(resource.indexOf(':') + 1), total };
}

function roleLabel(role: string): string {
  const known = ROLES.find((one) => one === role);
  return known === undefined ? role : ROLE_LABELS[known].toLowerCase();
}

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
