/**
 * A real controller process on a database of the test's own, and real drone processes: what ships,
 * as it ships, with the `fast` ladder.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createControllerClient, type ControllerClient } from '@leasehold/client';
import { KEY_LADDERS, type Ladder } from '@leasehold/keys-core';
import { bootstrapCredentials, openStore, type Credentials } from '@leasehold/keys-core/store';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { createTestDatabase, type TestDatabase } from '@leasehold/testing';
import { readWardenRecord } from '../warden/socket-path.ts';
import { until } from './wait.ts';

const ROOT = path.resolve(import.meta.dirname, '../../../..');
const CONTROLLER = path.join(ROOT, 'apps/controller/dist/main.mjs');
const DRONE = path.join(ROOT, 'apps/drone/dist/main.mjs');
export const DRONE_ID = 'drone-1';

/** A process of ours with its log in a file. */
export interface Started {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly hasEnded: () => boolean;
}

export interface Fleet extends AsyncDisposable {
  readonly folder: string;
  readonly credentials: Credentials;
  readonly controllerUrl: string;
  readonly controller: Started;
  readonly client: ControllerClient;
  /** What every backend wrote: see {@link witnessProgram}. */
  witness(): WitnessLine[];
  startController(): Promise<void>;
  startDrone(options?: DroneOptions): Started;
  /** The warden of the drone's state folder. */
  wardenPid(): number;
}

export interface DroneOptions {
  readonly programs?: Record<string, unknown>;
  readonly controllerUrl?: string;
  readonly capacity?: number;
  /** What is run instead of the drone's own entry. */
  readonly entry?: readonly string[];
}

/** One line of a backend's own account of itself. Instants are readings of the boot clock. */
export interface WitnessLine {
  readonly kind: 'start' | 'beat' | 'stop';
  readonly backendId: string;
  readonly fencingToken: string;
  readonly atMs: number;
}

const BEAT_SECONDS = '0.05';

/** A program that writes when it starts, that it lives, and that it was asked to stop. */
export function witnessProgram(folder: string): Record<string, unknown> {
  const say = (kind: string): string =>
    `read -r now _ < /proc/uptime; echo "${kind} $LEASEHOLD_BACKEND_ID $LEASEHOLD_FENCING_TOKEN $now" >> ${folder}/witness`;
  return {
    command: '/bin/sh',
    args: [
      '-c',
      `${say('start')}; trap '${say('stop')}; exit 0' TERM; while :; do ${say('beat')}; sleep ${BEAT_SECONDS}; done`,
    ],
    readiness: { type: 'none' },
  };
}

/** A ladder with room for a restart on a busy machine, for tests in which a key must be kept. */
export const PATIENT_LADDER = {
  renewAfterMs: 1_500,
  softAfterMs: 8_000,
  hardAfterMs: 9_000,
  ttlMs: 11_000,
};

export async function startFleet(ladder: Ladder = KEY_LADDERS.fast): Promise<Fleet> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-fleet-'));
  const database = await createTestDatabase();
  const credentials = await credentialsOf(database, folder);
  const started: Started[] = [];
  const fleet = { url: '', port: '0' };
  let controller: Started | undefined;
  let client: ControllerClient | undefined;

  const startController = async (): Promise<void> => {
    const environment = {
      ...{ PATH: process.env['PATH'], DATABASE_URL: database.url, LEASEHOLD_HEARTBEAT_MS: '700' },
      ...ladderVariables(ladder),
      ...{ LEASEHOLD_HOME: folder, LEASEHOLD_PORT: fleet.port },
    };
    const log = openSync(path.join(folder, 'controller.log'), 'a');
    const child = spawn(process.execPath, [CONTROLLER], {
      env: environment,
      stdio: ['ignore', log, log, 'ipc'],
    });
    controller = note(child, started);
    fleet.url = await new Promise<string>((resolve, reject) => {
      child.on('message', (message) => {
        resolve((message as { url: string }).url);
      });
      child.once('exit', () => {
        reject(
          new Error(
            `the controller ended: ${readFileSync(path.join(folder, 'controller.log'), 'utf8')}`,
          ),
        );
      });
    });
    fleet.port = new URL(fleet.url).port;
  };

  await startController();
  return {
    folder,
    credentials,
    get controllerUrl() {
      return fleet.url;
    },
    get controller() {
      if (controller === undefined) throw new Error('no controller was started');
      return controller;
    },
    get client() {
      client ??= createControllerClient({
        url: fleet.url,
        token: credentials.admin,
        transport: 'http',
      });
      return client;
    },
    witness: () => readWitness(path.join(folder, 'witness')),
    startController,
    startDrone: (options = {}) =>
      note(
        spawnDrone(folder, {
          ...options,
          token: credentials.drone,
          url: options.controllerUrl ?? fleet.url,
        }),
        started,
      ),
    wardenPid: () => readWardenRecord(path.join(folder, 'drone'))?.pid ?? 0,
    [Symbol.asyncDispose]: async () => {
      await client?.close();
      for (const { child } of started) child.kill('SIGCONT');
      for (const { child } of started.toReversed()) child.kill('SIGKILL');
      await until('every process ended', () => started.every(({ hasEnded }) => hasEnded()));
      const wardenPid = readWardenRecord(path.join(folder, 'drone'))?.pid;
      if (wardenPid !== undefined) endWarden(wardenPid);
      await database.drop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function ladderVariables(ladder: Ladder): Record<string, string> {
  return {
    LEASEHOLD_KEY_RENEW_MS: String(ladder.renewAfterMs),
    LEASEHOLD_KEY_SOFT_MS: String(ladder.softAfterMs),
    LEASEHOLD_KEY_HARD_MS: String(ladder.hardAfterMs),
    LEASEHOLD_KEY_EXPIRE_MS: String(ladder.ttlMs),
  };
}

/** Ends the warden that a test left behind, and so its backends: only if it is still that process. */
function endWarden(pid: number): void {
  const commandLine = `/proc/${String(pid)}/cmdline`;
  if (existsSync(commandLine) && readFileSync(commandLine, 'utf8').includes('\0warden\0')) {
    process.kill(pid, 'SIGKILL');
  }
}

function spawnDrone(
  folder: string,
  options: DroneOptions & { token: string; url: string },
): ChildProcess {
  const file = path.join(folder, 'drone.json');
  const programs = options.programs ?? { witness: witnessProgram(folder) };
  mkdirSync(path.join(folder, 'drone'), { recursive: true });
  writeFileSync(
    file,
    JSON.stringify({
      droneId: DRONE_ID,
      stateDir: path.join(folder, 'drone'),
      capacity: options.capacity ?? 100,
      programs,
    }),
  );
  const log = openSync(path.join(folder, 'drone.log'), 'a');
  const [program = process.execPath, ...args] = options.entry ?? [process.execPath, DRONE];
  return spawn(program, [...args, 'agent', '--config', file], {
    env: {
      PATH: process.env['PATH'],
      LEASEHOLD_URL: options.url,
      LEASEHOLD_TOKEN: options.token,
      LEASEHOLD_LOG_LEVEL: 'debug',
    },
    stdio: ['ignore', log, log],
  });
}

async function credentialsOf(database: TestDatabase, folder: string): Promise<Credentials> {
  const store = openStore({
    databaseUrl: database.url,
    datacenter: 'local',
    clock: createBootClock(),
    ids: systemIds(),
  });
  try {
    return await bootstrapCredentials(store, path.join(folder, 'credentials.json'), {
      droneIds: [DRONE_ID],
    });
  } finally {
    await store.close();
  }
}

function note(child: ChildProcess, started: Started[]): Started {
  const process = {
    child,
    pid: child.pid ?? 0,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
  };
  started.push(process);
  return process;
}

function readWitness(file: string): WitnessLine[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [kind = '', backendId = '', fencingToken = '', seconds = ''] = line.split(' ');
      return {
        kind: kind as WitnessLine['kind'],
        backendId,
        fencingToken,
        atMs: Number(seconds) * 1_000,
      };
    });
}
