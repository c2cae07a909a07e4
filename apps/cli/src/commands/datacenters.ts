import type { ControllerApi } from '@leasehold/client';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { agoText } from '../output/duration.ts';
import { tableText, type Column } from '../output/table.ts';
import type { DatacenterView } from '../views.ts';

type Datacenters = Awaited<ReturnType<ControllerApi['datacenters']['list']['query']>>;

/** `leasehold datacenters`. */
export function addDatacenters(cli: Cli, program: Command): void {
  const parent = program
    .command('datacenters')
    .description('Show which datacenters can be reached');
  cli
    .leaf(
      parent,
      'ls',
      'List the datacenters that the controller knows, and which of them it can reach',
    )
    .action(async () => {
      const answer = await cli.client().datacenters.list.query({});
      cli.show(answer, () => datacentersText(answer));
    });
}

function datacentersText({ items, store, asOf }: Datacenters): string {
  const kind = store.kind === 'etcd' ? 'etcd' : "this datacenter's PostgreSQL";
  const since = store.since === null ? '' : `, since ${agoText(store.since, asOf)}`;
  const state = store.isReachable
    ? 'can be reached'
    : `cannot be reached${since}: no fresh key gets a home, and no key moves`;
  return `${tableText(items, columnsAt(asOf))}\n\nReservation store: ${kind}; it ${state}.`;
}

const columnsAt = (asOf: string): readonly Column<DatacenterView>[] => [
  { head: 'datacenter', text: ({ name, isLocal }) => (isLocal ? `${name} (this one)` : name) },
  { head: 'reachable', text: ({ isReachable }) => (isReachable ? 'yes' : 'no') },
  { head: 'since', text: ({ since }) => (since === null ? '' : agoText(since, asOf)) },
  { head: 'why', text: ({ code }) => code ?? '' },
  {
    head: 'round trip',
    text: ({ roundTripMs }) => (roundTripMs === null ? '' : `${roundTripMs.toFixed(1)} ms`),
    align: 'right',
  },
];
