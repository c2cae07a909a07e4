import { absolute } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { ResourceRef } from '~/lib/routes.ts';
import { useDetailList } from '~/resources/detail/use-detail-list.ts';
import { type GrantFace, GROUP_OF } from '~/resources/grant-view.ts';
import { EmptyState } from '~/ui/states.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { mapItems } from '~/ui/table/table-state.ts';
import { LookBadge, Mono, Under } from '~/ui/text.tsx';
import { EVENT_LOOKS } from './event-looks.ts';
import { EventSentence, EventTime } from './event-parts.tsx';
import { eventText } from './event-texts.ts';
import type { EventItem } from './grants-of-events.ts';
import classes from './grant-timeline.module.css';

/** Everything that happened to a resource, newest first. */
export function EventsPanel({
  face,
  resource,
  asOf,
}: {
  readonly face: GrantFace;
  readonly resource: ResourceRef;
  readonly asOf: string;
}) {
  const { input, table } = useDetailList(resource);
  const read = useLiveQuery(GROUP_OF[face], 'history', input);
  return (
    <DataTable
      label="events"
      columns={COLUMNS}
      read={mapItems(read, read.data?.items ?? [], asOf)}
      rowId={(event) => event.id}
      {...table}
      empty={
        <EmptyState title="No events">Old events are deleted after the retention time.</EmptyState>
      }
    />
  );
}

const COLUMNS: Column<EventItem>[] = [
  column('Time', { from: 'sm' }, (event) => <Mono>{absolute(event.at)}</Mono>),
  column('Event', {}, (event) => (
    <>
      <LookBadge look={EVENT_LOOKS[event.kind]} />
      <Under upTo="sm">
        <EventTime at={event.at} />
      </Under>
    </>
  )),
  column('Token', { from: 'sm' }, (event) => <Mono>{event.fencingToken}</Mono>),
  column('What happened', { isFilling: true }, (event) => (
    <span className={classes['went']} title={eventText(event)}>
      <EventSentence event={event} />
    </span>
  )),
];
