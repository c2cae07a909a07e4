import { randomBytes } from 'node:crypto';
import path from 'node:path';
import pg from 'pg';
import { expect, inject } from 'vitest';
import { createDatabase } from '@leasehold/keys-core/store';
import { TEMPLATE_DATABASE } from './test-cluster.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The connection string of the run's cluster; set by global-setup. */
    clusterUrl: string;
  }
}

/** A database of a test's own: migrated and empty. */
export interface TestDatabase {
  readonly name: string;
  readonly url: string;
  /** Ends every session in it and removes it. Safe to repeat. */
  drop(): Promise<void>;
}

const NAME_LENGTH_MAX = 40;

/**
 * A copy of the template, in about 30 ms. The name is that of the test file, so that a database which
 * was left behind says whose it is. Whoever makes it drops it.
 */
export async function createTestDatabase(): Promise<TestDatabase> {
  const file = path.basename(expect.getState().testPath ?? 'test').replace(/\.test\.ts$/, '');
  const stem = file
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .slice(0, NAME_LENGTH_MAX);
  const name = `${stem}_${randomBytes(4).toString('hex')}`;
  const url = new URL(inject('clusterUrl'));
  const administration = url.href;
  url.pathname = `/${name}`;
  await createDatabase(url.href, TEMPLATE_DATABASE);
  return { name, url: url.href, drop: () => dropDatabase(administration, name) };
}

async function dropDatabase(administrationUrl: string, name: string): Promise<void> {
  const client = new pg.Client({ connectionString: administrationUrl });
  await client.connect();
  try {
    await client.query(`drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
  } finally {
    await client.end();
  }
}
