import { mkdtemp, rm, statfs } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import {
  createDatabase,
  findMigrationsDir,
  migrate,
  startEmbeddedPostgres,
  type EmbeddedPostgres,
} from '@leasehold/keys-core/postgres';
import { DEFAULT_SCHEMA } from '@leasehold/service-kit';
import pg from 'pg';

/** The database that every test database is a copy of: migrated, and otherwise empty. */
export const TEMPLATE_DATABASE = 'leasehold_template';

/** A PostgreSQL for one run of the tests. */
export interface TestCluster {
  /** The connection string of its database `postgres`. */
  readonly url: string;
  stop(): Promise<void>;
}

/** A file system in memory, where Linux has one: a copy of the template takes a fifth of the time. */
const MEMORY = '/dev/shm';
/** Less than this free is left to others. */
const MEMORY_BYTES_MIN = 4 * 1_024 ** 3;

async function aFolder(): Promise<string> {
  const { bavail, bsize } = await statfs(MEMORY).catch(() => ({ bavail: 0, bsize: 0 }));
  const isLarge = bavail * bsize >= MEMORY_BYTES_MIN;
  return mkdtemp(path.join(isLarge ? MEMORY : os.tmpdir(), 'leasehold-test-'));
}

/**
 * Starts a cluster without fsync in a new temporary folder, with the template in it: of the
 * PostgreSQL that npm brings, or of the one in `nativeDir`.
 */
export async function startTestCluster(nativeDir?: string): Promise<TestCluster> {
  const folder = await aFolder();
  const cluster: EmbeddedPostgres = await startEmbeddedPostgres({
    dataDir: path.join(folder, 'postgres'),
    nativeDir,
    fsync: false,
    settings: { max_connections: '300', shared_buffers: '128MB', autovacuum_naptime: '5s' },
  });
  await createDatabase(cluster.url(TEMPLATE_DATABASE));
  await migrate(cluster.url(TEMPLATE_DATABASE), findMigrationsDir());
  await prepareRole(cluster.url('postgres'));
  return {
    url: cluster.url('postgres'),
    async stop() {
      await cluster.stop();
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/**
 * Sessions that a test opens by itself search Leasehold's tables. Leasehold's own connections set
 * what they search; that they all do so is tested with a role and a schema without this.
 *
 * The password is hashed once instead of 4,096 times, from PostgreSQL 16 on: a test opens dozens of connections,
 * and each costs its client the same.
 */
async function prepareRole(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`alter role current_user set search_path = ${DEFAULT_SCHEMA}, public`);
    await client.query(
      "select set_config(name, '1', false) from pg_settings where name = 'scram_iterations'",
    );
    const password = pg.escapeLiteral(new URL(url).password);
    await client.query(`alter role current_user password ${password}`);
  } finally {
    await client.end();
  }
}
