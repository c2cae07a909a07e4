'use client';

import { type EventView, EVENT_KINDS, FACES } from '@leasehold/keys-core';
import { parseAsArrayOf, parseAsString, useQueryStates } from 'nuqs';
import { useMemo, useState } from 'react';
import { DatacenterMenu, withDatacenter } from '~/resources/list/datacenters.tsx';
import { lazyDialog } from '~/ui/dialogs/lazy-dialog.tsx';
import { FilterManyMenu, FilterMenu } from '~/ui/menus/filter-menu.tsx';
import { FilterRow, PageHeader } from '~/ui/page/page-header.tsx';
import { SearchBox } from '~/ui/search-box.tsx';
import { EmptyState } from '~/ui/states/states.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { parseSearch } from '~/lib/search/search.ts';
import { useDatacenterFilter } from '~/lib/datacenters/use-datacenters.ts';
import { eventColumns } from './event-columns.tsx';
import { EVENT_LOOKS } from '~/resources/timeline/event-looks.ts';
import { EVENT_FIELDS, eventListInput, eventProblems, faceOf, kindsOf } from './event-search.ts';

const EventDialog = lazyDialog('event', () => import('./event-dialog.tsx'));

const EVERY_MS = 5_000;
const FACE_LABELS = { key: 'Keys', lease: 'Leases', environment: 'Environments' } as const;
const FACE_OPTIONS = FACES.map((value) => ({ value, label: FACE_LABELS[value] }));
const KIND_OPTIONS = EVENT_KINDS.map((value) => ({ value, label: EVENT_LOOKS[value].label }));

/** What happened to anything that can be held, newest first, as it happens. */
export function EventsPage() {
  const [address, setAddress] = useQueryStates(
    {
      q: parseAsString.withDefault(''),
      face: parseAsString,
      kinds: parseAsArrayOf(parseAsString).withDefault([]),
      after: parseAsString,
    },
    { history: 'push' },
  );
  const [shown, setShown] = useState<EventView | null>(null);
  const columns = useMemo(() => eventColumns(setShown), []);
  const search = useMemo(() => parseSearch(address.q, EVENT_FIELDS), [address.q]);
  const face = faceOf(address.face);
  const kinds = kindsOf(address.kinds);
  const filter = useDatacenterFilter();
  const input = {
    ...eventListInput({ search, face, kinds, after: address.after }),
    ...filter.input,
  };
  const read = useLiveQuery('events', 'list', input, { everyMs: EVERY_MS });
  const isFiltered = address.q !== '' || face !== null || kinds.length > 0;
  return (
    <>
      <PageHeader title="Events" />
      <FilterRow>
        <SearchBox
          label="Search events"
          placeholder="Whole name, or namespace: lease:"
          value={address.q}
          problems={eventProblems(search)}
          onChange={(q) => void setAddress({ q: q === '' ? null : q, after: null })}
        />
        <FilterMenu
          label="Face"
          value={face ?? undefined}
          options={FACE_OPTIONS}
          onChange={(value) => void setAddress({ face: value, after: null })}
        />
        <FilterManyMenu
          label="Kinds"
          values={kinds}
          options={KIND_OPTIONS}
          onChange={(values) =>
            void setAddress({ kinds: values.length === 0 ? null : values, after: null })
          }
        />
        <DatacenterMenu filter={filter} />
      </FilterRow>
      <DataTable
        label="events"
        columns={withDatacenter(columns, filter.isSeveral)}
        read={read}
        rowId={({ datacenter, id }) => `${datacenter} ${id}`}
        state={{
          after: address.after,
          setAfter: (after) => void setAddress({ after }),
        }}
        identity={JSON.stringify(input)}
        isOfOthers={filter.isOfOthers}
        empty={
          isFiltered ? (
            <EmptyState title="No event matches">
              No event that is kept, or none on the pages that were searched. Try the next page, or
              remove a filter.
            </EmptyState>
          ) : (
            <EmptyState title="Nothing has happened yet">
              Grants, releases, expiries and revocations appear here as they happen.
            </EmptyState>
          )
        }
      />
      <EventDialog event={shown} onClose={() => setShown(null)} />
    </>
  );
}
