import { join } from 'node:path';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '@leasehold/keys-core/store';
import { withSchema } from '@leasehold/service-kit';
import type { CliConfig } from '../config.ts';
import { openBoundedLog } from './bounded-log.ts';
import { deathOf, failedStart } from './death.ts';
import {
  keepRunning,
  type Running,
  type RunningHooks,
  type Start,
  type Supervision,
} from './keep-running.ts';

const DATABASE_NAME = 'leasehold';
/** How many lines of its log are looked at when it dies, for why. */
const LINES_KEPT = 20;
/** Those that say why: PostgreSQL's levels above a warning. */
const SEVERE = /\b(?:ERROR|FATAL|PANIC): /u;
const UP_POLL_MS = 100;

/** The database of `leasehold up`. */
export interface Database {
  readonly url: string;
  /** null: it is somebody else's. */
  readonly pid: number | null;
  /** Fulfilled when it runs, as far as is known here, or the signal aborts. */
  untilUp(signal: AbortSignal): Promise<void>;
  stop(): Promise<void>;
}

/** The database that DATABASE_URL names: it is neither started nor stopped here. */
export function externalDatabase(url: string): Database {
  return { url, pid: null, untilUp: () => Promise.resolve(), stop: () => Promise.resolve() };
}

/**
 * Starts PostgreSQL on the data in the home and keeps it running: when it dies it is started again
 * on the same data and the same port, so that nobody has to be told.
 * @throws {LeaseError} `config.invalid` when it cannot be started; `store.unavailable` while its disk
 * is full.
 */
export async function startDatabase(
  config: CliConfig,
  hooks: RunningHooks,
  supervision: Supervision,
): Promise<Database> {
  const log = openBoundedLog(join(config.home, 'logs', 'postgres.log'));
  const dataDir = join(config.home, 'postgres');
  const stopping = new AbortController();
  const { signal } = stopping;
  let severeLines: string[] = [];
  let isUp = false;

  async function start(port?: number): Promise<EmbeddedPostgres> {
    severeLines = [];
    const started = await startEmbeddedPostgres({
      ...{ dataDir, port, signal: AbortSignal.any([signal, supervision.stop]) },
      log(line) {
        log.write(Buffer.from(`${line}\n`));
        if (SEVERE.test(line)) severeLines = [...severeLines, line].slice(-LINES_KEPT);
      },
    });
    isUp = true;
    return started;
  }

  const running = (): Running => ({
    stop: () => postgres.stop(),
    ended: postgres.exited.then(() => {
      isUp = false;
      return deathOf('ended', severeLines);
    }),
  });

  async function startAgain(): Promise<Start> {
    try {
      postgres = await start(postgres.port);
      return { outcome: 'running', running: running() };
    } catch (error) {
      return { outcome: 'died', death: failedStart(error) };
    }
  }

  let postgres: EmbeddedPostgres;
  try {
    postgres = await start();
  } catch (error) {
    log.close();
    throw error;
  }
  const url = withSchema(postgres.url(DATABASE_NAME), config.schema);
  const kept = keepRunning(running(), {
    ...{ name: 'PostgreSQL', start: startAgain, supervision, hooks, stopping: signal },
  });
  return {
    url,
    get pid() {
      return postgres.pid;
    },
    async untilUp(waiter) {
      while (!isUp && !waiter.aborted) await supervision.time.pause(UP_POLL_MS, waiter);
    },
    async stop() {
      stopping.abort();
      await postgres.stop();
      await kept;
      log.close();
    },
  };
}
