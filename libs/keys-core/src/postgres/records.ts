/**
 * Records: tables whose rows people make and change, read and written by the typed queries of Prisma's client.
 * Transitions, locks, queues, logs and searches are statements, on the same connections; see decision 33.
 *
 * A transaction is always ours. Typed queries in it run on its connection, so that a record and a statement
 * are committed together. The client is made by the first typed query: a process that reads no record loads
 * neither Prisma nor its query compiler.
 */
import type { SqlDriverAdapterFactory, Transaction } from '@prisma/driver-adapter-utils';
import { connectionOf } from '@leasehold/service-kit/database-url';
import type pg from 'pg';
import type { PrismaClient } from './generated/client.ts';
import { invariant } from '../kernel/errors.ts';
import { openPool, type Pool, type PoolOptions, type PoolSql } from './pool.ts';
import { inTransaction } from './service-database.ts';
import { onlyRow, type PoolName, type Sql } from './sql.ts';

/** The tables that are records. No other can be reached by a typed query. */
const RECORD_MODELS = [
  'apiToken',
  'audit',
  'webhook',
  'bulk',
  'bulkItem',
  'drone',
  'droneQuestion',
  'backend',
  'backendAction',
  'keyFailure',
  'person',
  'personAccount',
  'personSession',
  'personVerification',
  'signInFailure',
  'reservationMembership',
  'reservationDatacenter',
  'reservationGivenUp',
  'databaseEpoch',
] as const;

/** Typed queries of records. */
export type Records = Pick<PrismaClient, (typeof RECORD_MODELS)[number]>;

/** The general pool, or a transaction on it, for statements and typed queries. */
export interface RecordSql<Name extends PoolName = 'general'> extends Sql<Name> {
  readonly records: Records;
}

/** A pool whose transactions have typed queries beside statements. */
export interface RecordPool<Name extends PoolName = 'general'>
  extends Omit<Pool<Name>, '$transaction'>, RecordSql<Name> {
  $transaction<Result>(
    work: (tx: PoolSql<Name> & RecordSql<Name>) => Promise<Result>,
  ): Promise<Result>;
}

/**
 * The database's clock, by which times of records are judged and written. A typed query cannot name it in a
 * condition. It is read before the query, so that a time is at most a round trip old.
 */
export async function readClock(sql: Sql<'general' | 'guests' | 'reads'>): Promise<Date> {
  return onlyRow(await sql.$queryRaw<{ now: Date }[]>`select clock_timestamp() as now`).now;
}

/** A transaction ends by what the server allows, long before this: see `pool.ts`. */
const TRANSACTION_MS_MAX = 600_000;

export function openRecordPool(options: PoolOptions): RecordPool {
  const pool = openPool<'general'>(options);
  const { schema } = connectionOf(options.databaseUrl);
  let opening: Promise<JoiningClient> | undefined;
  const open = (): Promise<JoiningClient> => (opening ??= openClient(pool.connections, schema));
  return {
    ...pool,
    records: lazily(async () => (await open()).client),
    $transaction: (work) =>
      inTransaction({ connect: () => pool.connections.connect() }, async (connection) => {
        const joined = joinTransaction(open, connection);
        try {
          return await work({ ...pool.on(connection), records: joined.records });
        } finally {
          await joined.end();
        }
      }),
    async close() {
      await (await opening)?.client.$disconnect();
      await pool.close();
    },
  };
}

/**
 * Typed queries in a transaction that has begun on a connection already. Prisma can be told neither a
 * transaction of ours nor its connection; see {@link joining}.
 */
function joinTransaction(
  open: () => Promise<JoiningClient>,
  connection: () => pg.PoolClient,
): { readonly records: Records; end(): Promise<void> } {
  let finish = (): void => undefined;
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let joining: Promise<Records> | undefined;
  let ending: Promise<void> | undefined;
  const join = async (): Promise<Records> => {
    const { client, lend } = await open();
    return lend(
      connection(),
      () =>
        new Promise((resolve, reject) => {
          ending = client.$transaction(
            (tx) => {
              resolve(tx);
              return finished;
            },
            { timeout: TRANSACTION_MS_MAX, isolationLevel: JOINING },
          );
          ending.catch(reject);
        }),
    );
  };
  return {
    records: lazily(async () => (joining ??= join())),
    async end() {
      finish();
      // What it failed with, the query has reported that began it.
      await Promise.allSettled([joining, ending]);
    },
  };
}

/** No other transaction of Prisma's has this isolation level: it marks those that join one of ours. */
const JOINING = 'Serializable';

interface JoiningClient {
  readonly client: PrismaClient;
  /** Begins a transaction of Prisma's on a connection. One begins at a time. */
  readonly lend: <Begun>(connection: pg.PoolClient, begin: () => Promise<Begun>) => Promise<Begun>;
}

async function openClient(pool: pg.Pool, schema: string): Promise<JoiningClient> {
  const [{ PrismaPg }, { PrismaClient: Client }] = await Promise.all([
    import('@prisma/adapter-pg'),
    import('./generated/client.ts'),
  ]);
  let lent: pg.PoolClient | undefined;
  let lastBegun: Promise<unknown> = Promise.resolve();
  return {
    client: new Client({ adapter: joining(new PrismaPg(pool, { schema }), () => lent) }),
    lend: (connection, begin) => {
      const begun = lastBegun.then(async () => {
        lent = connection;
        try {
          return await begin();
        } finally {
          lent = undefined;
        }
      });
      lastBegun = begun.catch(() => undefined);
      return begun;
    },
  };
}

/**
 * An adapter whose transactions at {@link JOINING} are those of the connection that is lent: it neither begins
 * nor ends them. The mark and the turns take the place of an `AsyncLocalStorage`, which slows down every promise
 * of the process from its first use.
 */
function joining(
  factory: SqlDriverAdapterFactory,
  lent: () => pg.PoolClient | undefined,
): SqlDriverAdapterFactory {
  return {
    provider: factory.provider,
    adapterName: factory.adapterName,
    async connect() {
      const adapter = await factory.connect();
      const begin = adapter.startTransaction.bind(adapter);
      adapter.startTransaction = async (isolationLevel) => {
        if (isolationLevel?.toUpperCase() !== JOINING.toUpperCase()) return begin(isolationLevel);
        const connection = lent();
        invariant(connection !== undefined, 'a transaction joins one that lends its connection');
        const onConnection = Object.create(adapter, {
          client: { value: connection },
        }) as typeof adapter;
        return {
          provider: adapter.provider,
          adapterName: adapter.adapterName,
          options: { usePhantomQuery: true },
          queryRaw: (query) => onConnection.queryRaw(query),
          executeRaw: (query) => onConnection.executeRaw(query),
          commit: () => Promise.resolve(),
          rollback: () => Promise.resolve(),
        } satisfies Transaction;
      };
      return adapter;
    },
  };
}

type Operation = (args?: unknown) => Promise<unknown>;
type Delegate = Readonly<Record<string, Operation>>;

/** Records whose client is there when the first query needs it. */
function lazily(open: () => Promise<Records>): Records {
  const delegates = RECORD_MODELS.map((model) => {
    const queries = new Proxy<Delegate>(
      {},
      {
        get: (_, operation) => async (args: unknown) => {
          const delegate = (await open())[model] as unknown as Delegate;
          return delegate[String(operation)]?.(args);
        },
      },
    );
    return [model, queries];
  });
  return Object.fromEntries(delegates) as Records;
}
