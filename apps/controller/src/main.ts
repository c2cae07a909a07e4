/**
 * The controller's process: configuration, database, server, until a signal ends it or the process
 * that started it is gone.
 */
import { LeaseError } from '@leasehold/keys-core';
import { pino, type Logger } from 'pino';
import { startController, type Controller } from './compose.ts';
import { processEnvironment, readConfig } from './config.ts';
import { prepareDatabase, type Database } from './database.ts';
import { machineClock, machineIds } from './machine.ts';

/** How long everything may take to end, before the process ends without. */
const STOP_MS_MAX = 10_000;

async function main(): Promise<void> {
  const config = readConfig(processEnvironment());
  const log = pino({ level: config.logLevel, name: 'controller' });
  const stopping = stopSignal(log);
  const database = await prepareDatabase(config, log);
  let controller: Controller;
  try {
    controller = await startController(
      { ...config, databaseUrl: database.url },
      { clock: machineClock(), ids: machineIds, log },
    );
  } catch (error) {
    await database.stop();
    throw error;
  }
  process.send?.({ type: 'ready', url: controller.url });
  await stopping;
  await stop({ controller, database, log });
}

/** Fulfilled at the first signal, or when the parent that holds our IPC channel is gone. */
function stopSignal(log: Logger): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        log.info({ signal }, 'stopping');
        resolve();
      });
    }
    process.once('disconnect', resolve);
  });
}

async function stop(running: { controller: Controller; database: Database; log: Logger }): Promise<void> {
  const timer = setTimeout(() => {
    running.log.error('stopping took too long');
    process.exit(1);
  }, STOP_MS_MAX);
  await running.controller.close();
  await running.database.stop();
  clearTimeout(timer);
  running.log.info('stopped');
  if (process.connected) process.disconnect();
}

main().catch((error: unknown) => {
  const message = error instanceof LeaseError ? error.message : String((error as Error).stack ?? error);
  process.stderr.write(`${message}\n`);
  process.exit(1);
});
