import { Code } from '@mantine/core';
import { resourceText } from '@leasehold/keys-core';
import type { FailingCallback, LeaseDeclaration } from '@leasehold/keys-core/leases';
import { useDatacenterFilter } from '~/lib/datacenters.ts';
import { count, duration, fullName } from '~/lib/format.ts';
import { usePage } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search.ts';
import { DatacenterMenu, withDatacenter } from '~/resources/list/list-parts.tsx';
import { FilterRow } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { Link, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import classes from './leases.module.css';

/** A try that fails makes no event. */
const EVERY_MS = 2_000;

/** What services should have done after a lease expired, and could not: each callback that fails, and why. */
export function CallbacksTab() {
  const { page, state } = usePage();
  const filter = useDatacenterFilter();
  const input = { ...page, ...filter.input };
  const read = useLiveQuery('leases', 'failingCallbacks', input, { everyMs: EVERY_MS });
  return (
    <>
      {filter.isSeveral ? (
        <FilterRow>
          <DatacenterMenu filter={filter} />
        </FilterRow>
      ) : null}
      <DataTable
        label="failing callbacks"
        columns={withDatacenter(CALLBACK_COLUMNS, filter.isSeveral)}
        read={read}
        rowId={({ datacenter, leaseId }) => `${datacenter} ${leaseId}`}
        state={state}
        identity={JSON.stringify(input)}
        isOfOthers={filter.isOfOthers}
        empty={
          <EmptyState title="No failing callbacks">
            After a lease has expired, <Code>reapStaleLeases</Code> of its service repairs what its
            holder had begun. A callback that fails is listed here until it succeeds.
          </EmptyState>
        }
      />
    </>
  );
}

const CALLBACK_COLUMNS: Column<FailingCallback>[] = [
  column('Lease', {}, (one) => (
    <>
      <Link href={routes.lease(one)} title={fullName(one)}>
        <VisibleText>{resourceText(one)}</VisibleText>
      </Link>
      <Under upTo="md">
        <VisibleText>{one.service ?? 'not declared by any service'}</VisibleText>
      </Under>
    </>
  )),
  column('Service', { from: 'md' }, (one) => (
    <span title={one.service ?? ''}>
      <VisibleText>{one.service ?? '–'}</VisibleText>
    </span>
  )),
  column('Tries', { align: 'end' }, (one) => (
    <span className={classes['waiting']}>{count(one.tries)}</span>
  )),
  column('Last error', { isFilling: true }, (one) => (
    <span title={one.lastError}>
      <VisibleText>{one.lastError || '–'}</VisibleText>
    </span>
  )),
  column('Next try', { from: 'sm' }, (one) => <RelativeTime at={one.nextTryAt} />),
  column('Expired', { from: 'lg' }, (one) => <RelativeTime at={one.expiredAt} />),
  column('Given up', { from: 'lg' }, (one) => <RelativeTime at={one.droppedAt} />),
];

/** The kinds of leases that services have declared, with how many of each are held and waited for now. */
export function DeclaredTab() {
  const { page, state } = usePage();
  const read = useLiveQuery('leases', 'declared', page);
  return (
    <DataTable
      label="declared leases"
      columns={DECLARED_COLUMNS}
      read={read}
      rowId={({ namespace }) => namespace}
      state={state}
      identity={JSON.stringify(page)}
      empty={
        <EmptyState title="No declared leases">
          Services declare the leases that they use when they start: <Code>leases.declare(…)</Code>{' '}
          of <Code>@leasehold/client</Code>.
        </EmptyState>
      }
    />
  );
}

const DECLARED_COLUMNS: Column<LeaseDeclaration>[] = [
  column('Namespace', {}, (one) => (
    <>
      <Link
        href={routes.leases({ q: fieldText('namespace', one.namespace) })}
        title={one.namespace}
      >
        <VisibleText>{one.namespace || 'the root'}</VisibleText>
      </Link>
      <span className={classes['under']}>
        <VisibleText>{one.declaredBy}</VisibleText>
      </span>
    </>
  )),
  column('Service', { from: 'md' }, (one) => (
    <span title={one.declaredBy}>
      <VisibleText>{one.declaredBy}</VisibleText>
    </span>
  )),
  column('Description', { from: 'md', isFilling: true }, (one) => (
    <span title={one.description ?? ''}>
      <VisibleText>{one.description ?? '–'}</VisibleText>
    </span>
  )),
  column('TTL', { align: 'end', from: 'sm' }, (one) => duration(one.ttlMs)),
  column('Held', { align: 'end' }, (one) => (
    <span className={one.held > 0 ? undefined : 'dimmed'}>{count(one.held)}</span>
  )),
  column('Permits', { align: 'end', from: 'md' }, ({ permits }) => permitsText(permits)),
  column('Waiting', { align: 'end' }, (one) => (
    <span className={one.waiting > 0 ? classes['waiting'] : 'dimmed'}>{count(one.waiting)}</span>
  )),
  column('Declared', { from: 'lg' }, (one) => <RelativeTime at={one.declaredAt} />),
];

/** `2 a key, 10 in all`. */
function permitsText(permits: LeaseDeclaration['permits']): string {
  if (permits == null) return '–';
  const { perKey, total } = permits;
  return `${count(perKey)} a key${total === null ? '' : `, ${count(total)} in all`}`;
}
