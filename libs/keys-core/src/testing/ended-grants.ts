import { randomUUID } from 'node:crypto';
import { revoke } from '../grants/sql/revoke.ts';
import type { Grant, GrantRef } from '../kernel/lease.ts';
import { age, granted, releaseOf, type Kernel } from './kernel-fixture.ts';

/** Revokes a grant by force, as an operator does without waiting for its holder. */
export function revokeByForce(kernel: Kernel, { face, leaseId }: Grant): Promise<unknown> {
  return revoke(kernel.store.general, face, [
    { leaseId, mode: 'force', abandon: false, actor: 'op', reason: 'test', namespaces: null },
  ]);
}

/** The same, however long somebody keeps the grant locked. */
export function revokeHoweverLong({ store }: Kernel, { face, leaseId }: Grant): Promise<unknown> {
  return store.general.$transaction(async (tx) => {
    await tx.$queryRaw`select set_config('statement_timeout', '0', true)`;
    return revoke(tx, face, [
      { leaseId, mode: 'force', abandon: false, actor: 'op', reason: 'test', namespaces: null },
    ]);
  });
}

/** One grant for each way in which a grant ends, and references that never belonged to a grant. */
export async function refsNotHeld(kernel: Kernel): Promise<GrantRef[]> {
  const expired = await granted(kernel, { name: 'expired' });
  await age(kernel, expired.leaseId, 60_000);
  const released = await granted(kernel, { name: 'released' });
  await kernel.leases.release('lease', releaseOf(released));
  const revoked = await granted(kernel, { name: 'revoked' });
  await revokeByForce(kernel, revoked);
  const superseded = await granted(kernel, { name: 'superseded' });
  await age(kernel, superseded.leaseId, 60_000);
  const next = await granted(kernel, { name: 'superseded' });
  return [
    expired,
    released,
    revoked,
    superseded,
    { leaseId: next.leaseId, fencingToken: superseded.fencingToken },
    { leaseId: randomUUID(), fencingToken: '1' },
  ];
}
