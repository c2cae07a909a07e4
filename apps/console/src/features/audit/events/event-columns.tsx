import type { EventView } from '@leasehold/keys-core';
import { ActionIcon } from '@mantine/core';
import { Tip } from '~/ui/tip.tsx';
import { IconListDetails } from '@tabler/icons-react';
import type { ColumnDef } from '@tanstack/react-table';
import { Link } from '~/ui/link.tsx';
import { Under } from '~/ui/text/under.tsx';
import { CopyableId } from '~/ui/text/copyable-id.tsx';
import { LongName } from '~/ui/text/long-name.tsx';
import { Mono } from '~/ui/text/mono.tsx';
import { LookBadge } from '~/ui/text/badge.tsx';
import { absolute, clockTime, fullName } from '~/lib/format.ts';
import { routeOf } from '~/lib/routes.ts';
import { EVENT_LOOKS } from '~/resources/timeline/event-looks.ts';

/** The columns of events. `onShow` opens one event in full. */
export function eventColumns(onShow: (event: EventView) => void): ColumnDef<EventView>[] {
  return [
    {
      id: 'at',
      header: 'At (UTC)',
      meta: { from: 'sm' },
      cell: ({ row: { original: event } }) => <At event={event} />,
    },
    {
      id: 'kind',
      header: 'Event',
      cell: ({ row: { original: event } }) => (
        <>
          <LookBadge look={EVENT_LOOKS[event.kind]} />
          <Under upTo="sm">
            <At event={event} />
          </Under>
        </>
      ),
    },
    {
      id: 'resource',
      header: 'Resource',
      cell: ({ row: { original: event } }) => (
        <Link href={routeOf(event.face, event)}>
          <LongName>{fullName(event)}</LongName>
        </Link>
      ),
    },
    { id: 'face', header: 'Face', meta: { from: 'xl' }, cell: ({ row }) => row.original.face },
    {
      id: 'token',
      header: 'Token',
      meta: { from: 'xl', align: 'end' },
      cell: ({ row }) => <Mono>{row.original.fencingToken}</Mono>,
    },
    {
      id: 'actor',
      header: 'By',
      meta: { from: 'sm' },
      cell: ({ row }) => <Mono title={row.original.actor}>{row.original.actor}</Mono>,
    },
    {
      id: 'reason',
      header: 'Reason',
      meta: { from: 'lg', isFilling: true },
      cell: ({ row: { original: event } }) => (
        <span title={event.reason ?? ''}>{event.reason}</span>
      ),
    },
    {
      id: 'lease',
      header: 'Lease',
      meta: { from: 'xl' },
      cell: ({ row: { original: event } }) => (
        <CopyableId id={event.leaseId} label="lease id" isShort />
      ),
    },
    {
      id: 'more',
      header: () => <span className="visually-hidden">Details</span>,
      cell: ({ row: { original: event } }) => (
        <Tip label="All of this event">
          <ActionIcon
            size="sm"
            aria-label={`All of ${EVENT_LOOKS[event.kind].label} ${fullName(event)}`}
            onClick={() => onShow(event)}
          >
            <IconListDetails size={15} />
          </ActionIcon>
        </Tip>
      ),
    },
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
