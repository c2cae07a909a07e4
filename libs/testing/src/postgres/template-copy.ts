import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { createDatabase } from '@leasehold/keys-core/postgres';
import { TEMPLATE_DATABASE } from './test-cluster.ts';

/** A database of a test's own: migrated and empty. */
export interface TestDatabase {
  readonly name: string;
  readonly url: string;
  /** Ends every session in it and removes it. Safe to repeat. */
  drop(): Promise<void>;
}

const NAME_LENGTH_MAX = 40;

/** Copies the template of a cluster. `stem` becomes a part of the copy's name. */
export async function copyTemplate(clusterUrl: string, stem: string): Promise<TestDatabase> {
  const readable = stem
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .slice(0, NAME_LENGTH_MAX);
  const name = `${readable}_${randomBytes(4).toString('hex')}`;
  const url = new URL(clusterUrl);
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
