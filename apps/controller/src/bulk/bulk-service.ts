import type { ApiServices, BulkService } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { Store } from '@leasehold/keys-core/store';
import type { Logger } from '@leasehold/service-kit';

export interface BulkDeps extends Pick<ApiServices, 'keys' | 'leases' | 'environments'> {
  readonly store: Store;
  readonly log: Logger;
}

export function createBulkService(_deps: BulkDeps): BulkService {
  const notYet = (): never => {
    throw new LeaseError('bulk.not_found');
  };
  return { start: notYet, abort: notYet, get: notYet, watch: notYet };
}
