import { join } from 'node:path';
import { LeaseError } from '@leasehold/keys-core';
import {
  createDatabase,
  findMigrationsDir,
  migrate,
  startEmbeddedPostgres,
} from '@leasehold/keys-core/store';
import { withSchema, type Logger } from '@leasehold/service-kit';
import type { ControllerConfig } from './config.ts';

/** The database of a controller, with the schema of this version. */
export interface Database {
  readonly url: string;
  /** Ends the PostgreSQL that was started for it, if one was. */
  stop(): Promise<void>;
}

/**
 * The database that is configured, or one of our own under the home, brought to the schema of this
 * version. Replicas may do this at the same moment.
 *
 * @throws {LeaseError} `store.unavailable`, `config.invalid`.
 */
export async function prepareDatabase(config: ControllerConfig, log: Logger): Promise<Database> {
  const database =
    config.databaseUrl === null ? await ownDatabase(config, log) : configured(config.databaseUrl);
  try {
    const { applied } = await migrate(database.url, findMigrationsDir());
    if (applied.length > 0) log.info({ applied }, 'migrations applied');
    return database;
  } catch (error) {
    await database.stop();
    throw error instanceof LeaseError
      ? error
      : new LeaseError('store.unavailable', 'The migrations could not be applied.', {
          cause: error,
        });
  }
}

function configured(url: string): Database {
  return { url, stop: () => Promise.resolve() };
}

const OWN_DATABASE = 'leasehold';

async function ownDatabase(config: ControllerConfig, log: Logger): Promise<Database> {
  const postgres = await startEmbeddedPostgres({
    dataDir: join(config.home, 'postgres'),
    log: (line) => {
      log.debug({ line }, 'postgres');
    },
  });
  const url = withSchema(postgres.url(OWN_DATABASE), config.schema);
  await createDatabase(url);
  log.info({ port: postgres.port }, 'DATABASE_URL is not set: started a PostgreSQL of our own');
  return { url, stop: () => postgres.stop() };
}
