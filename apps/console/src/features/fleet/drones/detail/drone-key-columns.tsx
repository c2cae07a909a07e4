'use client';

import type { KeyView } from '@leasehold/keys-core/keys';
import type { ColumnDef } from '@tanstack/react-table';
import { Link } from '~/ui/link.tsx';
import { Under } from '~/ui/text/under.tsx';
import { Mono } from '~/ui/text/mono.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { RelativeTime } from '~/ui/text/relative-time.tsx';
import { Remaining } from '~/resources/remaining.tsx';
import { routes } from '~/lib/routes.ts';

/** The columns of keys on the page of their drone. */
export const DRONE_KEY_COLUMNS: ColumnDef<KeyView>[] = [
  {
    id: 'name',
    header: 'Key',
    cell: ({ row: { original: key } }) => (
      <>
        <Link href={routes.key(key)}>{key.name}</Link>
        <Under upTo="sm">{key.namespace}</Under>
      </>
    ),
  },
  {
    id: 'namespace',
    header: 'Namespace',
    meta: { from: 'sm' },
    cell: ({ row: { original: key } }) => key.namespace,
  },
  {
    id: 'phase',
    header: 'Phase',
    cell: ({ row: { original: key } }) => <PhaseBadge phase={key.phase} />,
  },
  {
    id: 'remaining',
    header: 'Remaining',
    meta: { from: 'sm' },
    cell: ({ row: { original: key } }) => <Remaining {...key} />,
  },
  {
    id: 'backend',
    header: 'Backend',
    meta: { from: 'md' },
    cell: ({ row: { original: key } }) =>
      key.backendId === null ? (
        '–'
      ) : (
        <Link href={routes.backend(key.backendId, key.datacenter)}>
          <Mono>{key.backendId}</Mono>
        </Link>
      ),
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
    meta: { from: 'md' },
    cell: ({ row: { original: key } }) => <RelativeTime at={key.grantedAt} asOf={key.asOf} />,
  },
];
