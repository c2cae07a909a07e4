import type { Sql } from '../../postgres/rows.ts';

/** Ends a statement of this transaction that waits longer for a lock. */
export async function limitLockWait(tx: Sql<'slowLane'>, ms: number): Promise<void> {
  await tx.$queryRaw`select set_config('lock_timeout', ${String(ms)}, true)`;
}
