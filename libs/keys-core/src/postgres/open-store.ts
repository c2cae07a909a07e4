import { connectionOf } from '@leasehold/service-kit/database-url';
import type { Clock, IdSource } from '../kernel/clock.ts';
import { createClockJumpNotes } from './clock/clock-jumps.ts';
import { HintListener, openHints } from './hints.ts';
import type { GuestDatabase } from './guest-transaction.ts';
import { type KernelStore, SILENT_OBSERVER, type StoreObserver } from './kernel-store.ts';
import {
  openPool,
  type Pool,
  type PoolOptions,
  type PoolSql,
  preparedOptions,
  RENEWAL_TIMEOUT_MS,
  STATEMENT_TIMEOUT_MS,
  UNPREPARED,
} from './pool.ts';
import { openRecordPool, type RecordPool } from './records.ts';
import type { PoolName } from './sql.ts';
import { openMemory, type MemoryOptions } from './witness/store-memory.ts';

export interface StoreOptions extends MemoryOptions {
  readonly databaseUrl: string;
  /** The name of this controller group. */
  readonly datacenter: string;
  readonly clock: Clock;
  readonly ids: IdSource;
  /** Connections of the general pool, at most. */
  readonly connectionsMax?: number | undefined;
  /** After how long the server cancels a renewal: a third of the window between renew and soft. */
  readonly renewalTimeoutMs?: number | undefined;
  readonly observer?: StoreObserver | undefined;
  /** Called with errors that no caller sees, such as a lost LISTEN connection. */
  readonly onBackgroundError?: ((error: unknown) => void) | undefined;
}

/** What other people's code gets for a transaction on our connections. */
export type CallbackSql = PoolSql<'guests'>;

/** The open database of one controller. */
export interface Store extends KernelStore {
  readonly general: RecordPool;
  /**
   * Connections for grants, releases and the reads between them: their statements are long, few and
   * the same each time, and are planned once for each connection. See {@link preparedOptions}.
   */
  readonly transitions: Pool<'transitions'>;
  /** Like `transitions`, for renewals and nothing else, so that nothing can starve them. */
  readonly renewals: Pool<'renewals'>;
  /**
   * Connections for what backends depend on besides renewals: sessions, heartbeats, reports and outboxes of
   * drones, and looking up callers. Their statements are short, and no caller's reads or waits can
   * take their place.
   */
  readonly vital: Pool<'vital'>;
  /** Connections for grants that meet a locked row, so that they wait where they delay nobody. */
  readonly slowLane: Pool<'slowLane'>;
  /**
   * Connections for lists, which people ask for and which may read a whole table: few, so that lists
   * take no more of the database than that, and with a timeout that suits a table of millions of rows.
   */
  readonly reads: Pool<'reads'>;
  /**
   * Connections for transactions in which other people's code runs: hooks, fenced transactions and
   * callbacks. However long that takes, nothing of Leasehold itself waits for one of them.
   */
  readonly guests: Pool<'guests'>;
  /** Transactions on the connections of `guests`. */
  readonly guestDatabase: GuestDatabase<CallbackSql>;
  readonly datacenter: string;
  /**
   * Opens the connections without which backends and leases would be lost, and keeps them: when others have all
   * that the database allows, renewals go on.
   */
  reserve(): Promise<void>;
  close(): Promise<void>;
}

const CONNECTIONS_MAX = 10;
const TRANSITION_CONNECTIONS_MAX = 8;
const RENEWAL_CONNECTIONS_MAX = 3;
const VITAL_CONNECTIONS_MAX = 4;
const SLOW_LANE_CONNECTIONS_MAX = 2;
const READ_CONNECTIONS_MAX = 4;
/** A page of a million rows takes under a second where nothing else runs. */
const READ_TIMEOUT_MS = 10_000;
const GUEST_CONNECTIONS_MAX = 10;
/** The longest that a statement of a guest may take: as long as a fenced transaction may. */
const GUEST_TIMEOUT_MS = 10_000;

export function openStore(options: StoreOptions): Store {
  const observer = options.observer ?? SILENT_OBSERVER;
  const onError = options.onBackgroundError ?? ((): void => undefined);
  const poolOptions = (
    max: number,
    statementTimeoutMs: number,
    { prepared = UNPREPARED, isKept = false }: Partial<PoolOptions> = {},
  ): PoolOptions => ({
    databaseUrl: options.databaseUrl,
    max,
    statementTimeoutMs,
    prepared,
    isKept,
    onError,
  });
  const pool = <Name extends PoolName>(...args: Parameters<typeof poolOptions>): Pool<Name> =>
    openPool(poolOptions(...args));
  const prepared = preparedOptions(options.databaseUrl);
  const renewalTimeoutMs = options.renewalTimeoutMs ?? RENEWAL_TIMEOUT_MS;
  const pools = {
    general: openRecordPool(
      poolOptions(options.connectionsMax ?? CONNECTIONS_MAX, STATEMENT_TIMEOUT_MS),
    ),
    transitions: pool<'transitions'>(TRANSITION_CONNECTIONS_MAX, STATEMENT_TIMEOUT_MS, {
      prepared,
    }),
    renewals: pool<'renewals'>(RENEWAL_CONNECTIONS_MAX, renewalTimeoutMs, {
      prepared,
      isKept: true,
    }),
    vital: pool<'vital'>(VITAL_CONNECTIONS_MAX, STATEMENT_TIMEOUT_MS, { isKept: true }),
    slowLane: pool<'slowLane'>(SLOW_LANE_CONNECTIONS_MAX, STATEMENT_TIMEOUT_MS),
    reads: pool<'reads'>(READ_CONNECTIONS_MAX, READ_TIMEOUT_MS),
    guests: pool<'guests'>(GUEST_CONNECTIONS_MAX, GUEST_TIMEOUT_MS),
  };
  const { databaseUrl, clock, ids } = options;
  const onJump = (jumpMs: number): void => observer.clockJump(jumpMs);
  const jumpNotes = createClockJumpNotes(pools.general);
  const { schema, isPooled } = connectionOf(databaseUrl);
  const hints = openHints({ schema, sql: pools.general, clock, onError });
  // LISTEN needs a session that stays. Without one, each waiter checks by itself.
  const listener = isPooled ? undefined : new HintListener({ databaseUrl, hints, clock, onError });
  return {
    ...pools,
    guestDatabase: {
      transaction: (work) =>
        pools.guests.$transaction((tx) => work({ sql: tx, call: async (code) => code(tx) })),
    },
    hints,
    ...openMemory(options, { sql: pools.renewals, clock, ids, onJump, jumpNotes, onError }),
    clock,
    ids,
    datacenter: options.datacenter,
    observer,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    async reserve() {
      await Promise.all([pools.renewals.reserve(), pools.vital.reserve()]);
    },
    async close() {
      hints.close();
      await listener?.close();
      await Promise.all(Object.values(pools).map((each) => each.close()));
    },
  };
}
