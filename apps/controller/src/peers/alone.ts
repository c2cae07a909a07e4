import type { DatacenterService } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';

export function aloneDatacenter(name: string): DatacenterService {
  return {
    peers: [],
    list: () => ({
      items: [
        { name, isLocal: true, isReachable: true, since: null, code: null, roundTripMs: null },
      ],
      store: { kind: 'postgres', isReachable: true, since: null },
    }),
    away: () => undefined,
    call: () => Promise.reject(new LeaseError('reservation.unknown_datacenter')),
  };
}
