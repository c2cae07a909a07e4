import { join } from 'node:path';
import { LeaseError } from '@leasehold/keys-core';
import {
  createDatabase,
  findMigrationsDir,
  migrate,
  supervisePostgres,
} from '@leasehold/keys-core/postgres';
import { withSchema, type Logger } from '@leasehold/service-kit';
import { deathText, type Supervision } from '@leasehold/service-kit/supervision';
import type { ControllerConfig } from '../config.ts';

/** The database of a controller, with the schema of this version. */
export interface Database {
  readonly url: string;
  /** Rejects when it is our own and died too often. */
  readonly failed: Promise<never>;
  /** Ends the PostgreSQL that was started for it, if one was. */
  stop(): Promise<void>;
}

export interface DatabaseDeps {
  readonly log: Logger;
  readonly supervision: Supervision;
}

/**
 * The database that is configured, or one of our own under the home, brought to the schema of this
 * version. Replicas may do this at the same moment.
 *
 * @throws {LeaseError} `store.unavailable`, `config.invalid`.
 */
export async function prepareDatabase(
  config: ControllerConfig,
  deps: DatabaseDeps,
): Promise<Database> {
  const { log } = deps;
  const database =
    config.databaseUrl === null ? await ownDatabase(config, deps) : configured(config.databaseUrl);
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

const NEVER = new Promise<never>(() => undefined);

function configured(url: string): Database {
  return { url, failed: NEVER, stop: () => Promise.resolve() };
}

const OWN_DATABASE = 'leasehold';

async function ownDatabase(
  config: ControllerConfig,
  { log, supervision }: DatabaseDeps,
): Promise<Database> {
  let fail = (_error: Error): void => undefined;
  const failed = new Promise<never>((_resolve, reject) => (fail = reject));
  failed.catch(() => undefined);
  const postgres = await supervisePostgres({
    dataDir: join(config.home, 'postgres'),
    supervision,
    log: (line) => log.debug({ line }, 'postgres'),
    hooks: {
      restarting: (_name, death, delayMs) =>
        log.error({ delayMs }, `PostgreSQL ${deathText(death)}; starting it again`),
      restarted: () => log.warn('PostgreSQL runs again'),
      gaveUp: (_name, death) =>
        fail(new LeaseError('store.unavailable', `PostgreSQL ${deathText(death)}, too often.`)),
    },
  });
  const { port, lostPort } = postgres;
  if (lostPort !== undefined) {
    log.warn({ port, lostPort }, 'another program uses the port of PostgreSQL');
  }
  const url = withSchema(postgres.url(OWN_DATABASE), config.schema);
  await createDatabase(url);
  log.info({ port }, 'DATABASE_URL is not set: started a PostgreSQL of our own');
  return { url, failed, stop: () => postgres.stop() };
}
