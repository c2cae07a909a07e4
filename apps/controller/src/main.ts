/**
 * The controller's process: configuration, database, server, until a signal ends it or the process
 * that started it is gone.
 */
import { LeaseError } from '@leasehold/keys-core';
import { createBootClock, createLogger, createShutdown, systemIds } from '@leasehold/service-kit';
import { startController } from './compose.ts';
import { processEnvironment, readConfig } from './config.ts';
import { prepareDatabase } from './database.ts';

/** How long everything may take to end, before the process ends without. */
const STOP_MS_MAX = 10_000;

async function main(): Promise<void> {
  const config = readConfig(processEnvironment());
  const log = createLogger({ name: 'controller', level: config.logLevel });
  const shutdown = createShutdown({
    timeLimitMs: STOP_MS_MAX,
    onBegin: (reason) => {
      log.info({ reason }, 'stopping');
    },
    onProblem: (step, error) => {
      log.error({ step, err: error }, 'stopping');
    },
  });
  shutdown.listen();
  try {
    const database = await prepareDatabase(config, log);
    shutdown.add('database', () => database.stop());
    const controller = await startController(
      { ...config, databaseUrl: database.url },
      { clock: createBootClock(), ids: systemIds(), log },
    );
    shutdown.add('controller', () => controller.close());
    if (!shutdown.begun) process.send?.({ type: 'ready', url: controller.url });
  } catch (error) {
    await shutdown.run('the start failed');
    throw error;
  }
}

main().catch((error: unknown) => {
  // Configuration problems are told plainly: whoever reads this started it by hand or from a unit.
  const text =
    error instanceof LeaseError ? error.message : String((error as Error).stack ?? error);
  process.stderr.write(`${text}\n`);
  process.exit(1);
});
