import { createLeaseOperations } from '../leases/lease-operations.ts';
import type { LeaseOperations } from '../leases/lease-types.ts';
import { createRevocationWatch, type RevocationWatch } from '../leases/revocations.ts';
import type { StoreOptions } from '../postgres/open-store.ts';
import { openLeases, type Leases } from './lease-fixture.ts';

/** A controller's leases face with the operations for people. */
export interface OperatedLeases extends Leases {
  readonly operations: LeaseOperations;
  readonly revocations: RevocationWatch;
  /** The errors of reads that failed in the watch. */
  readonly failures: unknown[];
}

/** On a database of its own, or on the one that is named: then it is a second controller. */
export async function openOperatedLeases(
  options: Partial<StoreOptions> = {},
  face: 'lease' | 'environment' = 'lease',
): Promise<OperatedLeases> {
  const leases = await openLeases(options, face);
  const failures: unknown[] = [];
  const revocations = createRevocationWatch(leases.store, (error) => failures.push(error));
  const operations = createLeaseOperations({ store: leases.store, face, revocations });
  return { ...leases, operations, revocations, failures };
}
