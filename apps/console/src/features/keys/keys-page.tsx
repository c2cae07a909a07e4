'use client';

import type { KeyView } from '@leasehold/keys-core/keys';
import type { ColumnDef } from '@tanstack/react-table';
import Link from 'next/link';
import { PageHeader } from '~/components/page-header.tsx';
import { SearchBox } from '~/components/search-box.tsx';
import { EmptyState } from '~/components/states/empty-state.tsx';
import { DataTable } from '~/components/table/data-table.tsx';
import { useSelection } from '~/components/table/use-selection.ts';
import { Mono } from '~/components/text/mono.tsx';
import { PhaseBadge } from '~/components/text/phase-badge.tsx';
import { RelativeTime } from '~/components/text/relative-time.tsx';
import { Remaining } from '~/components/text/remaining.tsx';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { useListState } from '~/lib/use-list-state.ts';
import { KEY_FIELDS, keyListInput } from './key-search.ts';

/** Every key: who holds it, for how long, with which token. */
export function KeysPage() {
  const state = useListState({ fields: KEY_FIELDS, sorts: ['name', 'grantedAt', 'expiresAt'] });
  const selection = useSelection<KeyView>();
  const input = keyListInput(state);
  const read = useLiveQuery('keys', 'list', input);
  return (
    <>
      <PageHeader title="Keys" />
      <SearchBox
        label="Search keys"
        placeholder="Name, or holder: phase: tag: drone: namespace:"
        value={state.q}
        problems={state.search.problems}
        onChange={state.setQ}
      />
      <DataTable
        label="keys"
        columns={COLUMNS}
        read={read}
        rowId={(key) => key.leaseId}
        rowName={(key) => key.name}
        state={state}
        identity={JSON.stringify(input)}
        selection={selection}
        empty={<EmptyState title="No keys">Nothing has asked for a key yet.</EmptyState>}
      />
    </>
  );
}

const COLUMNS: ColumnDef<KeyView>[] = [
  {
    id: 'name',
    header: 'Key',
    meta: { sort: 'name' },
    cell: ({ row: { original: key } }) => <Link href={routes.key(key)}>{key.name}</Link>,
  },
  {
    id: 'namespace',
    header: 'Namespace',
    meta: { from: 'md' },
    cell: ({ row }) => row.original.namespace,
  },
  {
    id: 'phase',
    header: 'Phase',
    cell: ({ row: { original: key } }) => <PhaseBadge phase={key.phase} />,
  },
  {
    id: 'holder',
    header: 'Holder',
    meta: { from: 'sm' },
    cell: ({ row: { original: key } }) => <Mono>{key.holder}</Mono>,
  },
  {
    id: 'remaining',
    header: 'Remaining',
    meta: { sort: 'expiresAt' },
    cell: ({ row: { original: key } }) => <Remaining {...key} />,
  },
  {
    id: 'token',
    header: 'Token',
    meta: { from: 'lg', align: 'end' },
    cell: ({ row: { original: key } }) => <Mono>{key.fencingToken}</Mono>,
  },
  {
    id: 'grantedAt',
    header: 'Granted',
    meta: { sort: 'grantedAt', from: 'md' },
    cell: ({ row: { original: key } }) => <RelativeTime at={key.grantedAt} asOf={key.asOf} />,
  },
];
