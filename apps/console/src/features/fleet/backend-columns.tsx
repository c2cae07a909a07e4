import { bytesText, percentText } from '@leasehold/keys-core';
import { routes } from '~/lib/routes.ts';
import { endOf, failureLabel } from '~/resources/backend-end.ts';
import { backendLook } from '~/resources/backend-looks.ts';
import { column, type Column } from '~/ui/table/column.ts';
import { Link, LookBadge, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { type Backend, kindOf } from './backend-texts.ts';

/** `isOfDrone`: on the page of a drone, where the drone is not repeated. */
export function backendColumns({ isOfDrone = false } = {}): Column<Backend>[] {
  return [
    column('Backend', {}, (backend) => (
      <>
        <Link href={routes.backend(backend.backendId, backend.datacenter)}>
          <Mono>{backend.backendId}</Mono>
        </Link>
        <Under upTo="sm">
          <VisibleText>{backend.key.name}</VisibleText>
        </Under>
      </>
    )),
    column('Status', {}, (backend) => <LookBadge look={backendLook(backend)} />),
    column('Key', { from: 'sm' }, (backend) => (
      <Link href={routes.key({ ...backend.key, datacenter: backend.datacenter })}>
        <VisibleText>{backend.key.name}</VisibleText>
      </Link>
    )),
    column('Namespace', { from: 'xl' }, (backend) => (
      <VisibleText>{backend.key.namespace}</VisibleText>
    )),
    column('Program', { from: 'lg' }, (backend) => (
      <span title={kindOf(backend)}>{backend.program}</span>
    )),
    ...(isOfDrone ? [] : [DRONE]),
    column('CPU', { from: 'lg', align: 'end', sort: 'cpu' }, ({ usage }) =>
      usage?.cpus == null ? '–' : percentText(usage.cpus),
    ),
    column('Memory', { from: 'md', align: 'end', sort: 'memory' }, ({ usage }) =>
      usage === null ? '–' : bytesText(usage.memoryBytes),
    ),
    column('Token', { from: 'xl', align: 'end' }, (backend) => <Mono>{backend.fencingToken}</Mono>),
    column('Ended because', { from: 'md', isFilling: true }, (backend) => {
      const end = endOf(backend);
      const hasFailed = failureLabel(backend) !== undefined;
      return (
        <span title={end} data-bad={hasFailed || undefined}>
          {end ?? '–'}
        </span>
      );
    }),
    column('Started', { from: 'sm', sort: 'created' }, (backend) => (
      <RelativeTime at={backend.createdAt} />
    )),
  ];
}

const DRONE: Column<Backend> = column('Drone', { from: 'md' }, (backend) => (
  <Link href={routes.drone(backend.droneId, backend.datacenter)}>{backend.droneId}</Link>
));
