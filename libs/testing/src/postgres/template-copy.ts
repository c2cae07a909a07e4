import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { TEMPLATE_DATABASE } from './test-cluster.ts';

/** A database of a test's own: migrated and empty. */
export interface TestDatabase {
  readonly name: string;
  readonly url: string;
  /** Ends every session in it and removes it. Safe to repeat. */
  drop(): Promise<void>;
}

const NAME_LENGTH_MAX = 40;

/** Copies the template of a cluster, or another database of it that nobody uses. `stem` becomes a part of the copy's name. */
export async function copyTemplate(
  clusterUrl: string,
  stem: string,
  template = TEMPLATE_DATABASE,
): Promise<TestDatabase> {
  const readable = stem
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .slice(0, NAME_LENGTH_MAX);
  const name = `${readable}_${randomBytes(4).toString('hex')}`;
  const url = new URL(clusterUrl);
  const copy = pg.escapeIdentifier(name);
  const cluster = administrationOf(url.href);
  url.pathname = `/${name}`;
  await cluster.query(
    `create database ${copy} template ${pg.escapeIdentifier(template)} strategy file_copy`,
  );
  return {
    name,
    url: url.href,
    async drop() {
      await cluster.query(`drop database if exists ${copy} with (force)`);
    },
  };
}

const administrations = new Map<string, pg.Pool>();

/** Kept open from one database to the next: a session costs as much as a database. */
function administrationOf(connectionString: string): pg.Pool {
  const known = administrations.get(connectionString);
  if (known !== undefined) return known;
  const pool = new pg.Pool({ connectionString, max: 2, allowExitOnIdle: true });
  // The cluster is stopped, or stopped by a test, while nothing is asked of it.
  pool.on('error', () => undefined);
  administrations.set(connectionString, pool);
  return pool;
}
