import { LeaseError } from '../kernel/errors.ts';
import { setAllPermits } from '../leases/lease-operations.ts';
import { age, BY, type Kernel } from './kernel-fixture.ts';

/** Declares how many may hold leases of the namespace of `aRequest`, whatever was declared before. */
export async function declarePermits(
  { store }: Pick<Kernel, 'store'>,
  { perKey, total = null }: { readonly perKey: number; readonly total?: number | null },
  namespace = 'test',
): Promise<void> {
  await store.general.$executeRaw`
    insert into lease_declaration (
      namespace, ttl_ms, declared_by, principal, permits_per_key, permits_total, permits_by
    )
    values (${namespace}, 60000, 'test', 'token-a', ${perKey}::int, ${total}::int, 'test')
    on conflict (namespace) do update
    set permits_per_key = excluded.permits_per_key, permits_total = excluded.permits_total`;
}

/** Sets the numbers as an operator does, and tries again while a row that is to be moved is locked. */
export async function setPermits(
  { store }: Pick<Kernel, 'store'>,
  permits: { readonly perKey: number; readonly total: number | null },
): Promise<void> {
  for (;;) {
    try {
      const operator = {
        principal: 'op',
        actor: 'op',
        role: 'operator',
        namespaces: null,
      } as const;
      await setAllPermits(store, { namespace: 'test', permits }, operator, {
        ...BY,
        action: 'leases.setPermits',
        resource: 'declaration:test',
      });
      return;
    } catch (error) {
      if (!(error instanceof LeaseError) || error.code !== 'grant.contended') throw error;
    }
  }
}

/** Does this while a grant has run out, and its last holder keeps its row locked, as in a fenced transaction. */
export async function whileOverstayed<T>(
  kernel: Kernel,
  { leaseId }: { readonly leaseId: string },
  work: () => Promise<T>,
): Promise<T> {
  await age(kernel, leaseId, 61_000);
  return kernel.store.general.$transaction(async (tx) => {
    await tx.$queryRaw`select lease_id from lease where lease_id = ${leaseId}::uuid for key share`;
    return work();
  });
}
