import type { LeaseDeclaration } from '@leasehold/keys-core/leases';
import { Code } from '@mantine/core';
import { count, duration } from '~/lib/format.ts';
import { usePage } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search.ts';
import { EmptyState } from '~/ui/states.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { Link, RelativeTime, VisibleText } from '~/ui/text.tsx';
import classes from './leases.module.css';

/** The kinds of leases that services have declared, with how many of each are held and waited for now. */
export function DeclaredTab() {
  const { page, state } = usePage();
  const read = useLiveQuery('leases', 'declared', page);
  return (
    <DataTable
      label="declared leases"
      columns={COLUMNS}
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

const COLUMNS: Column<LeaseDeclaration>[] = [
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
  column('Waiting', { align: 'end' }, (one) => (
    <span className={one.waiting > 0 ? classes['waiting'] : 'dimmed'}>{count(one.waiting)}</span>
  )),
  column('Declared', { from: 'lg' }, (one) => <RelativeTime at={one.declaredAt} />),
];
