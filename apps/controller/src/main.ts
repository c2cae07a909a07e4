/**
 * The controller's process: configuration, database, server, until a signal ends it or the process
 * that started it is gone.
 */
import { once } from 'node:events';
import { isOutOfConnections, onceThereIsSpace } from '@leasehold/keys-core/postgres';
import {
  createBootClock,
  createLogger,
  createShutdown,
  endProcessAfter,
  FAILED_START_MS_MAX,
  startMemoryRelief,
  systemIds,
  type Logger,
} from '@leasehold/service-kit';
import { startTracing } from '@leasehold/service-kit/start-tracing';
import { systemSupervision, type Supervision } from '@leasehold/service-kit/supervision';
import packageJson from '../package.json' with { type: 'json' };
import { startController } from './compose.ts';
import { processEnvironment, readConfig } from './config.ts';
import { prepareDatabase } from './database.ts';

/** How long everything may take to end before the process ends without waiting for it. */
const STOP_MS_MAX = 10_000;

async function main(): Promise<undefined> {
  const environment = processEnvironment();
  const config = readConfig(environment);
  const log = createLogger({ name: 'controller', level: config.logLevel });
  const { version } = packageJson;
  const tracing = await startTracing({ name: 'leasehold-controller', version, environment, log });
  const shutdown = createShutdown({ timeLimitMs: STOP_MS_MAX, log });
  shutdown.listen();
  shutdown.add('traces', () => tracing.stop());
  startMemoryRelief();
  let hasStarted = false;
  try {
    const supervision = systemSupervision(shutdown.signal);
    const whenSpace = spaceWait(supervision, log);
    const database = await whenSpace(() => prepareDatabase(config, { log, supervision }));
    shutdown.add('database', () => database.stop());
    const controller = await whenSpace(() =>
      startController(
        { ...config, databaseUrl: database.url },
        { clock: createBootClock(), ids: systemIds(), log },
      ),
    );
    shutdown.add('controller', () => controller.close());
    hasStarted = true;
    if (!shutdown.begun) process.send?.({ type: 'ready', url: controller.url });
    await Promise.race([database.failed, controller.failed, aborted(shutdown.signal)]);
  } catch (error) {
    await shutdown.run('a failure', hasStarted ? STOP_MS_MAX : FAILED_START_MS_MAX);
    throw error;
  }
}

/** Repeats something until neither a full disk nor a lack of connections prevents it, and logs that it waits. */
function spaceWait(
  { time, stop }: Supervision,
  log: Logger,
): <Result>(work: () => Promise<Result>) => Promise<Result> {
  return (work) =>
    onceThereIsSpace(work, {
      async pause(ms) {
        await time.pause(ms, stop);
        stop.throwIfAborted();
      },
      onFull: (error) =>
        log.error(
          { err: error },
          isOutOfConnections(error)
            ? 'others have all connections of the database: waiting for one'
            : 'a disk is full: waiting for space',
        ),
    });
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

void endProcessAfter(main());
