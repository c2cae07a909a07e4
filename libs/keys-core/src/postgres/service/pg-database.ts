import type { ServiceDatabase } from './service-database.ts';

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
    transaction: (work) =>
      inTransaction(pool, (client) => {
        const send = async (text: string, values: readonly unknown[] = []) =>
          client().query(text, [...values]);
        const tx: PgTransaction = {
          query: async <Row>(text: string, values?: readonly unknown[]) =>
            (await send(text, values)) as PgResult<Row>,
        };
        return work({ tx, query: async (text, values) => (await send(text, values)).rows });
      }),
  };
}

/**
 * Runs `work` in one READ COMMITTED transaction on a connection of the pool, and rolls it back when
 * `work` throws. `client` throws once the transaction is over: another caller may have the connection.
 */
export async function inTransaction<Client extends PgClientLike, Result>(
  pool: { connect(): Promise<Client> },
  work: (client: () => Client) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect();
  // If the server has ended the session, the next statement reports it. Without a listener the
  // process would end.
  client.on('error', ignore);
  let isOver = false;
  let isBroken = false;
  try {
    await client.query('begin isolation level read committed');
    const result = await work(() => {
      if (isOver) throw new Error('The transaction is over.');
      return client;
    });
    isOver = true;
    const { command } = await client.query('commit');
    // The answer to a commit after a statement that failed, when `work` has kept silent about that.
    if (command === 'ROLLBACK') throw rolledBack();
    return result;
  } catch (error) {
    isOver = true;
    isBroken = !(await isRolledBack(client));
    throw error;
  } finally {
    client.removeListener('error', ignore);
    client.release(isBroken);
  }
}

/** As PostgreSQL itself reports it, had it been sent another statement: in_failed_sql_transaction. */
function rolledBack(): Error {
  const text =
    'A statement of the transaction had failed, so PostgreSQL rolled it back instead of committing it.';
  return Object.assign(new Error(text), { code: '25P02', severity: 'ERROR' });
}

async function isRolledBack(client: PgClientLike): Promise<boolean> {
  try {
    await client.query('rollback');
    return true;
  } catch {
    return false;
  }
}

function ignore(): void {
  // See where it is used.
}
