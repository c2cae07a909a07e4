'use client';

import { useMemo } from 'react';
import { resourceText } from '@leasehold/keys-core';
import { textParam, useQueryStates } from '~/lib/address.ts';
import type { Outputs } from '~/lib/api/api.ts';
import { useDatacenterFilter } from '~/lib/datacenters.ts';
import { count } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routeOf } from '~/lib/routes.ts';
import { parseSearch } from '~/lib/search.ts';
import { DatacenterMenu, withDatacenter } from '~/resources/list/list-parts.tsx';
import { FilterMenu, SearchBox } from '~/ui/filters.tsx';
import { FilterRow, PageHeader } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { Link, LongName, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { FACE_OPTIONS, faceOf } from './searches.ts';
import { TimeRangeFilter } from './time-range-filter.tsx';
import { isAnyTime, TIME_RANGE_PARAMS, timeRangeInput, timeRangeOf } from './time-range.ts';
import classes from './audit.module.css';

type Refusal = Outputs['refusals']['list']['items'][number];

const FIELDS = ['namespace', 'code'] as const;

/** Which connects and acquires were refused, how often and why: those that were refused last first. */
export function RefusalsPage() {
  const [address, setAddress] = useQueryStates({
    q: textParam.withDefault(''),
    face: textParam,
    after: textParam,
    ...TIME_RANGE_PARAMS,
  });
  const search = useMemo(() => parseSearch(address.q, FIELDS), [address.q]);
  const { namespace, code } = search.fields;
  const face = faceOf(address.face) ?? undefined;
  const filter = useDatacenterFilter();
  const input = {
    limit: 100,
    cursor: address.after ?? undefined,
    face,
    name: search.name ?? search.contains,
    namespace,
    code,
    ...timeRangeInput(address),
    ...filter.input,
  };
  const read = useLiveQuery('refusals', 'list', input, {
    everyMs: 5_000,
    enabled: search.problems.length === 0,
  });
  const range = timeRangeOf(address);
  const isFiltered = address.q !== '' || face !== undefined || !isAnyTime(range);
  return (
    <>
      <PageHeader title="Refusals" />
      <FilterRow>
        <SearchBox
          label="Search refusals"
          placeholder="Whole name, or namespace: code:"
          value={address.q}
          problems={search.problems}
          onChange={(q) => setAddress({ q: q === '' ? null : q, after: null })}
        />
        <FilterMenu
          label="Type"
          value={face}
          options={FACE_OPTIONS}
          onChange={(value) => setAddress({ face: value, after: null })}
        />
        <TimeRangeFilter value={range} onChange={(next) => setAddress({ ...next, after: null })} />
        <DatacenterMenu filter={filter} />
      </FilterRow>
      <DataTable
        label="refusals"
        columns={withDatacenter(COLUMNS, filter.isSeveral)}
        read={read}
        rowId={({ datacenter, face: of, namespace, name, code, firstAt }) =>
          JSON.stringify([datacenter, of, namespace, name, code, firstAt])
        }
        state={{ after: address.after, setAfter: (after) => setAddress({ after }) }}
        identity={JSON.stringify(input)}
        isOfOthers={filter.isOfOthers}
        empty={
          isFiltered ? (
            <EmptyState title="No refusals match">
              Remove a filter, or look at another time.
            </EmptyState>
          ) : (
            <EmptyState title="Nothing was refused">
              Connects and acquires that are refused are listed here for a week, with the caller and
              the reason.
            </EmptyState>
          )
        }
      />
    </>
  );
}

const COLUMNS: Column<Refusal>[] = [
  column('Last', { from: 'sm' }, (one) => <RelativeTime at={one.lastAt} />),
  column('Resource', {}, (one) => (
    <>
      {one.name === '' ? (
        <span className="dimmed">a new key</span>
      ) : (
        <Link href={routeOf(one.face, one)}>
          <LongName>{resourceText(one)}</LongName>
        </Link>
      )}
      <Under upTo="md">
        <Reason of={one} />
      </Under>
    </>
  )),
  column('Code', {}, (one) => <Mono>{one.code}</Mono>),
  column('Times', { align: 'end' }, (one) => count(one.count)),
  column('Caller', { from: 'lg' }, (one) => <VisibleText>{one.holder ?? one.actor}</VisibleText>),
  column('Why', { from: 'md', isFilling: true }, (one) => <Reason of={one} />),
];

function Reason({ of: { reason } }: { readonly of: Refusal }) {
  return (
    <span className={classes['words']} title={reason}>
      <VisibleText>{reason}</VisibleText>
    </span>
  );
}
