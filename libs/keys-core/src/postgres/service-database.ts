/** The database of a service that shares it with Leasehold, by the service's own means. */
import type { Clock } from '../kernel/clock.ts';
import { databaseFailureOf, isReadOnly } from './database-errors.ts';
import { GUEST_MS_MAX } from './guest-transaction.ts';
import { SILENT_MS } from './hints.ts';

/** A transaction of the service's own client. */
export interface ServiceTransaction<Tx> {
  /** As the service's own code knows it. */
  readonly tx: Tx;
  /** Runs one statement in it. Parameters are `$1`, `$2`, …. @returns its rows. */
  query(text: string, values: readonly unknown[]): Promise<unknown[]>;
}

/**
 * For how long answers are waited for. A pool of a controller has this as its `query_timeout`; that of a service
 * may have none, and TCP goes on sending to a host without power for a quarter of an hour.
 */
export interface Patience {
  /** For the answer to a statement or a commit, in milliseconds: longer than the server may take for it. */
  readonly answerMs: number;
  readonly clock: Clock;
}

/** Made by `prismaDatabase` or `pgDatabase`. */
export interface ServiceDatabase<Tx> {
  /**
   * Runs `work` in one READ COMMITTED transaction, and rolls it back when `work` throws. After it has
   * ended, nothing can be sent with it any more. What is not answered within `patience` fails as if the
   * connection had broken.
   */
  transaction<Result>(
    work: (transaction: ServiceTransaction<Tx>) => Promise<Result>,
    patience?: Patience,
  ): Promise<Result>;
}

/** How long to wait for one of the service's connections, in milliseconds. */
const CONNECTION_WAIT_MS = 5_000;

/**
 * After how many milliseconds Prisma gives up a transaction: the first statement may wait for its row as
 * long as {@link GUEST_MS_MAX}, the work may take as long, and Prisma must never be the first to act.
 */
const TRANSACTION_TIMEOUT_MS = 2 * GUEST_MS_MAX + 2_000;

/** The rows of a statement, as node-postgres returns them. */
export interface PgResult<Row> {
  readonly rows: Row[];
  readonly rowCount: number | null;
  /** What the server did: of a `commit` after a failed statement, `ROLLBACK`. */
  readonly command: string;
}

/** What a service's code gets for a transaction on its pool. Usable until the transaction ends. */
export interface PgTransaction {
  query<Row = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<PgResult<Row>>;
}

/** What is used of a client of node-postgres. */
export interface PgClientLike {
  query(text: string, values?: unknown[]): Promise<PgResult<unknown>>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  release(error?: boolean): void;
}

/** What is used of a pool of node-postgres. */
export interface PgPoolLike {
  connect(): Promise<PgClientLike>;
}

/** The database of a service that has a node-postgres pool. */
export function pgDatabase(pool: PgPoolLike): ServiceDatabase<PgTransaction> {
  return {
    transaction: (work, patience) =>
      inTransaction(
        { connect: () => connectInTime(pool) },
        (client) => {
          const send = async (text: string, values: readonly unknown[] = []) =>
            inTime(client().query(text, [...values]), patience);
          const tx: PgTransaction = {
            query: async <Row>(text: string, values?: readonly unknown[]) =>
              (await send(text, values)) as PgResult<Row>,
          };
          return work({ tx, query: async (text, values) => (await send(text, values)).rows });
        },
        patience,
      ),
  };
}

/** A pool makes its callers wait without end, unless its owner has set a bound: leases would be lost meanwhile. */
function connectInTime(pool: PgPoolLike): Promise<PgClientLike> {
  return new Promise((resolve, reject) => {
    let isLate = false;
    // eslint-disable-next-line no-restricted-globals -- as the pool's own timer: no lease is judged by it
    const timer = setTimeout(() => {
      isLate = true;
      // As a pool of node-postgres says it.
      reject(new Error('timeout exceeded when trying to connect'));
    }, CONNECTION_WAIT_MS);
    pool
      .connect()
      .then((client) => {
        if (isLate) client.release();
        else resolve(client);
      })
      .finally(() => clearTimeout(timer))
      .catch(reject);
  });
}

/**
 * The answer, if it comes within `waitMs`: by default, the time of a statement.
 * @throws what a pool of node-postgres with a `query_timeout` does: the connection counts as lost.
 */
async function inTime<Answer>(
  answer: PromiseLike<Answer>,
  patience: Patience | undefined,
  waitMs?: number,
): Promise<Answer> {
  if (patience === undefined) return answer;
  const { clock, answerMs } = patience;
  let cancel = (): void => undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    cancel = clock.at(clock.nowMs() + (waitMs ?? answerMs), () =>
      reject(new Error('Query read timeout')),
    );
  });
  try {
    return await Promise.race([answer, silence]);
  } finally {
    cancel();
  }
}

/**
 * Runs `work` in one READ COMMITTED transaction on a connection of the pool, and rolls it back when
 * `work` throws. `client` throws once the transaction is over: another caller may have the connection.
 * `patience` is left out where the connections have a `query_timeout` of their own.
 */
export async function inTransaction<Client extends PgClientLike, Result>(
  pool: { connect(): Promise<Client> },
  work: (client: () => Client) => Promise<Result>,
  patience?: Patience,
): Promise<Result> {
  const client = await pool.connect();
  // If the server has ended the session, the next statement reports it. Without a listener the
  // process would end.
  client.on('error', ignore);
  let isOver = false;
  let isBroken = false;
  try {
    // Behind a pooler this is what waits for a connection.
    const begun = client.query('begin isolation level read committed');
    await inTime(begun, patience, CONNECTION_WAIT_MS);
    const result = await work(() => {
      if (isOver) throw new Error('The transaction is over.');
      return client;
    });
    isOver = true;
    const { command } = await inTime(client.query('commit'), patience);
    // The answer to a commit after a statement that failed, when `work` has kept silent about that.
    if (command === 'ROLLBACK') throw rolledBack();
    return result;
  } catch (error) {
    isOver = true;
    // A statement without an answer keeps the one behind it waiting; a session that can only read stays so.
    isBroken =
      databaseFailureOf(error) === 'lost' ||
      isReadOnly(error) ||
      !(await isRolledBack(client, patience));
    throw error;
  } finally {
    client.removeListener('error', ignore);
    // A broken one is closed at once, whatever its server has not answered.
    client.release(isBroken);
  }
}

/** As PostgreSQL itself reports it, had it been sent another statement: in_failed_sql_transaction. */
function rolledBack(): Error {
  const text =
    'A statement of the transaction had failed, so PostgreSQL rolled it back instead of committing it.';
  return Object.assign(new Error(text), { code: '25P02', severity: 'ERROR' });
}

/** A rollback takes no time. One that does waits behind a statement without an answer. */
async function isRolledBack(
  client: PgClientLike,
  patience: Patience | undefined,
): Promise<boolean> {
  try {
    await inTime(client.query('rollback'), patience, SILENT_MS);
    return true;
  } catch {
    return false;
  }
}

function ignore(): void {
  // See where it is used.
}

/** What is used of a transaction of Prisma's client. */
export interface PrismaTransaction {
  $queryRawUnsafe<Rows = unknown>(text: string, ...values: unknown[]): PromiseLike<Rows>;
}

/** What is used of a client that Prisma has generated for the service. */
export interface PrismaClientLike<Tx extends PrismaTransaction> {
  $transaction<Result>(
    work: (tx: Tx) => Promise<Result>,
    options?: {
      readonly isolationLevel?: 'ReadCommitted';
      readonly maxWait?: number;
      readonly timeout?: number;
    },
  ): Promise<Result>;
}

/**
 * The database of a service that has a Prisma client of its own, for PostgreSQL.
 *
 * Prisma does not let a connection be closed. One without an answer is gone for the service until the adapter's pool
 * gives it up, by its own `query_timeout` or with TCP; but no caller waits for it.
 */
export function prismaDatabase<Tx extends PrismaTransaction>(
  general: PrismaClientLike<Tx>,
): ServiceDatabase<Tx> {
  return {
    async transaction(work, patience) {
      // In an object: it may be any value, even undefined.
      let failure: { readonly error: unknown } | undefined;
      let endWork = (): void => undefined;
      const worked = new Promise<void>((resolve) => {
        endWork = resolve;
      });
      const ended = general.$transaction(
        async (tx) => {
          try {
            return await workWith(tx, work, patience);
          } catch (error) {
            failure = { error };
            throw error;
          } finally {
            endWork();
          }
        },
        {
          isolationLevel: 'ReadCommitted',
          maxWait: CONNECTION_WAIT_MS,
          timeout: TRANSACTION_TIMEOUT_MS,
        },
      );
      // From here on it commits or rolls back, which Prisma itself waits for without end.
      await Promise.race([worked, ended]);
      try {
        return await inTime(ended, patience, failure && SILENT_MS);
      } catch (error) {
        throw failure === undefined ? error : failure.error;
      }
    },
  };
}

async function workWith<Tx extends PrismaTransaction, Result>(
  tx: Tx,
  work: (transaction: ServiceTransaction<Tx>) => Promise<Result>,
  patience: Patience | undefined,
): Promise<Result> {
  const result = await work({
    tx,
    // The text is a statement of ours, made by the template tag, and its values are parameters.
    // The service's client does not know fragments of another copy of the tag.
    query: async (text, values) =>
      // eslint-disable-next-line no-restricted-syntax -- see above
      inTime(tx.$queryRawUnsafe<unknown[]>(text, ...values), patience),
  });
  // Prisma reports a commit as done even if a statement has failed and PostgreSQL rolled back.
  // Then this one fails too.
  // eslint-disable-next-line no-restricted-syntax -- a statement without values
  await inTime(tx.$queryRawUnsafe('select 1'), patience);
  return result;
}
