'use client';

import { VisuallyHidden } from '@mantine/core';
import type { ColumnDef } from '@tanstack/react-table';
import { Link } from '~/ui/link.tsx';
import { DRONE_LOOKS } from '~/resources/looks.tsx';
import { LookBadge } from '~/ui/text/badge.tsx';
import { Mono } from '~/ui/text/mono.tsx';
import { routes } from '~/lib/routes.ts';
import { DroneMenu } from './drone-menu.tsx';
import type { Drone, DroneAct } from './drone-texts.ts';
import { roundTrip } from './drone-texts.ts';
import { Heartbeat } from './heartbeat.tsx';
import { LoadBar } from './load-bar.tsx';

/** `begin` opens the dialog of an act. */
export function droneColumns(begin: (act: DroneAct, drone: Drone) => void): ColumnDef<Drone>[] {
  return [
    {
      id: 'drone',
      header: 'Drone',
      cell: ({ row: { original: drone } }) => (
        <Link href={routes.drone(drone.droneId, drone.datacenter)}>{drone.droneId}</Link>
      ),
    },
    {
      id: 'status',
      header: 'Status',
      cell: ({ row: { original: drone } }) => <LookBadge look={DRONE_LOOKS[drone.status]} />,
    },
    {
      id: 'load',
      header: 'Backends',
      cell: ({ row: { original: drone } }) => <LoadBar {...drone} />,
    },
    {
      id: 'heartbeat',
      header: 'Heartbeat',
      meta: { from: 'sm' },
      cell: ({ row: { original: drone } }) => <Heartbeat drone={drone} />,
    },
    {
      id: 'roundTrip',
      header: 'Round trip',
      meta: { from: 'md', align: 'end' },
      cell: ({ row: { original: drone } }) => (
        <Mono>{drone.roundTripMs === null ? '–' : roundTrip(drone.roundTripMs)}</Mono>
      ),
    },
    {
      id: 'datacenter',
      header: 'Datacenter',
      meta: { from: 'md' },
      cell: ({ row: { original: drone } }) => drone.datacenter,
    },
    {
      id: 'version',
      header: 'Version',
      meta: { from: 'lg' },
      cell: ({ row: { original: drone } }) => <Mono>{drone.version}</Mono>,
    },
    {
      id: 'programs',
      header: 'Programs',
      meta: { from: 'lg' },
      cell: ({ row: { original: drone } }) => drone.programs.map(({ name }) => name).join(', '),
    },
    {
      id: 'acts',
      header: () => <VisuallyHidden>Actions</VisuallyHidden>,
      meta: { align: 'end' },
      cell: ({ row: { original: drone } }) => <DroneMenu drone={drone} begin={begin} />,
    },
  ];
}
