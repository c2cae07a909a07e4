/**
 * The console's process: a small server around the pages, which passes requests for the controller on
 * to it. It ends on a signal, or when the process that started it is gone.
 */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  createLogger,
  createShutdown,
  endProcessAfter,
  FAILED_START_MS_MAX,
} from '@leasehold/service-kit';
import { processEnvironment, readConfig, setProductionMode } from './config.ts';
import { startConsoleServer } from './console-server.ts';
import { openDocuments } from './documents.ts';
import { builtConfigOf, preparePages } from './pages.ts';

/** How long a clean end may take before the process exits without it. */
const STOP_MS_MAX = 10_000;

/** The folder of the console, from its built file `dist/main.mjs`. */
const FOLDER = fileURLToPath(new URL('..', import.meta.url));

async function main(): Promise<undefined> {
  const config = readConfig(processEnvironment());
  const log = createLogger({ name: 'console', level: config.logLevel });
  const shutdown = createShutdown({ timeLimitMs: STOP_MS_MAX, log });
  shutdown.listen();
  try {
    setProductionMode(builtConfigOf(FOLDER));
    const pages = await preparePages(FOLDER);
    shutdown.add('pages', () => pages.close());
    const documents = openDocuments(path.join(FOLDER, '..', 'docs', 'dist', 'site'));
    const server = await startConsoleServer({ config, log, pages: pages.handle, documents });
    shutdown.add('server', () => server.close());
    const { url } = server;
    log.info(
      {
        url,
        origin: config.origin,
        controllers: config.controllerUrls.map((each) => new URL(each).origin),
      },
      'console answers',
    );
    if (!shutdown.begun) process.send?.({ type: 'ready', url });
  } catch (error) {
    await shutdown.run('the start failed', FAILED_START_MS_MAX);
    throw error;
  }
}

void endProcessAfter(main());
