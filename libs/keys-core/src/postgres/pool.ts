/** The connections of one pool, and the statements and transactions that are sent on them. */
import { createHash } from 'node:crypto';
import pg from 'pg';
import { connectionOf } from '@leasehold/service-kit/database-url';
import { WITHOUT_TRANSACTION_TIMEOUT } from '@leasehold/service-kit/session-settings';
import { mayGoOn } from './database-errors.ts';
import { KEEP_ALIVE_MS, SILENT_MS } from './hints.ts';
import { inTransaction } from './service-database.ts';
import { type Fragment, type PoolName, type Sql, type SqlPool, statementOf } from './sql.ts';

/** After how long the server cancels a transition, in milliseconds. */
export const STATEMENT_TIMEOUT_MS = 2_000;
/** After how long it cancels a renewal, by default. */
export const RENEWAL_TIMEOUT_MS = 3_000;

/** What statements in a transaction on a pool are sent with. */
export interface PoolSql<Pool extends PoolName> extends Sql<Pool> {
  /** @returns how many rows were changed. */
  $executeRaw(query: TemplateStringsArray | Fragment, ...values: unknown[]): Promise<number>;
}

/** Connections to PostgreSQL for the statements of this pool. */
export interface Pool<Name extends PoolName>
  extends PoolSql<Name>, Omit<SqlPool<Name>, '$queryRaw'> {
  /** Runs `work` in one READ COMMITTED transaction, and rolls it back when `work` throws. */
  $transaction<Result>(work: (tx: PoolSql<Name>) => Promise<Result>): Promise<Result>;
  /** Sends statements on a connection, which may be in a transaction. */
  on(connection: () => pg.PoolClient): PoolSql<Name>;
  readonly connections: pg.Pool;
  /** Opens every connection that it may have. Those of a pool that keeps them are there from then on. */
  reserve(): Promise<void>;
  /** Ends the connections, each when its statement is done. */
  close(): Promise<void>;
}

export interface PoolOptions {
  readonly databaseUrl: string;
  /** Connections, at most. */
  readonly max: number;
  readonly statementTimeoutMs: number;
  readonly prepared: PreparedOptions;
  /** Whether connections stay open that nobody uses: later there may be no other. */
  readonly isKept: boolean;
  /** Called when a connection breaks that nobody is using. */
  readonly onError: (error: unknown) => void;
}

/** A process that is paused within a transaction releases its rows after this long. */
export const IDLE_TIMEOUT_MS = 5_000;
const CONNECT_TIMEOUT_MS = 5_000;

/**
 * As `pg` reads values, except for `int8`: the larger of them are no JavaScript numbers. It is asked only when it
 * is used, because services that use Prisma load this file, and need not have it.
 */
const TYPES: pg.CustomTypesConfig = {
  getTypeParser: ((type: typeof pg.types.builtins.INT8, format: 'text'): unknown =>
    type === pg.types.builtins.INT8
      ? BigInt
      : pg.types.getTypeParser(type, format)) as typeof pg.types.getTypeParser,
};

export function openPool<Name extends PoolName>(options: PoolOptions): Pool<Name> {
  const { prepare } = options.prepared;
  const connections = connect(options);
  let ending: Promise<void> | undefined;
  const sqlOn = (send: (query: pg.QueryConfig) => Promise<pg.QueryResult>): PoolSql<Name> => {
    const sendStatement = (
      query: TemplateStringsArray | Fragment,
      values: unknown[],
    ): Promise<pg.QueryResult> => {
      const statement = statementOf(query, values);
      const { text } = statement;
      return send({ ...(prepare?.(text) ?? { text }), values: statement.values });
    };
    return {
      $queryRaw: async <Rows>(query: TemplateStringsArray | Fragment, ...values: unknown[]) =>
        (await sendStatement(query, values)).rows as Rows,
      $executeRaw: async (query, ...values) => (await sendStatement(query, values)).rowCount ?? 0,
    };
  };
  const on = (connection: () => pg.PoolClient): PoolSql<Name> =>
    sqlOn(async (query) => connection().query(query));
  return {
    ...sqlOn((query) => sendOnce(connections, query)),
    $transaction: (work) =>
      inTransaction({ connect: () => connections.connect() }, (client) => work(on(client))),
    on,
    connections,
    reserve: () => openAll(connections, options.max),
    close: () => (ending ??= connections.end()),
  };
}

/**
 * Sends one statement. A connection on which one has failed goes on, unless its session may be the reason: the pool's own
 * method would close it, and when others have all connections of the database there may be no other.
 */
async function sendOnce(pool: pg.Pool, query: pg.QueryConfig): Promise<pg.QueryResult> {
  const connection = await pool.connect();
  try {
    const result = await connection.query(query);
    connection.release();
    return result;
  } catch (error) {
    connection.release(!mayGoOn(error));
    throw error;
  }
}

function connect({
  databaseUrl,
  max,
  statementTimeoutMs,
  prepared,
  isKept,
  onError,
}: PoolOptions): pg.Pool {
  // Timeouts are the server's: a client that stops waiting does not stop a statement, and one
  // that waited for a row was seen to grant it seconds after its client was gone. The client's own is for a server
  // that has fallen silent.
  const { connectionString, options, isPooled } = connectionOf(databaseUrl, {
    statement_timeout: String(statementTimeoutMs),
    idle_in_transaction_session_timeout: String(IDLE_TIMEOUT_MS),
    ...prepared.settings,
  });
  const pool = new pg.Pool({
    connectionString,
    options,
    max,
    min: isKept ? max : 0,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    query_timeout: statementTimeoutMs + SILENT_MS,
    types: TYPES,
    // Awaited by the pool, although its type does not say so.
    // oxlint-disable-next-line typescript/no-misused-promises -- see above
    onConnect: isPooled ? undefined : withoutTransactionTimeout,
  });
  pool.on('error', onError);
  // Between being handed out and its caller's first step a connection has no listener of pg's; a
  // session that ended in that moment, as those of a killed database do, was seen to end the whole
  // process. Not reported here: the next user of the connection gets the error and reports it.
  pool.on('connect', (connection) => {
    connection.on('error', () => undefined);
  });
  return pool;
}

async function withoutTransactionTimeout(connection: pg.ClientBase): Promise<void> {
  await connection.query(WITHOUT_TRANSACTION_TIMEOUT);
}

async function openAll(pool: pg.Pool, count: number): Promise<void> {
  const opened = await Promise.allSettled(Array.from({ length: count }, () => pool.connect()));
  for (const one of opened) if (one.status === 'fulfilled') one.value.release();
  const failed = opened.find((one) => one.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

// Statements that are planned once for each connection.
//
// The grant statement took twice as long to plan as to carry out. Its plan is the same each time: every
// row is one probe of an index, however large the table is and however many are asked for. So it is
// made once, for parameters of any size, and never by reading a whole table, which is what the planner
// would choose for a table that was empty when it planned.

interface PreparedStatement {
  readonly name: string;
  /** The same object each time: pg compares it with the text that the connection has. */
  readonly text: string;
}

/** What a pool is opened with besides its timeouts. */
interface PreparedOptions {
  /** Start-up settings of its connections. */
  readonly settings: Readonly<Record<string, string>>;
  /** A statement with the name under which a connection keeps its plan; without it, plans are not kept. */
  readonly prepare?: (text: string) => PreparedStatement;
}

/**
 * Transitions skip locked rows. They may only have to wait for a row that another transaction is just
 * inserting; after this long the rest of the batch continues without it.
 */
const LOCK_TIMEOUT_MS = 1_000;

/** The settings of transitions, whether planned once or each time. */
export const TRANSITION_SETTINGS = {
  enable_seqscan: 'off',
  lock_timeout: String(LOCK_TIMEOUT_MS),
} as const;

/** Every statement is planned when it is sent, for the very parameters that it has. */
export const UNPREPARED: PreparedOptions = { settings: {} };

/**
 * Planning a full grant takes twice as long as executing it, and a plan that was made for empty tables reads whole
 * tables until the next `analyze`: so each is planned once, generically.
 *
 * Prepared statements belong to a session. Poolers that hand out sessions by the transaction must support
 * them (PgBouncer does since 1.21); `?pgbouncer=true` in the URL, as with Prisma, turns them off.
 */
export function preparedOptions(databaseUrl: string): PreparedOptions {
  if (connectionOf(databaseUrl).isPooled) return UNPREPARED;
  // By length: to find a text of thousands of characters itself, each of them would be hashed each time.
  const ofLength = new Map<number, PreparedStatement[]>();
  return {
    settings: { plan_cache_mode: 'force_generic_plan', ...TRANSITION_SETTINGS },
    prepare(text) {
      const known = ofLength.get(text.length) ?? [];
      let statement = known.find((one) => one.text === text);
      if (statement === undefined) {
        const digest = createHash('sha256').update(text).digest('hex');
        statement = { name: `leasehold_${digest.slice(0, 32)}`, text };
        ofLength.set(text.length, [...known, statement]);
      }
      return statement;
    },
  };
}
