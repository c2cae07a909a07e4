import { findPersonId, writeAudit } from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';

/**
 * Records that a person was locked out. Not for an address that is nobody's: what was typed may be a
 * password, and the number of entries would have no bound.
 */
export async function auditLockOut(
  prisma: Store['prisma'],
  lockOut: { readonly email: string; readonly source: string | null },
): Promise<void> {
  const personId = await findPersonId(prisma, lockOut.email);
  if (personId === undefined) return;
  await writeAudit(prisma, {
    actor: 'sign-in',
    role: 'none',
    action: 'people.lockOut',
    resource: `person:${personId}`,
    source: lockOut.source,
    detail: { email: lockOut.email },
  });
}
