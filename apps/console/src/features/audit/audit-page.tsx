'use client';

import { useMemo, useState } from 'react';
import { AUDIT_ACTIONS } from '@leasehold/keys-core';
import { textParam, useQueryStates } from '~/lib/address.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { actionName, type AuditEntry } from '~/resources/audit.ts';
import { ExportMenu, useTotal } from '~/resources/list/list-parts.tsx';
import { FilterMenu, SearchBox } from '~/ui/filters.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { FilterRow, PageHeader } from '~/ui/page.tsx';
import { EmptyState, NotAllowed } from '~/ui/states.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { auditColumns } from './audit-columns.tsx';
import { auditListInput } from './searches.ts';
import { TimeRangeFilter } from './time-range-filter.tsx';
import { TIME_RANGE_PARAMS, timeRangeOf } from './time-range.ts';

const AuditDialog = lazyDialog('entry', () =>
  import('./dialogs.tsx').then((module) => module.AuditDialog),
);

/** The audit makes no events. */
const EVERY_MS = 5_000;
/** A text that is found nowhere is looked for in the whole audit each time. */
const SEARCH_EVERY_MS = 60_000;
/** Parts of the input that are there without a filter. */
const NO_FILTERS = ['limit', 'cursor', 'signIns'];
const SHOW_OPTIONS = [
  { value: 'sign-ins', label: 'Only sign-ins' },
  { value: 'all', label: 'Shown' },
];
const ACTION_OPTIONS = AUDIT_ACTIONS.map((value) => ({ value, label: actionName(value) }));

/** Who did what to what, why, from where, and when. */
export function AuditPage() {
  const whyNot = useWhyNot('operator', { isOfAll: true });
  if (whyNot === undefined) return <Audit />;
  return (
    <>
      <PageHeader title="Audit" />
      <NotAllowed whyNot={whyNot}>
        Operators and administrators read here who did what, and why.
      </NotAllowed>
    </>
  );
}

function Audit() {
  const [address, setAddress] = useQueryStates({
    q: textParam.withDefault(''),
    action: textParam,
    show: textParam,
    ...TIME_RANGE_PARAMS,
    after: textParam,
  });
  const [shown, setShown] = useState<AuditEntry | null>(null);
  const columns = useMemo(() => auditColumns(setShown), []);
  const input = auditListInput(address);
  const everyMs = input.text === undefined ? EVERY_MS : SEARCH_EVERY_MS;
  const read = useLiveQuery('audit', 'list', input, { everyMs });
  const total = useTotal('audit', input, read);
  const isFiltered = Object.entries(input).some(
    ([field, value]) => value !== undefined && !NO_FILTERS.includes(field),
  );
  return (
    <>
      <PageHeader title="Audit" actions={<ExportMenu list="audit" input={input} />} />
      <FilterRow>
        <SearchBox
          label="Search the audit"
          placeholder="Part of a name, a reason or a person"
          value={address.q}
          onChange={(q) => setAddress({ q: q === '' ? null : q, after: null })}
        />
        <FilterMenu
          label="Action"
          value={address.action ?? undefined}
          options={ACTION_OPTIONS}
          onChange={(action) => setAddress({ action, after: null })}
        />
        <FilterMenu
          label="Sign-ins"
          value={SHOW_OPTIONS.find(({ value }) => value === address.show)?.value}
          options={SHOW_OPTIONS}
          unset="Hidden"
          onChange={(show) => setAddress({ show, after: null })}
        />
        <TimeRangeFilter
          value={timeRangeOf(address)}
          onChange={(range) => setAddress({ ...range, after: null })}
        />
      </FilterRow>
      <DataTable
        label="audit"
        columns={columns}
        read={read}
        everyMs={everyMs}
        rowId={(entry) => entry.id}
        state={{ after: address.after, setAfter: (after) => setAddress({ after }) }}
        identity={JSON.stringify(input)}
        total={total}
        empty={
          isFiltered ? (
            <EmptyState title="No entries match">
              Sign-ins are hidden unless you show them. Try the next page, or remove a filter.
            </EmptyState>
          ) : (
            <EmptyState title="No actions yet">
              What operators and administrators do is recorded here, with their reasons.
            </EmptyState>
          )
        }
      />
      <AuditDialog entry={shown} onClose={() => setShown(null)} />
    </>
  );
}
