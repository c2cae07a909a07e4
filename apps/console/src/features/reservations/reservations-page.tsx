'use client';

import { IconPlus } from '@tabler/icons-react';
import { useState } from 'react';
import { keyNameOf } from '@leasehold/keys-core';
import { useDatacenterFilter, useDatacenters } from '~/lib/datacenters.ts';
import { absolute } from '~/lib/format.ts';
import { useListState } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { withField } from '~/lib/search.ts';
import { useWhyNot } from '~/lib/session.tsx';
import {
  DatacenterMenu,
  ExportMenu,
  NothingFound,
  useTotal,
  withDatacenter,
} from '~/resources/list/list-parts.tsx';
import { keyLabel } from '~/resources/names.ts';
import { FilterMenu, SearchBox } from '~/ui/filters.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { FilterRow, PageHeader } from '~/ui/page.tsx';
import { EmptyState, Foot, Notice } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { mapItems } from '~/ui/table/table-state.ts';
import { Link, LookBadge, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import { ChainPath, KeyText, RESERVATION_LOOKS } from './chain.tsx';
import {
  LISTED_STATES,
  RESERVATION_FIELDS,
  type ReservationItem,
  reservationListInput,
  reservationSearchProblems,
} from './reservation-search.ts';

const ReserveDialog = lazyDialog('isOpen', () =>
  import('./reservation-dialogs.tsx').then((module) => module.ReserveDialog),
);

const STATE_OPTIONS = LISTED_STATES.map((value) => ({
  value,
  label: RESERVATION_LOOKS[value].label,
}));

/** Which datacenter each key lives in, and which ones it has left. */
export function ReservationsPage() {
  const state = useListState({ fields: RESERVATION_FIELDS, sorts: ['key'] });
  const filter = useDatacenterFilter();
  const problems = reservationSearchProblems(state.search);
  const input = { ...reservationListInput(state), ...filter.input };
  const read = useLiveQuery('reservations', 'list', input, { enabled: problems.length === 0 });
  const total = useTotal('reservations', input, read);
  const asOf = read.data?.asOf ?? '';
  const rows = (read.data?.items ?? []).map((reservation) => ({ ...reservation, asOf }));
  return (
    <>
      <PageHeader
        title="Reservations"
        actions={
          <>
            <ExportMenu list="reservations" input={input} isDisabled={problems.length > 0} />
            <ReserveButton />
          </>
        }
      />
      <FilterRow>
        <SearchBox
          label="Search reservations"
          placeholder="Part of a name, or namespace: state:"
          value={state.q}
          problems={problems}
          onChange={state.setQ}
        />
        <FilterMenu
          label="State"
          value={state.search.fields['state']}
          options={STATE_OPTIONS}
          onChange={(value) => state.setQ(withField(state.q, 'state', value))}
        />
        <DatacenterMenu filter={filter} />
      </FilterRow>
      <StoreNotice />
      <DataTable
        label="reservations"
        columns={withDatacenter(RESERVATION_COLUMNS, filter.isSeveral, { isAlways: true })}
        read={mapItems(read, rows, asOf)}
        rowId={(reservation) => reservation.reservationId}
        state={{ after: state.after, setAfter: state.setAfter }}
        identity={JSON.stringify(input)}
        isOfOthers={filter.isOfOthers}
        total={total}
        empty={
          <NothingFound what="reservations" state={state}>
            <EmptyState title="No reservations">
              The home of a key is the datacenter that first starts its backend, until an operator
              moves it. To choose it earlier, reserve the key.
            </EmptyState>
          </NothingFound>
        }
      />
    </>
  );
}

/** Warns that no home can be decided while the store is unreachable. */
function StoreNotice() {
  const { store } = useDatacenters();
  if (store === undefined || store.isReachable) return null;
  return (
    <Foot>
      <Notice tone="warn">
        The reservation store cannot be reached
        {store.since === null ? '' : ` since ${absolute(store.since)}`}. Keys with a known home
        still work. A new key cannot get a home now.
      </Notice>
    </Foot>
  );
}

function ReserveButton() {
  const [isOpen, setOpen] = useState(false);
  const whyNot = useWhyNot('client');
  return (
    <>
      <GuardedButton
        whyNot={whyNot}
        leftSection={<IconPlus size={14} />}
        onClick={() => setOpen(true)}
      >
        Reserve
      </GuardedButton>
      <ReserveDialog isOpen={isOpen} onClose={() => setOpen(false)} />
    </>
  );
}

/** A reservation with the time of the page that it is on. */
type ReservationRow = ReservationItem & { readonly asOf: string };

const RESERVATION_COLUMNS: Column<ReservationRow>[] = [
  column('Namespace', { from: 'md' }, (reservation) => {
    const namespace = keyNameOf(reservation.key)?.namespace ?? '';
    return (
      <span title={namespace}>
        <VisibleText>{namespace || '–'}</VisibleText>
      </span>
    );
  }),
  column('Key', {}, (reservation) => <KeyCell reservation={reservation} />),
  column('State', {}, (reservation) => <LookBadge look={RESERVATION_LOOKS[reservation.state]} />),
  column('Chain', { from: 'sm' }, (reservation) => (
    <ChainPath chain={reservation.chain} movedTo={reservation.movedTo} />
  )),
  column('Activated', { from: 'md' }, (reservation) => (
    <RelativeTime at={reservation.activatedAt} asOf={reservation.asOf} />
  )),
  column('Left', { from: 'md' }, (reservation) =>
    reservation.movedAt === null ? (
      '–'
    ) : (
      <RelativeTime at={reservation.movedAt} asOf={reservation.asOf} />
    ),
  ),
  column('By', { from: 'lg' }, (reservation) => {
    const by = reservation.movedBy ?? reservation.activatedBy;
    return <Mono title={by}>{by}</Mono>;
  }),
];

function KeyCell({ reservation }: { readonly reservation: ReservationRow }) {
  const { key } = reservation;
  const namespace = keyNameOf(key)?.namespace ?? '';
  return (
    <>
      <Link href={routes.reservation(key)} title={keyLabel(key)}>
        <KeyText of={key} />
      </Link>
      {namespace === '' ? null : (
        <Under upTo="md">
          <VisibleText>{namespace}</VisibleText>
        </Under>
      )}
    </>
  );
}
