import { useQuery } from '@tanstack/react-query';
import { PHASE_LOOKS } from '../looks.tsx';
import { keyLabel } from '../reservation-key.ts';
import { query, type Outputs } from '~/lib/api/api.ts';
import { fullName } from '~/lib/format.ts';
import { at, listedDatacenters } from '~/lib/datacenters/here.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import { useDatacenters } from '~/lib/datacenters/use-datacenters.ts';

interface FoundResource {
  readonly id: string;
  readonly label: string;
  readonly description: string;
  readonly href: string;
}

/** At most this many of each kind. */
const FOUND_MAX = 5;

type Listed = Pick<
  Outputs['keys']['list']['items'][number],
  'leaseId' | 'namespace' | 'name' | 'phase' | 'holder' | 'datacenter'
>;

/** Resources of every face, and reservations, whose name begins with the text. */
export function useFoundResources(text: string): {
  readonly resources: readonly FoundResource[];
  readonly isSearching: boolean;
} {
  const { isSeveral } = useDatacenters();
  const input = { prefix: text, limit: FOUND_MAX, ...listedDatacenters(null, isSeveral) };
  const options = { enabled: text !== '' };
  const keys = useQuery({ ...query('keys', 'list', input), ...options });
  const leases = useQuery({ ...query('leases', 'list', input), ...options });
  const environments = useQuery({ ...query('environments', 'list', input), ...options });
  const reservations = useQuery({ ...query('reservations', 'list', input), ...options });
  return {
    isSearching:
      keys.isFetching || leases.isFetching || environments.isFetching || reservations.isFetching,
    resources: [
      ...foundOf('key', 'Key', keys.data?.items),
      ...foundOf('lease', 'Lease', leases.data?.items),
      ...foundOf('environment', 'Environment', environments.data?.items),
      ...reservationsOf(reservations.data?.items),
    ],
  };
}

function reservationsOf(items: Outputs['reservations']['list']['items'] = []): FoundResource[] {
  return items.map(({ reservationId, key, state, datacenter }) => ({
    id: `reservation ${reservationId}`,
    label: keyLabel(key),
    description: `Reservation, ${state} in ${datacenter}`,
    href: routes.reservation(key),
  }));
}

function foundOf(face: string, word: string, items: readonly Listed[] = []): FoundResource[] {
  return items.map((item) => {
    const look = PHASE_LOOKS[item.phase];
    const by = item.phase === 'free' ? '' : ` by ${item.holder}`;
    return {
      id: `${face} ${item.leaseId}`,
      label: fullName(item),
      description: `${word}, ${look.label.toLowerCase()}${by}${elsewhereText(item.datacenter)}`,
      href: routeOf(face, item),
    };
  });
}

function elsewhereText(datacenter: string): string {
  return at(datacenter).datacenter === undefined ? '' : `, in ${datacenter}`;
}
