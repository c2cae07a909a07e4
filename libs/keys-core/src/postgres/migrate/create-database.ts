import { connectionOf } from '@leasehold/service-kit/database-url';
import pg from 'pg';

const DUPLICATE_DATABASE = '42P04';
const UNIQUE_VIOLATION = '23505';

/**
 * Creates the database that `databaseUrl` names, if it is missing, as a copy of `template` if given.
 * Safe when others create the same one at the same time. @returns whether it was created.
 */
export async function createDatabase(databaseUrl: string, template?: string): Promise<boolean> {
  const url = new URL(databaseUrl);
  const name = decodeURIComponent(url.pathname.slice(1));
  url.pathname = '/postgres';
  const client = new pg.Client(connectionOf(url.href));
  await client.connect();
  try {
    const found = await client.query('select 1 from pg_database where datname = $1', [name]);
    if (found.rowCount) return false;
    const from = template === undefined ? '' : ` template ${pg.escapeIdentifier(template)}`;
    await client.query(`create database ${pg.escapeIdentifier(name)}${from}`);
    return true;
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === DUPLICATE_DATABASE || code === UNIQUE_VIOLATION) return false;
    throw error;
  } finally {
    await client.end();
  }
}
