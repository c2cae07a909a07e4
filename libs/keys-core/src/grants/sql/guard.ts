/** What a statement that grants, or acts on expiry, is given: how far the database can be trusted. */
import { LeaseError } from '../../kernel/errors.ts';
import type { GrantRef } from '../../kernel/lease.ts';
import { type GrantGuard, isHeldOff } from '../../postgres/clock/expiry.ts';
import { sqlStateOf } from '../../postgres/database-errors.ts';
import type { KernelStore } from '../../postgres/kernel-store.ts';
import { type Fragment, fragment, onlyRow, type Sql } from '../../postgres/sql.ts';

type Watching = Pick<KernelStore, 'clock' | 'clockWatch'>;

/** The guard for a statement that is sent now. The store's witness must be ready. */
export function guardNow(store: Watching & Pick<KernelStore, 'witness'>): GrantGuard {
  return { belief: store.clockWatch.belief(store.clock.nowMs()), mark: store.witness.mark };
}

/**
 * Reads the database's clock on a connection that is there, so that the wait for a connection casts no
 * doubt on the statement that follows on it.
 */
export async function readClock(
  store: Watching,
  tx: Sql<'general' | 'guests' | 'slowLane' | 'transitions'>,
): Promise<void> {
  const sentAtMs = store.clock.nowMs();
  const rows = await tx.$queryRaw<{ asOf: number }[]>`
    select extract(epoch from clock_timestamp())::float8 * 1000 as "asOf"`;
  store.clockWatch.observe(onlyRow(rows).asOf, sentAtMs, store.clock.nowMs());
}

/** Why a restored database grants nothing now. */
export interface HoldOff {
  readonly remainingMs: number;
  /** Whether it is written in the database, and not only known to this process. */
  readonly isNoted: boolean;
}

/** One row, a {@link HoldOff}, while a restored database grants nothing. */
export function holdOffRow(mark: GrantGuard['mark']): Fragment {
  return fragment`
    select
      case when e.hold_off_until > clock_timestamp()
        then extract(epoch from e.hold_off_until - clock_timestamp())::float8 * 1000
        else e.longest_ttl_ms
      end as "remainingMs",
      coalesce(e.hold_off_until > clock_timestamp(), false) as "isNoted"
    from database_epoch e
    where ${isHeldOff(mark)}`;
}

/** @throws {LeaseError} `grant.hold_off` while a restored database grants nothing. */
export async function assertNoHoldOff(
  store: Pick<KernelStore, 'witness'>,
  sql: Sql<'general' | 'guests' | 'transitions'>,
): Promise<void> {
  const [found] = await sql.$queryRaw<HoldOff[]>`${holdOffRow(store.witness.mark)}`;
  if (found !== undefined) throw holdOffError(store, found);
}

/** The error that callers get during a hold-off, of which all processes are told. */
export function holdOffError(
  { witness }: Pick<KernelStore, 'witness'>,
  found: HoldOff,
): LeaseError {
  // Only this process knows it so far: let the others know as soon as possible.
  if (!found.isNoted) void witness.look().catch(() => undefined);
  return new LeaseError('grant.hold_off', undefined, {
    details: { reason: 'restored', remainingMs: Math.ceil(found.remainingMs) },
  });
}

/** Ends a statement of this transaction that waits longer for a lock. */
export async function limitLockWait(tx: Sql<'general' | 'slowLane'>, ms: number): Promise<void> {
  await tx.$queryRaw`select set_config('lock_timeout', ${String(ms)}, true)`;
}

/** SQLSTATE of a statement that has waited for a lock for as long as it may. */
export const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Throws if somebody keeps everybody from the table of leases, as `lock table` and `alter table` do: nothing can
 * be granted then, whichever resource is asked for, and trying each one alone takes a second for each.
 * @throws {LeaseError} `store.unavailable`, with this reason.
 */
export async function assertTableIsOpen(
  { slowLane }: Pick<KernelStore, 'slowLane'>,
  cause: unknown,
): Promise<void> {
  try {
    await slowLane.$transaction(
      (tx) => tx.$queryRaw`lock table lease in row exclusive mode nowait`,
    );
  } catch (error) {
    if (sqlStateOf(error) !== LOCK_NOT_AVAILABLE) return;
    throw new LeaseError(
      'store.unavailable',
      'Another transaction keeps the table of leases locked: nothing can be granted until it ends.',
      { cause, details: { reason: 'table_locked' } },
    );
  }
}

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
