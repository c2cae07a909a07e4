/** Notices a pooler in transaction mode that the address does not mention. */
import { randomUUID } from 'node:crypto';
import { connectionOf } from '@leasehold/service-kit/database-url';
import pg from 'pg';
import { sqlStateOf } from '../database-errors.ts';

/** SQLSTATE of a statement that its session does not know. */
const UNKNOWN_STATEMENT = '26000';
/** What PgBouncer says of connection options. */
const OPTIONS_REFUSED = /unsupported startup parameter: options/u;
/** A pooler may happen to hand out the same session again. */
const TRIES = 3;
const REMEDY =
  'add pgbouncer=true to DATABASE_URL and set the connection options for the role, see "Poolers" in docs/operate/postgresql.md';

/**
 * Why statements that are prepared once for a connection would fail; undefined when they work. A pooler in
 * transaction mode gives each transaction any session, and most do not take the statements along.
 *
 * Not asked of an address that mentions the pooler: then nothing is prepared.
 */
export async function poolerProblem(databaseUrl: string): Promise<string | undefined> {
  const { connectionString, options, isPooled } = connectionOf(databaseUrl);
  if (isPooled) return undefined;
  const connection = { connectionString, options };
  const clients = [new pg.Client(connection), new pg.Client(connection)] as const;
  for (const client of clients) client.on('error', () => undefined);
  try {
    for (const client of clients) await client.connect();
    for (let tries = 0; tries < TRIES; tries += 1) await findAgain(...clients);
    return undefined;
  } catch (error) {
    const message = error instanceof Error ? error.message : '';
    if (OPTIONS_REFUSED.test(message)) return `a pooler refuses connection options: ${REMEDY}`;
    if (sqlStateOf(error) !== UNKNOWN_STATEMENT) throw error;
    return `a pooler in transaction mode does not keep prepared statements: ${REMEDY}`;
  } finally {
    for (const client of clients) await client.end().catch(() => undefined);
  }
}

/**
 * Prepares a statement, and carries it out again while another transaction has the session, if sessions are
 * handed out.
 */
async function findAgain(first: pg.Client, second: pg.Client): Promise<void> {
  const statement = { name: `leasehold_check_${randomUUID()}`, text: 'select 1' };
  await first.query(statement);
  await second.query('begin');
  await second.query('select 1');
  await first.query(statement);
  await second.query('rollback');
}
