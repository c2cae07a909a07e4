import { connectionOf } from '@leasehold/service-kit/database-url';
import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import type { Clock, IdSource } from '../kernel/clock.ts';
import { PrismaClient } from './generated/client.ts';
import { HintListener } from './hints/hint-listener.ts';
import { openHints } from './hints/hints.ts';
import type { GuestDatabase } from './service/guest-transaction.ts';
import type { KernelStore } from './kernel-store.ts';
import { preparedOptions, UNPREPARED, type PreparedOptions } from './statements/prepared.ts';
import { prismaGuests, type CallbackSql } from './service/prisma-guests.ts';
import { SILENT_OBSERVER, type StoreObserver } from './observer.ts';
import type { PoolName, Sql } from './sql.ts';
import { openMemory, type MemoryOptions } from './witness/store-memory.ts';
import { RENEWAL_TIMEOUT_MS, STATEMENT_TIMEOUT_MS } from './statements/timeouts.ts';

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

/** What statements in a transaction on a pool are sent with. */
export type ClientSql<Pool extends PoolName> = Sql<Pool> & Pick<PrismaClient, '$executeRaw'>;

/** Prisma's connections for the statements of this pool. */
export type ClientPool<Pool extends PoolName> = ClientSql<Pool> & {
  $transaction<Result>(
    work: (tx: ClientSql<Pool>) => Promise<Result>,
    options?: { readonly maxWait?: number; readonly timeout?: number },
  ): Promise<Result>;
};

/** The open database of one controller. */
export interface Store extends KernelStore {
  readonly prisma: ClientPool<'general'>;
  /**
   * Connections for grants, releases and the reads between them: their statements are long, few and
   * the same each time, and are planned once for each connection. See {@link preparedOptions}.
   */
  readonly transitions: ClientPool<'transitions'>;
  /** Like `transitions`, for renewals and nothing else, so that nothing can starve them. */
  readonly renewals: ClientPool<'renewals'>;
  /**
   * Connections for what backends depend on besides renewals: sessions, heartbeats, reports and outboxes of
   * drones, and looking up callers. Their statements are short, and no caller's reads or waits can
   * take their place.
   */
  readonly vital: ClientPool<'vital'>;
  /** Connections for grants that meet a locked row, so that they wait where they delay nobody. */
  readonly slowLane: ClientPool<'slowLane'>;
  /**
   * Connections for lists, which people ask for and which may read a whole table: few, so that lists
   * take no more of the database than that, and with a timeout that suits a table of millions of rows.
   */
  readonly reads: ClientPool<'reads'>;
  /**
   * Connections for transactions in which other people's code runs: hooks, fenced transactions and
   * callbacks. However long that takes, nothing of Leasehold itself waits for one of them.
   */
  readonly guests: ClientPool<'guests'>;
  /** Transactions on the connections of `guests`. */
  readonly guestDatabase: GuestDatabase<CallbackSql>;
  readonly datacenter: string;
  close(): Promise<void>;
}

/** A controller that is paused within a transaction releases its rows after this long. */
const IDLE_TIMEOUT_MS = 5_000;
const CONNECT_TIMEOUT_MS = 5_000;
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
  const client = (
    max: number,
    statementTimeoutMs: number,
    prepared: PreparedOptions = UNPREPARED,
  ): PrismaClient =>
    openClient({ databaseUrl: options.databaseUrl, max, statementTimeoutMs, prepared, onError });
  const prepared = preparedOptions(options.databaseUrl);
  const renewalTimeoutMs = options.renewalTimeoutMs ?? RENEWAL_TIMEOUT_MS;
  const pools = {
    prisma: client(options.connectionsMax ?? CONNECTIONS_MAX, STATEMENT_TIMEOUT_MS),
    transitions: client(TRANSITION_CONNECTIONS_MAX, STATEMENT_TIMEOUT_MS, prepared),
    renewals: client(RENEWAL_CONNECTIONS_MAX, renewalTimeoutMs, prepared),
    vital: client(VITAL_CONNECTIONS_MAX, STATEMENT_TIMEOUT_MS),
    slowLane: client(SLOW_LANE_CONNECTIONS_MAX, STATEMENT_TIMEOUT_MS),
    reads: client(READ_CONNECTIONS_MAX, READ_TIMEOUT_MS),
    guests: client(GUEST_CONNECTIONS_MAX, GUEST_TIMEOUT_MS),
  };
  const { databaseUrl, clock, ids } = options;
  const onJump = (jumpMs: number): void => observer.clockJump(jumpMs);
  const { schema } = connectionOf(databaseUrl);
  const hints = openHints({ schema, sql: pools.prisma, clock, onError });
  const listener = new HintListener({ databaseUrl, hints, clock, onError });
  return {
    ...pools,
    guestDatabase: prismaGuests(pools.guests),
    hints,
    ...openMemory(options, { sql: pools.renewals, clock, ids, onJump, onError }),
    clock,
    ids,
    datacenter: options.datacenter,
    observer,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    async close() {
      hints.close();
      await listener.close();
      await Promise.all(Object.values(pools).map((pool) => pool.$disconnect()));
    },
  };
}

interface ClientOptions {
  readonly databaseUrl: string;
  /** Connections, at most. */
  readonly max: number;
  readonly statementTimeoutMs: number;
  readonly prepared: PreparedOptions;
  readonly onError: (error: unknown) => void;
}

function openClient(options: ClientOptions): PrismaClient {
  const { databaseUrl, max, statementTimeoutMs, prepared, onError } = options;
  // Timeouts are the server's: a client that stops waiting does not stop a statement, and one
  // that waited for a row was seen to grant it seconds after its client was gone.
  // Statements of a few rows are never worth compiling: on a fresh database, whose tables have
  // no statistics, PostgreSQL took seconds to compile a grant of one millisecond.
  const { schema, ...connection } = connectionOf(databaseUrl, [
    `statement_timeout=${String(statementTimeoutMs)}`,
    String.raw`default_transaction_isolation=read\ committed`,
    'jit=off',
    `idle_in_transaction_session_timeout=${String(IDLE_TIMEOUT_MS)}`,
    ...prepared.settings,
  ]);
  const pool = createPool({
    ...connection,
    max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
  });
  return new PrismaClient({
    adapter: new PrismaPg(pool, {
      schema,
      onPoolError: onError,
      onConnectionError: onError,
      disposeExternalPool: true,
      ...prepared.naming,
    }),
  });
}

/**
 * A pool whose connections have a listener for errors as long as they live. Between being handed out
 * and its caller's first step a connection has none of pg's or Prisma's; a session that ended in that
 * moment, as those of a killed database do, was seen to end the whole process.
 */
function createPool(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(config);
  pool.on('connect', (connection) => {
    // Not reported here: the next user of the connection gets the error and reports it.
    connection.on('error', () => undefined);
  });
  return pool;
}
