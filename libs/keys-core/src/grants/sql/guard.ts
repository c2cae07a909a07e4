/** What a statement that grants, or acts on expiry, is given: how far the database can be trusted. */
import { LeaseError } from '../../kernel/errors/index.ts';
import type { KernelStore } from '../../postgres/kernel-store.ts';
import { sqlStateOf } from '../../postgres/errors/database-errors.ts';
import { onlyRow, type Sql } from '../../postgres/sql.ts';
import { isHeldOff, type GrantGuard } from '../../postgres/clock/expiry.ts';

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

/** @throws {LeaseError} `grant.hold_off` while a restored database grants nothing. */
export async function assertNoHoldOff(
  store: Pick<KernelStore, 'witness'>,
  sql: Sql<'general' | 'guests' | 'transitions'>,
): Promise<void> {
  const { mark } = store.witness;
  const [row] = await sql.$queryRaw<{ remainingMs: number; isNoted: boolean }[]>`
    select
      case when e.hold_off_until > clock_timestamp()
        then extract(epoch from e.hold_off_until - clock_timestamp())::float8 * 1000
        else e.longest_ttl_ms
      end as "remainingMs",
      coalesce(e.hold_off_until > clock_timestamp(), false) as "isNoted"
    from database_epoch e
    where ${isHeldOff(mark)}`;
  if (row === undefined) return;
  // Only this process knows it so far: let the others know as soon as possible.
  if (!row.isNoted) void store.witness.look().catch(() => undefined);
  throw new LeaseError('grant.hold_off', undefined, {
    details: { reason: 'restored', remainingMs: Math.ceil(row.remainingMs) },
  });
}

/** Ends a statement of this transaction that waits longer for a lock. */
export async function limitLockWait(tx: Sql<'slowLane'>, ms: number): Promise<void> {
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
