import type { GrantRef } from '../../kernel/lease/outcomes.ts';
import { onlyRow, type Sql } from '../../postgres/sql.ts';

/** A grant that was found in force, and that nobody can take over until the transaction ends. */
export interface HeldGrant {
  /** When it expires unless it is renewed, as epoch milliseconds of the database. */
  readonly expiresAt: number;
  /** For how long the transaction may go on, in milliseconds: what the server enforces from here. */
  readonly boundMs: number;
}

/**
 * Begins work under a grant: finds that it is in force, keeps it from being taken over, and bounds
 * the transaction by the remaining time of the lease, `boundMsMax` at most. A function of the database
 * does it, so that a service needs no privilege on the table.
 *
 * - **Locks** the grant's row `for key share`. A renewal changes no key column and passes at once;
 *   a takeover changes the lease id, a key column because its unique index is full, and waits.
 * - **Judges after the lock**, by the database's clock. A revoke or release that is not committed yet
 *   is not seen here: {@link isNotEnded} sees it.
 * - **Bounds** each statement and each pause between two, and the transaction as a whole where the
 *   server can (PostgreSQL 17), so that a process that is stopped in it does not keep the lock. The
 *   limits hold for the transaction alone, also behind a pooler.
 * - **Index**: `lease_lease_id_key`. Zero rows: the grant is not in force, or has another token.
 */
export async function lockHeld(
  sql: Sql<'guests'>,
  ref: GrantRef,
  boundMsMax: number,
): Promise<HeldGrant | undefined> {
  const rows = await sql.$queryRaw<HeldGrant[]>`
    select extract(epoch from f.expires_at)::float8 * 1000 as "expiresAt", f.bound_ms as "boundMs"
    from leasehold_fence(${ref.leaseId}::uuid, ${ref.fencingToken}::bigint, ${boundMsMax}::int) f`;
  return rows[0];
}

/**
 * The last statement of fenced work: whether its grant has not ended since {@link lockHeld}.
 *
 * - **Locks** the row `for share`: a revoke or release that came first is waited for and seen, one
 *   that comes later waits until this transaction has ended.
 * - Whether the grant has expired meanwhile makes no difference: nobody else was granted the resource,
 *   and nobody will be before the commit.
 * - **Index**: `lease_lease_id_key`.
 */
export async function isNotEnded(sql: Sql<'guests'>, ref: GrantRef): Promise<boolean> {
  const rows = await sql.$queryRaw<{ holds: boolean }[]>`
    select leasehold_fence_holds(${ref.leaseId}::uuid, ${ref.fencingToken}::bigint) as holds`;
  return onlyRow(rows).holds;
}

/**
 * Whether the database's clock has not reached `atMs`, epoch milliseconds of its own; and makes sure that
 * a process that is paused between this and its commit does not commit after it. Locks nothing.
 */
export async function closeBefore(sql: Sql<'guests'>, atMs: number): Promise<boolean> {
  const rows = await sql.$queryRaw<{ isBefore: boolean }[]>`
    select clock_timestamp() < b.at as "isBefore",
      set_config(
        'idle_in_transaction_session_timeout',
        greatest(1, ceil(extract(epoch from b.at - clock_timestamp()) * 1000))::int::text,
        true
      ) as bound
    from (select to_timestamp(${atMs / 1000}::float8) as at) b`;
  return rows[0]?.isBefore === true;
}

/**
 * Bounds the rest of a transaction that holds no grant yet: each statement, each pause between two, the
 * whole where the server can, and each wait for a lock. Milliseconds. Locks nothing.
 */
export async function boundTransaction(
  sql: Sql<'guests'>,
  bounds: { readonly boundMs: number; readonly lockMs: number },
): Promise<void> {
  const boundMs = String(bounds.boundMs);
  await sql.$queryRaw`
    select
      set_config('statement_timeout', ${boundMs}, true),
      set_config('idle_in_transaction_session_timeout', ${boundMs}, true),
      set_config('lock_timeout', ${String(bounds.lockMs)}, true),
      lease_bound_whole_transaction(${bounds.boundMs}::int)::text`;
}
