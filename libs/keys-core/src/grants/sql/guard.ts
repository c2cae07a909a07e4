/** What a statement that grants, or acts on expiry, is handed: how far the database is to be trusted. */
import { LeaseError } from '../../kernel/errors/index.ts';
import type { KernelStore } from '../../postgres/kernel-store.ts';
import { onlyRow, type Sql } from '../../postgres/rows.ts';
import { isHeldOff, type GrantGuard } from '../../postgres/clock/expiry.ts';

type Watching = Pick<KernelStore, 'clock' | 'clockWatch'>;

/** For a statement that is sent now. The store's witness must be ready. */
export function guardNow(store: Watching & Pick<KernelStore, 'witness'>): GrantGuard {
  return { belief: store.clockWatch.belief(store.clock.nowMs()), mark: store.witness.mark };
}

/**
 * Reads the database's clock on a connection that is there, so that the statement which follows on it
 * is not doubted for the time that it waited for a connection.
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
  // What only this process knows is to be known to all, as soon as can be.
  if (!row.isNoted) void store.witness.look().catch(() => undefined);
  throw new LeaseError('grant.hold_off', undefined, {
    details: { reason: 'restored', remainingMs: Math.ceil(row.remainingMs) },
  });
}
