import { column, type Column } from '~/ui/table/column.ts';
import { Link } from '~/ui/link.tsx';
import { Under, Mono, LookBadge, RelativeTime } from '~/ui/text/text.tsx';
import { BACKEND_LOOKS } from '~/resources/looks.tsx';
import { routes } from '~/lib/routes.ts';
import { endOf } from '~/resources/backend-end.ts';
import { kindOf, type Backend } from './backend-texts.ts';

/** `isOfDrone`: on the page of a drone, where the drone is not repeated. */
export function backendColumns({ isOfDrone = false } = {}): Column<Backend>[] {
  return [
    column('Backend', {}, (backend) => (
      <>
        <Link href={routes.backend(backend.backendId, backend.datacenter)}>
          <Mono>{backend.backendId}</Mono>
        </Link>
        <Under upTo="sm">{backend.key.name}</Under>
      </>
    )),
    column('Status', {}, (backend) => <LookBadge look={BACKEND_LOOKS[backend.status]} />),
    column('Key', { from: 'sm' }, (backend) => (
      <Link href={routes.key({ ...backend.key, datacenter: backend.datacenter })}>
        {backend.key.name}
      </Link>
    )),
    column('Namespace', { from: 'xl' }, (backend) => backend.key.namespace),
    column('Program', { from: 'lg' }, (backend) => (
      <span title={kindOf(backend)}>{backend.program}</span>
    )),
    ...(isOfDrone ? [] : [DRONE]),
    column('Token', { from: 'xl', align: 'end' }, (backend) => <Mono>{backend.fencingToken}</Mono>),
    column('Ended because', { from: 'md', isFilling: true }, (backend) => {
      const end = endOf(backend);
      return <span title={end}>{end ?? '–'}</span>;
    }),
    column('Started', { from: 'sm' }, (backend) => <RelativeTime at={backend.createdAt} />),
  ];
}

const DRONE: Column<Backend> = column('Drone', { from: 'md' }, (backend) => (
  <Link href={routes.drone(backend.droneId, backend.datacenter)}>{backend.droneId}</Link>
));
