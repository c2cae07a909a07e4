import { type EventView, resourceText } from '@leasehold/keys-core';
import { ActionIcon } from '@mantine/core';
import { IconListDetails } from '@tabler/icons-react';
import { fullName } from '~/lib/format.ts';
import { routeOf } from '~/lib/routes.ts';
import { eventText } from '~/resources/grant/event-texts.ts';
import { EVENT_LOOKS, EventSentence, EventTime } from '~/resources/grant/grant-panels.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { Link, LongName, LookBadge, Under } from '~/ui/text.tsx';
import { Tip } from '~/ui/tip.tsx';
import classes from '../audit.module.css';

/** The columns of events. `onShow` opens one event in full. */
export function eventColumns(onShow: (event: EventView) => void): Column<EventView>[] {
  return [
    column('Time (UTC)', { from: 'sm' }, (event) => <EventTime at={event.at} />),
    column('Event', {}, (event) => (
      <>
        <LookBadge look={EVENT_LOOKS[event.kind]} />
        <Under upTo="sm">
          <EventTime at={event.at} />
        </Under>
      </>
    )),
    column('Resource', {}, (event) => (
      <>
        <Link href={routeOf(event.face, event)}>
          <LongName>{resourceText(event)}</LongName>
        </Link>
        <Under upTo="md">
          <Sentence event={event} />
        </Under>
      </>
    )),
    column('What happened', { from: 'md', isFilling: true }, (event) => <Sentence event={event} />),
    column('Details', { isHeadHidden: true }, (event) => (
      <Tip label="Details">
        <ActionIcon
          size="sm"
          aria-label={`Details: ${EVENT_LOOKS[event.kind].label} ${fullName(event)}`}
          onClick={() => onShow(event)}
        >
          <IconListDetails size={15} />
        </ActionIcon>
      </Tip>
    )),
  ];
}

function Sentence({ event }: { readonly event: EventView }) {
  return (
    <span className={classes['words']} title={eventText(event)}>
      <EventSentence event={event} />
    </span>
  );
}
