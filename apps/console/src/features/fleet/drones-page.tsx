'use client';

import { Box, Group } from '@mantine/core';
import { useMemo, useState } from 'react';
import {
  bytesText,
  DRONE_SORTS,
  DRONE_STATUSES,
  type DroneStatus,
  percentText,
} from '@leasehold/keys-core';
import { textParam, useQueryStates } from '~/lib/address.ts';
import type { Inputs } from '~/lib/api/api.ts';
import { useDatacenterFilter, useDatacenters } from '~/lib/datacenters.ts';
import { count } from '~/lib/format.ts';
import { useSort } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { DatacenterMenu, useTotal, withDatacenter } from '~/resources/list/list-parts.tsx';
import { DRONE_LOOKS } from '~/resources/looks.tsx';
import { FilterMenu, SearchBox } from '~/ui/filters.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { RowMenu } from '~/ui/menus.tsx';
import { FilterRow, PageHeader, Panel, PlainTable } from '~/ui/page.tsx';
import { DataAge, StaleScope } from '~/ui/stale.tsx';
import { EmptyState, ErrorState } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { Link, LookBadge, Mono, RelativeTime } from '~/ui/text.tsx';
import {
  type Drone,
  DRONE_ACTS,
  type DroneAct,
  FleetNotAllowed,
  Heartbeat,
  isFinal,
  LoadBar,
  roundTrip,
  useDroneWhyNot,
  useFleetWhyNot,
} from './drones.tsx';
import type { DroneActRequest } from './fleet-dialogs.tsx';

const DroneActDialog = lazyDialog('request', () =>
  import('./fleet-dialogs.tsx').then((module) => module.DroneActDialog),
);

/** Heartbeats, and reports of gateways, make no events. */
const EVERY_MS = 2_000;

const STATUS_OPTIONS = DRONE_STATUSES.map((value) => ({ value, label: DRONE_LOOKS[value].label }));

/** The machines that run backends: how full they are, and whether they report. */
export function DronesPage() {
  const whyNot = useFleetWhyNot();
  return whyNot === undefined ? <Drones /> : <FleetNotAllowed whyNot={whyNot} />;
}

function Drones() {
  const [address, setAddress] = useQueryStates({
    q: textParam.withDefault(''),
    status: textParam,
    program: textParam,
    after: textParam,
  });
  const [request, setRequest] = useState<DroneActRequest | null>(null);
  const columns = useMemo(() => droneColumns((act, drone) => setRequest({ act, drone })), []);
  const filter = useDatacenterFilter();
  const sorted = useSort(DRONE_SORTS, 'asc');
  const input = { ...droneListInput(address), ...sorted.input, ...filter.input };
  const read = useLiveQuery('drones', 'list', input, { everyMs: EVERY_MS });
  const total = useTotal('drones', input, read);
  const items = read.data?.items;
  const isFiltered = address.q !== '' || address.status !== null || address.program !== null;
  return (
    <>
      <PageHeader title="Drones" />
      <FilterRow>
        <SearchBox
          label="Search drones"
          placeholder="Part of a drone’s id"
          value={address.q}
          onChange={(q) => setAddress({ q: q === '' ? null : q, after: null })}
        />
        <FilterMenu
          label="Status"
          value={statusOf(address.status) ?? undefined}
          options={STATUS_OPTIONS}
          onChange={(status) => setAddress({ status, after: null })}
        />
        <FilterMenu
          label="Program"
          value={address.program ?? undefined}
          options={programsOf(items, address.program).map((value) => ({ value, label: value }))}
          onChange={(program) => setAddress({ program, after: null })}
        />
        <DatacenterMenu filter={filter} />
      </FilterRow>
      <DataTable
        label="drones"
        columns={withDatacenter(columns, filter.isSeveral)}
        read={read}
        rowId={({ datacenter, droneId }) => `${datacenter} ${droneId}`}
        state={{
          ...sorted.table,
          after: address.after,
          setAfter: (after) => setAddress({ after }),
        }}
        identity={JSON.stringify(input)}
        isOfOthers={filter.isOfOthers}
        total={total}
        empty={
          isFiltered ? (
            <EmptyState title="No drones match">Remove a filter to see the others.</EmptyState>
          ) : (
            <EmptyState title="No drones">
              A drone appears here once its agent has reached a controller. No backend can run
              before.
            </EmptyState>
          )
        }
      />
      {/* Those of other datacenters report there. */}
      {filter.isOfOthers && filter.chosen !== null ? null : <GatewaysPanel />}
      <DroneActDialog request={request} onClose={() => setRequest(null)} />
    </>
  );
}

/** The programs that can be chosen: those of the shown drones, and the chosen one. */
function programsOf(drones: readonly Drone[] | undefined, chosen: string | null): string[] {
  const names = (drones ?? []).flatMap(({ programs }) => programs.map(({ name }) => name));
  return [...new Set(chosen === null ? names : [chosen, ...names])].sort();
}

const PAGE_ROWS = 100;

/** The filters of the drones, as the address has them. */
interface DronesWanted {
  readonly q: string;
  readonly status: string | null;
  readonly program: string | null;
  readonly after: string | null;
}

function statusOf(text: string | null): DroneStatus | null {
  return DRONE_STATUSES.find((known) => known === text) ?? null;
}

/** The input of `drones.list` for these filters; an unknown status is left out. */
function droneListInput(wanted: DronesWanted): NonNullable<Inputs['drones']['list']> {
  return {
    limit: PAGE_ROWS,
    cursor: wanted.after ?? undefined,
    search: wanted.q === '' ? undefined : wanted.q,
    status: statusOf(wanted.status) ?? undefined,
    program: wanted.program ?? undefined,
  };
}

/** `begin` opens the dialog of an act. */
function droneColumns(begin: (act: DroneAct, drone: Drone) => void): Column<Drone>[] {
  return [
    column('Drone', { sort: 'droneId' }, (drone) => (
      <Link href={routes.drone(drone.droneId, drone.datacenter)}>{drone.droneId}</Link>
    )),
    column('Status', {}, (drone) => <LookBadge look={DRONE_LOOKS[drone.status]} />),
    column('Backends', { sort: 'backends' }, (drone) => <LoadBar {...drone} />),
    column('CPU', { from: 'sm', align: 'end', sort: 'cpu' }, ({ machine }) =>
      machine === null ? '–' : percentText(machine.cpuShare),
    ),
    column('Memory', { from: 'sm', align: 'end', sort: 'memory' }, ({ machine }) => (
      <Used used={machine?.memoryUsedBytes} all={machine?.memoryBytes} />
    )),
    column('Disk', { from: 'lg', align: 'end', sort: 'disk' }, ({ machine }) => (
      <Used used={machine?.diskUsedBytes} all={machine?.diskBytes} />
    )),
    column('Heartbeat', { from: 'sm' }, (drone) => <Heartbeat drone={drone} />),
    column('Round trip', { from: 'md', align: 'end' }, (drone) => (
      <Mono>{drone.roundTripMs === null ? '–' : roundTrip(drone.roundTripMs)}</Mono>
    )),
    column('Datacenter', { from: 'md' }, (drone) => drone.datacenter),
    column('Version', { from: 'lg' }, (drone) => <Mono>{drone.version}</Mono>),
    column('Programs', { from: 'lg', isFilling: true }, (drone) =>
      drone.programs.map(({ name }) => name).join(', '),
    ),
    column('Actions', { isHeadHidden: true, align: 'end' }, (drone) => (
      <DroneMenu drone={drone} begin={begin} />
    )),
  ];
}

/** A share of what there is, with the amounts for a look. */
function Used({
  used,
  all,
}: {
  readonly used: number | undefined;
  readonly all: number | undefined;
}) {
  if (used === undefined || all === undefined || all === 0) return <span>–</span>;
  return <span title={`${bytesText(used)} of ${bytesText(all)}`}>{percentText(used / all)}</span>;
}

/** What can be done with a drone, in its row. */
function DroneMenu({
  drone,
  begin,
}: {
  readonly drone: Drone;
  readonly begin: (act: DroneAct, drone: Drone) => void;
}) {
  const whyNot = useDroneWhyNot();
  return (
    <RowMenu
      of={drone.droneId}
      acts={DRONE_ACTS.map(({ act, label }) => ({
        label,
        whyNot: whyNot(act, drone),
        isDangerous: isFinal(act),
        onClick: () => begin(act, drone),
      }))}
    />
  );
}

const GATEWAY_HEADS = [
  { text: 'Gateway' },
  { text: 'Status' },
  { text: 'Connections', align: 'end' },
  { text: 'Routes', align: 'end' },
  { text: 'Last sync' },
  { text: 'Version' },
] as const;

/** The gateways of this datacenter; nothing where no gateway is configured. */
function GatewaysPanel() {
  const read = useLiveQuery('gateway', 'list', undefined, { everyMs: EVERY_MS });
  const { here, isSeveral } = useDatacenters();
  const { data } = read;
  if (data === undefined) return <ErrorState read={read} what="the gateways" />;
  if (data.url === null && data.items.length === 0) return null;
  return (
    <Box mt="sm">
      <StaleScope read={read} isMarked>
        <Panel
          title={isSeveral ? `Gateways of ${here}` : 'Gateways'}
          meta={
            <Group gap="xs">
              <DataAge read={read} asOf={data.asOf} />
              {data.url === null ? null : <Mono>{data.url}</Mono>}
            </Group>
          }
          isFlush
        >
          {data.items.length === 0 ? (
            <EmptyState title="No gateways">
              None has reported in the last day: no backend can be reached from a browser.
            </EmptyState>
          ) : (
            <PlainTable label="Gateways that report" heads={GATEWAY_HEADS}>
              {data.items.map((gateway) => (
                <tr key={gateway.gatewayId}>
                  <td>
                    <Mono>{gateway.gatewayId}</Mono>
                  </td>
                  <td>
                    <LookBadge look={DRONE_LOOKS[gateway.isAlive ? 'ready' : 'unreachable']} />
                  </td>
                  <td data-align="end">{count(gateway.connections)}</td>
                  <td data-align="end">{count(gateway.routes)}</td>
                  <td>
                    <RelativeTime at={gateway.seenAt} asOf={data.asOf} />
                  </td>
                  <td>
                    <Mono>{gateway.version}</Mono>
                  </td>
                </tr>
              ))}
            </PlainTable>
          )}
        </Panel>
      </StaleScope>
    </Box>
  );
}
