'use client';

import type { ColumnDef } from '@tanstack/react-table';
import { Link } from '~/ui/link.tsx';
import { Under } from '~/ui/text/under.tsx';
import { Mono } from '~/ui/text/mono.tsx';
import { BACKEND_LOOKS } from '~/resources/looks.tsx';
import { LookBadge } from '~/ui/text/badge.tsx';
import { RelativeTime } from '~/ui/text/relative-time.tsx';
import { routes } from '~/lib/routes.ts';
import { endOf } from './backend-end.ts';
import type { Backend } from './backend-texts.ts';

/** `isOfDrone`: on the page of a drone, where the drone is not repeated. */
export function backendColumns({ isOfDrone = false } = {}): ColumnDef<Backend>[] {
  return [
    {
      id: 'backend',
      header: 'Backend',
      cell: ({ row: { original: backend } }) => (
        <>
          <Link href={routes.backend(backend.backendId, backend.datacenter)}>
            <Mono>{backend.backendId}</Mono>
          </Link>
          <Under upTo="sm">{backend.key.name}</Under>
        </>
      ),
    },
    {
      id: 'status',
      header: 'Status',
      cell: ({ row: { original: backend } }) => <LookBadge look={BACKEND_LOOKS[backend.status]} />,
    },
    {
      id: 'key',
      header: 'Key',
      meta: { from: 'sm' },
      cell: ({ row: { original: backend } }) => (
        <Link href={routes.key({ ...backend.key, datacenter: backend.datacenter })}>
          {backend.key.name}
        </Link>
      ),
    },
    {
      id: 'namespace',
      header: 'Namespace',
      meta: { from: 'xl' },
      cell: ({ row }) => row.original.key.namespace,
    },
    {
      id: 'program',
      header: 'Program',
      meta: { from: 'lg' },
      cell: ({ row }) => row.original.program,
    },
    ...(isOfDrone ? [] : [DRONE]),
    {
      id: 'token',
      header: 'Token',
      meta: { from: 'xl', align: 'end' },
      cell: ({ row }) => <Mono>{row.original.fencingToken}</Mono>,
    },
    {
      id: 'end',
      header: 'Ended because',
      meta: { from: 'md', isFilling: true },
      cell: ({ row: { original: backend } }) => {
        const end = endOf(backend);
        return <span title={end}>{end ?? '–'}</span>;
      },
    },
    {
      id: 'createdAt',
      header: 'Started',
      meta: { from: 'sm' },
      cell: ({ row }) => <RelativeTime at={row.original.createdAt} />,
    },
  ];
}

const DRONE: ColumnDef<Backend> = {
  id: 'drone',
  header: 'Drone',
  meta: { from: 'md' },
  cell: ({ row: { original: backend } }) => (
    <Link href={routes.drone(backend.droneId, backend.datacenter)}>{backend.droneId}</Link>
  ),
};
