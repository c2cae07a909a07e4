/** A whole Leasehold to attack: a database, a controller, a drone with backends, and healthy callers. */
import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import {
  copyTemplate,
  startControllerProcess,
  startDroneProcess,
  waitUntil,
  type ControllerProcess,
  type DroneProcess,
} from '@leasehold/testing/stack';
import { startHealthy, type Healthy } from './healthy.ts';

const DRONE_ID = 'attacked';
const PORTS = { from: 18_000, to: 18_099 };
const READY_MS_MAX = 30_000;
const KB_PER_MB = 1_024;

export interface Stage extends AsyncDisposable {
  readonly url: string;
  /** As an administrator. */
  readonly api: ControllerApi;
  /** Of attackers: a viewer, and a service. */
  readonly tokens: { readonly viewer: string; readonly attacker: string };
  readonly healthy: Healthy;
  readonly controller: ControllerProcess;
  readonly drone: DroneProcess;
  /** What the programs of backends may read. */
  readonly openFolder: string;
  /** The home of the controller and the drone. */
  readonly home: string;
  /** Resident memory of the controller, in MB. */
  memoryMb(): Promise<number>;
  /** What the controller has logged so far. */
  log(): string;
}

/** Starts everything on a new database of the cluster, under the `fast` ladder. */
export async function openStage(clusterUrl: string): Promise<Stage> {
  const steps: Step[] = [];
  const close = async (): Promise<void> => {
    for (const step of steps.splice(0).reverse()) await step();
  };
  try {
    return {
      ...(await open(clusterUrl, (step) => steps.push(step))),
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

type Step = () => unknown;

async function open(
  clusterUrl: string,
  onClose: (step: Step) => unknown,
): Promise<Omit<Stage, typeof Symbol.asyncDispose>> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-attack-'));
  onClose(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  const database = await copyTemplate(clusterUrl, 'attack');
  onClose(() => database.drop());
  const home = path.join(folder, 'home');
  const openFolder = path.join(folder, 'programs');
  await mkdir(home, { mode: 0o700 });
  await mkdir(openFolder);
  await chmod(folder, 0o755);

  const controller = await startControllerProcess({ databaseUrl: database.url, home });
  onClose(() => controller.kill());
  const { url } = controller;
  const credentials = await readFile(path.join(home, 'credentials.json'), 'utf8');
  const { admin } = JSON.parse(credentials) as { admin: string };
  const { api } = createControllerClient({ url, token: admin, transport: 'http' });
  const tokenOf = async (name: string, role: 'viewer' | 'client' | 'drone'): Promise<string> => {
    const droneId = role === 'drone' ? { droneId: DRONE_ID } : {};
    return (await api.tokens.create.mutate({ name, role, ...droneId })).secret;
  };

  const drone = await startDrone(url, { home, openFolder, token: await tokenOf('drone', 'drone') });
  onClose(() => drone.stop());
  await waitUntil(
    async () => (await api.drones.get.query({ droneId: DRONE_ID })).status === 'ready',
    { what: 'readiness of the drone', timeoutMs: READY_MS_MAX },
  );
  const token = await tokenOf('healthy', 'client');
  const healthy = await startHealthy({ url, token, program: 'server' });
  onClose(() => healthy[Symbol.asyncDispose]());
  return {
    url,
    api,
    tokens: {
      viewer: await tokenOf('viewer', 'viewer'),
      attacker: await tokenOf('attacker', 'client'),
    },
    healthy,
    controller,
    drone,
    openFolder,
    home,
    memoryMb: () => memoryMbOf(controller.pid),
    log: () => controller.log(),
  };
}

async function startDrone(
  url: string,
  of: { readonly home: string; readonly openFolder: string; readonly token: string },
): Promise<DroneProcess> {
  const program = async (name: string, from: string): Promise<string> => {
    const file = path.join(of.openFolder, name);
    await copyFile(from, file);
    return file;
  };
  const here = import.meta.dirname;
  const hostile = path.join(here, '..', '..', 'apps', 'drone', 'src', 'testing', 'hostile.mjs');
  return startDroneProcess({
    droneId: DRONE_ID,
    home: of.home,
    controllerUrls: [url],
    token: of.token,
    ports: PORTS,
    programs: {
      server: {
        command: process.execPath,
        args: [await program('server.mjs', path.join(here, 'server.mjs'))],
      },
      hostile: {
        command: process.execPath,
        args: [await program('hostile.mjs', hostile), path.join(of.openFolder, 'targets.json')],
        readiness: { type: 'none' },
      },
    },
  });
}

async function memoryMbOf(pid: number): Promise<number> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'rss=', '-p', String(pid)]);
  return Math.round(Number(stdout.trim()) / KB_PER_MB);
}
