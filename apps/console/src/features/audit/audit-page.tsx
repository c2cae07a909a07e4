'use client';

import { AUDIT_ACTIONS } from '@leasehold/keys-core';
import { parseAsString, useQueryStates } from 'nuqs';
import { useMemo, useState } from 'react';
import { lazyDialog } from '~/ui/dialogs/lazy-dialog.tsx';
import { ExportMenu } from '~/resources/list/export-menu.tsx';
import { FilterMenu } from '~/ui/menus/filter-menu.tsx';
import { FilterRow, PageHeader } from '~/ui/page/page-header.tsx';
import { SearchBox } from '~/ui/search-box.tsx';
import { EmptyState, NotAllowed } from '~/ui/states/states.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { parseSearch } from '~/lib/search/search.ts';
import { useWhyNot } from '~/lib/session/session.tsx';
import { auditColumns } from './audit-columns.tsx';
import { AUDIT_FIELDS, auditListInput, instantOf, type Span, spanText } from './audit-search.ts';
import type { AuditEntry } from '~/resources/audit/audit-target.ts';
import { Button } from '@mantine/core';
import { IconChevronDown } from '@tabler/icons-react';
import dynamic from 'next/dynamic';
import { useOpener } from '~/ui/menus/use-opener.ts';

const AuditDialog = lazyDialog('entry', () => import('./audit-dialog.tsx'));

/** The audit makes no events. */
const EVERY_MS = 5_000;
const ACTION_OPTIONS = AUDIT_ACTIONS.map((value) => ({ value, label: value }));

/** Who did what to what, why, from where, and when. */
export function AuditPage() {
  const whyNot = useWhyNot('operator');
  if (whyNot === undefined) return <Audit />;
  return (
    <>
      <PageHeader title="Audit" />
      <NotAllowed whyNot={whyNot}>
        Here operators and administrators read who did what, and why.
      </NotAllowed>
    </>
  );
}

function Audit() {
  const [address, setAddress] = useQueryStates(
    {
      q: parseAsString.withDefault(''),
      action: parseAsString,
      from: parseAsString,
      to: parseAsString,
      after: parseAsString,
    },
    { history: 'push' },
  );
  const [shown, setShown] = useState<AuditEntry | null>(null);
  const columns = useMemo(() => auditColumns(setShown), []);
  const search = useMemo(() => parseSearch(address.q, AUDIT_FIELDS), [address.q]);
  const input = auditListInput({ ...address, search });
  const read = useLiveQuery('audit', 'list', input, { everyMs: EVERY_MS });
  const span = { from: instantOf(address.from), to: instantOf(address.to) };
  const isFiltered = Object.entries(input).some(
    ([field, value]) => value !== undefined && field !== 'limit' && field !== 'cursor',
  );
  return (
    <>
      <PageHeader title="Audit" actions={<ExportMenu list="audit" input={input} />} />
      <FilterRow>
        <SearchBox
          label="Search the audit"
          placeholder="Name or id of what it was done to, or actor:"
          value={address.q}
          problems={search.problems}
          onChange={(q) => void setAddress({ q: q === '' ? null : q, after: null })}
        />
        <FilterMenu
          label="Action"
          value={address.action ?? undefined}
          options={ACTION_OPTIONS}
          onChange={(action) => void setAddress({ action, after: null })}
        />
        <SpanFilter
          span={span}
          onChange={({ from, to }) => void setAddress({ from, to, after: null })}
        />
      </FilterRow>
      <DataTable
        label="audit"
        columns={columns}
        read={read}
        rowId={(entry) => entry.id}
        state={{ after: address.after, setAfter: (after) => void setAddress({ after }) }}
        identity={JSON.stringify(input)}
        empty={
          isFiltered ? (
            <EmptyState title="No entry matches">
              Names of actors and targets are matched as a whole. Remove a filter to see more.
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

const SpanPopover = dynamic(
  () => import('./span-popover.tsx').then((module) => module.SpanPopover),
  {
    ssr: false,
  },
);

/** The time that a list spans, as a button; times are UTC, as everywhere on the page. */
function SpanFilter({
  span,
  onChange,
}: {
  readonly span: Span;
  readonly onChange: (span: Span) => void;
}) {
  const opener = useOpener('dialog');
  const isSet = span.from !== null || span.to !== null;
  return (
    <>
      <Button
        {...opener.props}
        variant={isSet ? 'light' : 'default'}
        rightSection={<IconChevronDown size={13} />}
      >
        {spanText(span.from, span.to)}
      </Button>
      {opener.isWanted ? <SpanPopover opener={opener} span={span} onChange={onChange} /> : null}
    </>
  );
}
