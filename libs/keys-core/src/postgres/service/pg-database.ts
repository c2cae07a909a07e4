import type { ServiceDatabase, ServiceTransaction } from './service-database.ts';

/** The rows of a statement, as node-postgres returns them. */
export interface PgResult<Row> {
  readonly rows: Row[];
  readonly rowCount: number | null;
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
    async transaction(work) {
      const client = await pool.connect();
      // If the server has ended the session, the next statement reports it. Without a listener the
      // process would end.
      client.on('error', ignore);
      let isBroken = false;
      try {
        return await inTransaction(client, work);
      } catch (error) {
        isBroken = !(await isRolledBack(client));
        throw error;
      } finally {
        client.removeListener('error', ignore);
        client.release(isBroken);
      }
    },
  };
}

async function inTransaction<Result>(
  client: PgClientLike,
  work: (transaction: ServiceTransaction<PgTransaction>) => Promise<Result>,
): Promise<Result> {
  let isOver = false;
  const send = async (text: string, values: readonly unknown[]): Promise<PgResult<unknown>> => {
    // Another caller may have the connection by now.
    if (isOver) throw new Error('The transaction is over.');
    return client.query(text, [...values]);
  };
  const tx: PgTransaction = {
    query: async <Row>(text: string, values: readonly unknown[] = []) =>
      (await send(text, values)) as PgResult<Row>,
  };
  await client.query('begin isolation level read committed');
  try {
    const result = await work({
      tx,
      query: async (text, values) => (await send(text, values)).rows,
    });
    isOver = true;
    await client.query('commit');
    return result;
  } finally {
    isOver = true;
  }
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
