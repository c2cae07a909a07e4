import type { EventView } from '@leasehold/keys-core';
import { ActionIcon } from '@mantine/core';
import { Tip } from '~/ui/tip.tsx';
import { IconListDetails } from '@tabler/icons-react';
import { column, type Column } from '~/ui/table/column.ts';
import { Link } from '~/ui/link.tsx';
import { Under, LongName, Mono, LookBadge, CopyableId } from '~/ui/text/text.tsx';
import { absolute, clockTime, fullName } from '~/lib/format.ts';
import { routeOf } from '~/lib/routes.ts';
import { EVENT_LOOKS } from '~/resources/timeline/event-looks.ts';

/** The columns of events. `onShow` opens one event in full. */
export function eventColumns(onShow: (event: EventView) => void): Column<EventView>[] {
  return [
    column('At (UTC)', { from: 'sm' }, (event) => <At event={event} />),
    column('Event', {}, (event) => (
      <>
        <LookBadge look={EVENT_LOOKS[event.kind]} />
        <Under upTo="sm">
          <At event={event} />
        </Under>
      </>
    )),
    column('Resource', {}, (event) => (
      <Link href={routeOf(event.face, event)}>
        <LongName>{fullName(event)}</LongName>
      </Link>
    )),
    column('Face', { from: 'xl' }, (event) => event.face),
    column('Token', { from: 'xl', align: 'end' }, (event) => <Mono>{event.fencingToken}</Mono>),
    column('By', { from: 'sm' }, (event) => <Mono title={event.actor}>{event.actor}</Mono>),
    column('Reason', { from: 'lg', isFilling: true }, (event) => (
      <span title={event.reason ?? ''}>{event.reason}</span>
    )),
    column('Lease', { from: 'xl' }, (event) => (
      <CopyableId id={event.leaseId} label="lease id" isShort />
    )),
    column('Details', { isHeadHidden: true }, (event) => (
      <Tip label="All of this event">
        <ActionIcon
          size="sm"
          aria-label={`All of ${EVENT_LOOKS[event.kind].label} ${fullName(event)}`}
          onClick={() => onShow(event)}
        >
          <IconListDetails size={15} />
        </ActionIcon>
      </Tip>
    )),
  ];
}

function At({ event }: { readonly event: EventView }) {
  return (
    <Tip label={<span className="mono">{absolute(event.at)}</span>}>
      <time dateTime={event.at} className="mono">
        {clockTime(event.at)}
      </time>
    </Tip>
  );
}
