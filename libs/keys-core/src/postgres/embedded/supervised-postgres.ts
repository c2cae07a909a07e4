import {
  deathOf,
  failedStart,
  keepRunning,
  type Running,
  type RunningHooks,
  type Start,
  type Supervision,
} from '@leasehold/service-kit/supervision';
import { startEmbeddedPostgres, type EmbeddedPostgres } from './embedded-postgres.ts';

/** How many severe lines of its log are kept to explain its death. */
const LINES_KEPT = 20;
/** Severe lines: those of PostgreSQL's levels above a warning. */
const SEVERE = /\b(?:ERROR|FATAL|PANIC): /u;
const UP_POLL_MS = 100;

export interface SupervisedPostgresOptions {
  /** The folder of the cluster, see {@link startEmbeddedPostgres}. */
  readonly dataDir: string;
  /** Gets what PostgreSQL writes to its log, line by line. */
  readonly log: (line: string) => void;
  readonly hooks: RunningHooks;
  readonly supervision: Supervision;
}

/**
 * Starts PostgreSQL and keeps it running: when it dies it is started again on the same data and the
 * same port, so that clients can simply reconnect.
 * @throws {LeaseError} `config.invalid` when it cannot be started; `store.unavailable` while its disk
 * is full.
 */
export async function supervisePostgres(options: SupervisedPostgresOptions) {
  const { dataDir, log, hooks, supervision } = options;
  const stopping = new AbortController();
  const signal = AbortSignal.any([stopping.signal, supervision.stop]);
  let severeLines: string[] = [];
  let isUp = false;

  async function start(port?: number): Promise<EmbeddedPostgres> {
    severeLines = [];
    const started = await startEmbeddedPostgres({
      ...{ dataDir, port, signal },
      log(line) {
        log(line);
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

  let postgres = await start();
  const kept = keepRunning(running(), {
    ...{ name: 'PostgreSQL', start: startAgain, supervision, hooks, stopping: stopping.signal },
  });
  return {
    /** The connection string of one of its databases; the same after each restart. */
    url: (database: string): string => postgres.url(database),
    port: postgres.port,
    lostPort: postgres.lostPort,
    /** Of the process that runs now, or ran last. */
    get pid() {
      return postgres.pid;
    },
    /** Fulfilled when it runs, or the signal aborts. */
    async untilUp(waiter: AbortSignal): Promise<void> {
      while (!isUp && !waiter.aborted) await supervision.time.pause(UP_POLL_MS, waiter);
    },
    /** Ends it, also while it is being started again. */
    async stop(): Promise<void> {
      stopping.abort();
      await postgres.stop();
      await kept;
    },
  };
}
