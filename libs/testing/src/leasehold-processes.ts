import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { startProcess, type TestProcess } from './test-process.ts';

const APPS = path.join(import.meta.dirname, '..', '..', '..', 'apps');

/** The program of an app as it ships. @throws when it was not built. */
export function bundleOf(app: 'controller' | 'console' | 'drone' | 'cli'): string {
  const file = path.join(APPS, app, 'dist', 'main.mjs');
  if (!existsSync(file)) throw new Error(`${file} is missing: run \`npm run build\` first`);
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
  });
  const url = String(started.ready['url']);
  return { ...started, url, port: Number(new URL(url).port) };
}

/** How to start a drone as it ships. */
export interface DroneProcessOptions {
  readonly droneId: string;
  /** A folder of the test's own; the same one again is the same drone after a restart. */
  readonly home: string;
  readonly controllerUrls: readonly string[];
  readonly token: string;
  /** As in a drone's config file. */
  readonly programs: Readonly<Record<string, unknown>>;
  /** Where its backends listen; drones that start at the same time need ranges of their own. */
  readonly ports?: { readonly from: number; readonly to: number } | undefined;
  /** Run in place of the app's own file, which it imports, as agent and as warden. */
  readonly entry?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Goes before the command line, as `faketime` does. */
  readonly prefix?: readonly string[] | undefined;
}

/** A drone's agent; its warden is a process of its own. */
export interface DroneProcess extends TestProcess {
  readonly stateDir: string;
  /** The process id of the warden, by its own record; undefined when none exists. */
  wardenPid(): Promise<number | undefined>;
}

/** Starts a drone's agent, which starts its warden or takes over a running one. */
export async function startDroneProcess(options: DroneProcessOptions): Promise<DroneProcess> {
  const { droneId, home, programs, controllerUrls, ports } = options;
  const stateDir = path.join(home, droneId);
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  const configFile = path.join(home, `${droneId}.json`);
  await writeFile(
    configFile,
    JSON.stringify({ droneId, stateDir, controllerUrls, programs, ports }),
  );
  const entry = options.entry ?? bundleOf('drone');
  const words = [process.execPath, entry, 'agent', '--config', configFile];
  const [command, ...args] = [...(options.prefix ?? []), ...words];
  const started = await startProcess({
    name: `drone ${droneId}`,
    command,
    args,
    env: { LEASEHOLD_HOME: home, LEASEHOLD_TOKEN: options.token, ...options.env },
  });
  return { ...started, stateDir, wardenPid: () => wardenPidIn(stateDir) };
}

async function wardenPidIn(stateDir: string): Promise<number | undefined> {
  const text = await readFile(path.join(stateDir, 'warden.json'), 'utf8').catch(() => '{}');
  const { pid } = JSON.parse(text) as { pid?: number };
  return pid;
}
