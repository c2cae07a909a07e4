import { findPersonId, writeAudit } from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';

/**
 * Writes down that somebody was locked out. Not for addresses of nobody: what was typed there may be
 * a password, and there would be no end of it.
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
