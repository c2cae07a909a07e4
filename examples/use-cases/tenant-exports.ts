import type { Leasehold } from '@leasehold/client';

/** How many exports run at once, in all processes. */
export interface ExportLimits {
  readonly perTenant: number;
  readonly together: number;
}

/** Exports of tenants: a few at once for each tenant, so that none takes the turn of all others. */
export function createTenantExports(leasehold: Leasehold, { perTenant, together }: ExportLimits) {
  const exporting = leasehold.defineLease(['exports', 'tenant'], {
    ttlMs: 10_000,
    permits: { perKey: perTenant, total: together },
    description: 'Exports of one tenant.',
  });

  return {
    /**
     * Waits for a permit of the tenant, and gives it back after the work.
     * @throws {LeaseHeldError} or {LeaseWaitTimeoutError} if there is no permit within `waitMs`.
     */
    run<T>(tenant: string, work: (signal: AbortSignal) => Promise<T>, waitMs = 60_000): Promise<T> {
      return exporting.run(tenant, (lease) => work(lease.signal), { waitMs });
    },
  };
}
