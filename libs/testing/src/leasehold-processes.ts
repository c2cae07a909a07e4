import { copyFileSync, existsSync } from 'node:fs';
import path from 'node:path';
import packageJson from '../package.json' with { type: 'json' };
import { startProcess, type TestProcess } from './test-process.ts';

const APPS = path.join(import.meta.dirname, '..', '..', '..', 'apps');

/** The program of an app as it ships. @throws when it was not built. */
export function bundleOf(app: 'controller' | 'console' | 'drone' | 'gateway' | 'cli'): string {
  const file = path.join(APPS, app, 'dist', 'main.mjs');
  if (!existsSync(file)) throw new Error(`${file} is missing: run \`npm run build\` first`);
  return file;
}

/** Every test of a drone runs on the executable too, in `npm run test:all`. */
const isOnExecutable = process.env['LEASEHOLD_TEST_DRONE'] === 'executable';

/**
 * Copies a drone as it ships: a file of Node, or the executable that `npm run build:drone` makes for this machine.
 * @returns the copy. @throws when it was not built.
 */
export function copyDrone(folder: string, isExecutable: boolean = isOnExecutable): string {
  const copy = path.join(folder, isExecutable ? 'leasehold-drone' : 'drone.mjs');
  copyFileSync(isExecutable ? executableOfDrone() : bundleOf('drone'), copy);
  return copy;
}

function executableOfDrone(): string {
  const name = `leasehold-drone-${packageJson.version}-${process.platform}-${process.arch}`;
  const file = path.join(APPS, '..', 'out', 'drone', name);
  if (!existsSync(file)) throw new Error(`${file} is missing: run \`npm run build:drone\` first`);
  return file;
}

/** How to start a controller as it ships, with the `fast` ladder. */
export interface ControllerProcessOptions {
  readonly databaseUrl: string;
  /** A folder of the test's own. */
  readonly home: string;
  /** By default any free one. */
  readonly port?: number | undefined;
  /** Run in place of the app's own file, which it imports. */
  readonly entry?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly readyMsMax?: number | undefined;
  /** Called with each part that it prints, also before it is ready. */
  readonly onPrinted?: ((text: string) => void) | undefined;
}

/** A controller that answers at `url`. */
export interface ControllerProcess extends TestProcess {
  readonly url: string;
  readonly port: number;
}

/** Starts a controller as it ships. */
export async function startControllerProcess(
  options: ControllerProcessOptions,
): Promise<ControllerProcess> {
  const started = await startProcess({
    name: 'controller',
    args: [options.entry ?? bundleOf('controller')],
    env: {
      DATABASE_URL: options.databaseUrl,
      LEASEHOLD_HOME: options.home,
      LEASEHOLD_PORT: String(options.port ?? 0),
      LEASEHOLD_PRESET: 'fast',
      ...options.env,
    },
    readyMsMax: options.readyMsMax,
    onPrinted: options.onPrinted,
  });
  const url = String(started.ready['url']);
  return { ...started, url, port: Number(new URL(url).port) };
}
