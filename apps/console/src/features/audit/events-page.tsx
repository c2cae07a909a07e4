'use client';

import { ActionIcon, Button } from '@mantine/core';
import { IconListDetails } from '@tabler/icons-react';
import { useMemo } from 'react';
import { EVENT_KINDS, type EventView, resourceText } from '@leasehold/keys-core';
import { textParam, textsParam, useQueryStates } from '~/lib/address.ts';
import { useDatacenterFilter, useDatacenters } from '~/lib/datacenters.ts';
import { countText, fullName } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, routeOf } from '~/lib/routes.ts';
import { parseSearch } from '~/lib/search.ts';
import { eventText, refusalsOf } from '~/resources/grant/event-texts.ts';
import { EVENT_LOOKS, EventSentence, EventTime } from '~/resources/grant/grant-panels.tsx';
import {
  DatacenterMenu,
  ExportMenu,
  useTotal,
  withDatacenter,
} from '~/resources/list/list-parts.tsx';
import { FilterManyMenu, FilterMenu, SearchBox } from '~/ui/filters.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { FilterRow, PageHeader } from '~/ui/page.tsx';
import { EmptyState, Notice } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import type { ListPage } from '~/ui/table/table-state.ts';
import { Link, LongName, LookBadge, Under } from '~/ui/text.tsx';
import { Tip } from '~/ui/tip.tsx';
import {
  EVENT_FIELDS,
  eventAddress,
  eventBefore,
  eventListInput,
  eventProblems,
  FACE_OPTIONS,
  faceOf,
  kindsOf,
  missingEvent,
  parseEventAddress,
} from './searches.ts';
import { TimeRangeFilter } from './time-range-filter.tsx';
import { isAnyTime, TIME_RANGE_PARAMS, timeRangeOf } from './time-range.ts';
import classes from './audit.module.css';

const EventDialog = lazyDialog('event', () =>
  import('./dialogs.tsx').then((module) => module.EventDialog),
);

const EVERY_MS = 5_000;

const KIND_OPTIONS = EVENT_KINDS.map((value) => ({ value, label: EVENT_LOOKS[value].label }));

/** What happened to anything that can be held, newest first, as it happens. */
export function EventsPage() {
  const [address, setAddress] = useQueryStates({
    q: textParam.withDefault(''),
    face: textParam,
    kinds: textsParam.withDefault([]),
    after: textParam,
    event: textParam,
    ...TIME_RANGE_PARAMS,
  });
  const { here } = useDatacenters();
  const columns = useMemo(
    () => eventColumns((event) => setAddress({ event: eventAddress(event, here) })),
    [here, setAddress],
  );
  const search = useMemo(() => parseSearch(address.q, EVENT_FIELDS), [address.q]);
  const face = faceOf(address.face);
  const kinds = kindsOf(address.kinds);
  const filter = useDatacenterFilter();
  const input = {
    ...eventListInput({ ...address, search, face, kinds }),
    ...filter.input,
  };
  const problems = eventProblems(search);
  const isWrong = problems.length > 0;
  const read = useLiveQuery('events', 'list', input, { everyMs: EVERY_MS, enabled: !isWrong });
  const total = useTotal('events', input, read);
  const range = timeRangeOf(address);
  const isFiltered = address.q !== '' || face !== null || kinds.length > 0 || !isAnyTime(range);
  const shown = useShownEvent(address.event, read.data?.items ?? []);
  return (
    <>
      <PageHeader
        title="Events"
        actions={<ExportMenu list="events" input={input} isDisabled={isWrong} />}
      />
      <FilterRow>
        <SearchBox
          label="Search events"
          placeholder="Whole name, or namespace: lease:"
          value={address.q}
          problems={problems}
          onChange={(q) => setAddress({ q: q === '' ? null : q, after: null })}
        />
        <FilterMenu
          label="Type"
          value={face ?? undefined}
          options={FACE_OPTIONS}
          onChange={(value) => setAddress({ face: value, after: null })}
        />
        <FilterManyMenu
          label="Event"
          values={kinds}
          options={KIND_OPTIONS}
          onChange={(values) =>
            setAddress({ kinds: values.length === 0 ? null : values, after: null })
          }
        />
        <TimeRangeFilter value={range} onChange={(next) => setAddress({ ...next, after: null })} />
        <DatacenterMenu filter={filter} />
      </FilterRow>
      <RefusalSum page={read.data} />
      <MissingEvent {...shown} />
      <DataTable
        label="events"
        columns={withDatacenter(columns, filter.isSeveral)}
        read={read}
        rowId={({ datacenter, id }) => `${datacenter} ${id}`}
        state={{
          after: address.after,
          setAfter: (after) => setAddress({ after }),
        }}
        identity={JSON.stringify(input)}
        total={total}
        isOfOthers={filter.isOfOthers}
        empty={
          isFiltered ? (
            <EmptyState title="No events match">
              No event on the pages that were searched. Try the next page, or remove a filter.
            </EmptyState>
          ) : (
            <EmptyState title="No events yet">
              Grants, releases, expiries and revocations appear here as they happen.
            </EmptyState>
          )
        }
      />
      <EventDialog event={shown.event} onClose={() => setAddress({ event: null })} />
    </>
  );
}

/** In place of the event that the address names, why it is not shown; a failure with the way to try again. */
function MissingEvent({ missing, again }: Pick<ShownEvent, 'missing' | 'again'>) {
  if (missing === undefined) return null;
  if (missing.isGone) return <p className="dimmed">{missing.text}</p>;
  const action = (
    <Button variant="default" size="compact-xs" onClick={again}>
      Try again
    </Button>
  );
  return (
    <Notice tone="warn" action={action}>
      {missing.text}
    </Notice>
  );
}

/** What the rows of refused renewals add up to: one row may stand for many refusals. */
function RefusalSum({ page }: { readonly page: ListPage<EventView> | undefined }) {
  const counts = (page?.items ?? []).flatMap((event) => refusalsOf(event) ?? []);
  if (counts.length === 0) return null;
  const sum = counts.reduce((total, one) => total + one, 0);
  const where = page?.nextCursor === null ? '' : ' on this page';
  return (
    <p className="small-print" role="status">
      {`${countText(sum, 'refused renewal')} in ${countText(counts.length, 'row')}${where}`}
    </p>
  );
}

/** A day: an event never changes. */
const SHOWN_EVERY_MS = 86_400_000;

interface ShownEvent {
  readonly event: EventView | null;
  /** Why it is not there, once that is known. */
  readonly missing: ReturnType<typeof missingEvent>;
  readonly again: () => void;
}

/** The event that the address names: one of those that are there, or read by itself. */
function useShownEvent(address: string | null, rows: readonly EventView[]): ShownEvent {
  const wanted = parseEventAddress(address);
  const isWanted = (event: EventView): boolean =>
    event.id === wanted?.id &&
    (wanted.datacenter === undefined || event.datacenter === wanted.datacenter);
  const there = rows.find(isWanted);
  const read = useLiveQuery(
    'events',
    'list',
    {
      afterId: wanted === undefined ? '0' : eventBefore(wanted.id),
      direction: 'asc',
      limit: 1,
      kinds: [...EVENT_KINDS],
      ...at(wanted?.datacenter),
    },
    { everyMs: SHOWN_EVERY_MS, enabled: wanted !== undefined && there === undefined },
  );
  const event = there ?? read.data?.items.find(isWanted) ?? null;
  const isMissing = wanted !== undefined && event === null && !read.isPlaceholderData;
  return {
    event,
    missing: isMissing ? missingEvent(read) : undefined,
    again: () => void read.refetch(),
  };
}

/** The columns of events. `onShow` opens one event in full. */
function eventColumns(onShow: (event: EventView) => void): Column<EventView>[] {
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
