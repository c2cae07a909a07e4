/**
 * The console's process: a small server around the pages, which passes requests for the controller on
 * to it. It ends on a signal, or when the process that started it is gone.
 */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { format } from 'node:util';
import {
  CONSOLE_SECRET,
  createLogger,
  createShutdown,
  endProcessAfter,
  FAILED_START_MS_MAX,
  type Logger,
  readHomeSecret,
} from '@leasehold/service-kit';
import { type ConsoleConfig, processEnvironment, readConfig, setProductionMode } from './config.ts';
import { builtConfigOf, preparePages, startConsoleServer } from './console-server.ts';
import { openDocuments } from './documents.ts';
import { openReadyFiles } from './ready-files.ts';

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
    logConsoleCalls(log);
    const pages = await preparePages(FOLDER);
    shutdown.add('pages', () => pages.close());
    const documents = openDocuments(path.join(FOLDER, '..', 'docs', 'dist', 'site'));
    const consoleSecret = await secretOf(config, log);
    const server = await startConsoleServer({
      config: { ...config, consoleSecret },
      log,
      readyFiles: openReadyFiles(FOLDER),
      pages: pages.handle,
      documents,
    });
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

/** Next and React write to the console as it comes, with what a visitor sent: it becomes lines of the log. */
function logConsoleCalls(log: Logger): void {
  const levels = {
    error: 'warn',
    warn: 'warn',
    log: 'debug',
    info: 'debug',
    debug: 'debug',
  } as const;
  for (const [name, level] of Object.entries(levels)) {
    Object.assign(console, {
      [name]: (...said: unknown[]) => log[level]({ part: 'pages' }, format(...said)),
    });
  }
}

/** Without a home that it can use, a console runs all the same: one that is not on a controller's machine has none. */
async function secretOf(
  { consoleSecret: configured, home }: ConsoleConfig,
  log: Logger,
): Promise<string | null> {
  try {
    return await readHomeSecret(CONSOLE_SECRET, { configured, home });
  } catch (error) {
    log.warn(
      { err: error },
      'controllers take this console for the caller of all that it passes on',
    );
    return null;
  }
}

void endProcessAfter(main());
