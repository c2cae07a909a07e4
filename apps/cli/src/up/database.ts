import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '@leasehold/keys-core/store';
import { withSchema } from '@leasehold/service-kit';
import type { CliConfig } from '../config.ts';
import { openBoundedLog, type BoundedLog } from './bounded-log.ts';

const DATABASE_NAME = 'leasehold';
const RESTART_DELAY_MS = 500;
const RESTARTS_MAX = 5;

/** The database of `leasehold up`. */
export interface Database {
  readonly url: string;
  /** null: it is somebody else's. */
  readonly pid: number | null;
  stop(): Promise<void>;
}

export interface DatabaseHooks {
  died(): void;
  restarted(pid: number): void;
  gaveUp(error: unknown): void;
}

/** The database that DATABASE_URL names: it is neither started nor stopped here. */
export function externalDatabase(url: string): Database {
  return { url, pid: null, stop: () => Promise.resolve() };
}

/**
 * Starts PostgreSQL on the data in the home and keeps it running: when it dies it is started again
 * on the same data and the same port, so that nobody has to be told.
 * @throws {LeaseError} `config.invalid` when it cannot be started.
 */
export async function startDatabase(config: CliConfig, hooks: DatabaseHooks): Promise<Database> {
  const log = openBoundedLog(join(config.home, 'logs', 'postgres.log'));
  const dataDir = join(config.home, 'postgres');
  let postgres: EmbeddedPostgres;
  try {
    postgres = await start(dataDir, log);
  } catch (error) {
    log.close();
    throw error;
  }
  const { port } = postgres;
  const url = withSchema(postgres.url(DATABASE_NAME), config.schema);
  const stopping = new AbortController();
  const isStopping = (): boolean => stopping.signal.aborted;

  async function keepRunning(): Promise<void> {
    for (let restarts = 0; restarts < RESTARTS_MAX; restarts += 1) {
      await postgres.exited;
      if (isStopping()) return;
      hooks.died();
      await delay(RESTART_DELAY_MS);
      if (isStopping()) return;
      postgres = await start(dataDir, log, port);
      hooks.restarted(postgres.pid);
    }
    throw new Error(`PostgreSQL died ${String(RESTARTS_MAX)} times.`);
  }
  const kept = keepRunning().catch((error: unknown) => {
    hooks.gaveUp(error);
  });

  return {
    url,
    get pid() {
      return postgres.pid;
    },
    async stop() {
      stopping.abort();
      await postgres.stop();
      await kept;
      log.close();
    },
  };
}

function start(dataDir: string, log: BoundedLog, port?: number): Promise<EmbeddedPostgres> {
  return startEmbeddedPostgres({
    dataDir,
    port,
    log: (line) => {
      log.write(Buffer.from(`${line}\n`));
    },
  });
}
