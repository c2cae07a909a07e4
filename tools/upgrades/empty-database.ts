import { randomBytes } from 'node:crypto';
import { createDatabase } from '@leasehold/keys-core/postgres';
import pg from 'pg';
import { inject } from 'vitest';

/** A database that nobody has migrated. */
export interface EmptyDatabase extends AsyncDisposable {
  readonly url: string;
}

export async function openEmptyDatabase(): Promise<EmptyDatabase> {
  const clusterUrl = inject('clusterUrl');
  const name = `upgrade_${randomBytes(6).toString('hex')}`;
  const url = new URL(clusterUrl);
  url.pathname = `/${name}`;
  await createDatabase(url.href);
  return {
    url: url.href,
    async [Symbol.asyncDispose]() {
      const client = new pg.Client(clusterUrl);
      await client.connect();
      await client.query(`drop database ${pg.escapeIdentifier(name)} with (force)`);
      await client.end();
    },
  };
}
