import type { StatsService } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { Store } from '@leasehold/keys-core/store';

export interface StatsDeps {
  readonly store: Store;
  readonly datacenter: string;
  readonly heartbeatMs: number;
}

export function createStatsService(_deps: StatsDeps): StatsService {
  return {
    overview() {
      throw new LeaseError('store.unavailable');
    },
  };
}
