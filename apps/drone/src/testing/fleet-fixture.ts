/**
 * A real controller process on a database of the test's own, and real drone processes: what ships,
 * as it ships, by default with the `fast` ladder.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createControllerClient, type ControllerClient } from '@leasehold/client';
import { KEY_LADDERS, type Ladder } from '@leasehold/keys-core';
import { bootstrapCredentials, type Credentials } from '@leasehold/keys-core/access';
import { openStore } from '@leasehold/keys-core/postgres';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { createTestDatabase, type TestDatabase } from '@leasehold/testing';
import { readWardenRecord } from '../warden/link/socket-path.ts';
import { copyDroneTo } from './tested-drone.ts';
import { until } from './wait.ts';
import { ORDINARY_USER } from './warden-fixture.ts';

const ROOT = path.resolve(import.meta.dirname, '../../../..');
const CONTROLLER = path.join(ROOT, 'apps/controller/dist/main.mjs');
export const DRONE_ID = 'drone-1';
const PORTS_PER_WORKER = 1_000;
const PORT_FIRST = 22_000 + (Number(process.env['VITEST_POOL_ID'] ?? '0') % 8) * PORTS_PER_WORKER;
/** Of this worker alone: a program that does not listen must not be mistaken for one of another fleet. */
const PORTS = { from: PORT_FIRST, to: PORT_FIRST + PORTS_PER_WORKER - 1 };
/** The folder that backends write to. */
export const OPEN = 'open';

/** A process of ours with its log in a file. */
export interface Started {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly hasEnded: () => boolean;
}

export interface Fleet extends AsyncDisposable {
  readonly folder: string;
  /** Leasehold's home: the credentials are there. */
  readonly home: string;
  readonly stateDir: string;
  /** The drone's configuration, and its own program. */
  readonly configFile: string;
  readonly droneFile: string;
  readonly credentials: Credentials;
  readonly controllerUrl: string;
  readonly controller: Started;
  readonly client: ControllerClient;
  /** What its drones and their wardens have logged. */
  log(): string;
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
  /** Another token than the drone's own. */
  readonly token?: string;
  readonly capacity?: number;
  /** Further fields of its configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Variables of its environment. */
  readonly env?: Readonly<Record<string, string>>;
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
    `read -r now _ < /proc/uptime; echo "${kind} $LEASEHOLD_BACKEND_ID $LEASEHOLD_FENCING_TOKEN $now" >> ${folder}/${OPEN}/witness`;
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

export interface FleetOptions {
  readonly ladder?: Ladder;
  /** Whether the drone runs as a user without privileges, where the tests run as root. */
  readonly isOrdinaryUser?: boolean;
}

export async function startFleet(options: FleetOptions = {}): Promise<Fleet> {
  const { ladder = KEY_LADDERS.fast } = options;
  const user = options.isOrdinaryUser === true && process.getuid?.() === 0 ? ORDINARY_USER : {};
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-fleet-'));
  const home = path.join(folder, 'home');
  const stateDir = path.join(home, 'drone');
  const database = await createTestDatabase();
  makeFolders(folder, { home, stateDir });
  const credentials = await credentialsOf(database, home);
  const droneWords = copyDroneTo(folder);
  const configFile = path.join(folder, 'drone.json');
  const started: Started[] = [];
  const fleet = { url: '', port: '0' };
  let controller: Started | undefined;
  let client: ControllerClient | undefined;

  const startController = async (): Promise<void> => {
    const environment = {
      ...{ PATH: process.env['PATH'], DATABASE_URL: database.url, LEASEHOLD_HEARTBEAT_MS: '700' },
      ...ladderVariables(ladder),
      ...{ LEASEHOLD_HOME: home, LEASEHOLD_PORT: fleet.port },
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
    ...{ folder, home, stateDir, configFile, droneFile: droneWords.at(-1) ?? '' },
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
    log: () =>
      [path.join(folder, 'drone.log'), path.join(stateDir, 'warden.log')]
        .filter((file) => existsSync(file))
        .map((file) => readFileSync(file, 'utf8'))
        .join(''),
    witness: () => readWitness(path.join(folder, OPEN, 'witness')),
    startController,
    startDrone: (options = {}) => {
      writeFileSync(
        configFile,
        JSON.stringify({
          droneId: DRONE_ID,
          stateDir,
          capacity: options.capacity ?? 100,
          ports: PORTS,
          programs: options.programs ?? { witness: witnessProgram(folder) },
          ...options.config,
        }),
      );
      if (user === ORDINARY_USER) chownAll(folder, ORDINARY_USER);
      const log = openSync(path.join(folder, 'drone.log'), 'a');
      const [program, ...args] = [...droneWords, 'agent', '--config', configFile];
      const child = spawn(program, args, {
        env: {
          PATH: process.env['PATH'],
          LEASEHOLD_HOME: home,
          LEASEHOLD_URL: options.controllerUrl ?? fleet.url,
          LEASEHOLD_TOKEN: options.token ?? credentials.drone,
          LEASEHOLD_LOG_LEVEL: 'debug',
          ...options.env,
        },
        stdio: ['ignore', log, log],
        ...user,
      });
      return note(child, started);
    },
    wardenPid: () => readWardenRecord(stateDir)?.pid ?? 0,
    [Symbol.asyncDispose]: async () => {
      await client?.close();
      for (const { child } of started) child.kill('SIGCONT');
      for (const { child } of started.toReversed()) child.kill('SIGKILL');
      await until('every process ended', () => started.every(({ hasEnded }) => hasEnded()));
      const wardenPid = readWardenRecord(stateDir)?.pid;
      if (wardenPid !== undefined) endWarden(wardenPid);
      await database.drop();
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Programs run as users of their own: there is one folder that all of them may write to. */
function makeFolders(folder: string, of: { home: string; stateDir: string }): void {
  chmodSync(folder, 0o755);
  mkdirSync(of.stateDir, { recursive: true, mode: 0o700 });
  mkdirSync(path.join(folder, OPEN));
  chmodSync(path.join(folder, OPEN), 0o777);
}

function chownAll(folder: string, { uid, gid }: typeof ORDINARY_USER): void {
  chownSync(folder, uid, gid);
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    chownSync(path.join(folder, name), uid, gid);
  }
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

async function credentialsOf(database: TestDatabase, home: string): Promise<Credentials> {
  const store = openStore({
    databaseUrl: database.url,
    datacenter: 'local',
    clock: createBootClock(),
    ids: systemIds(),
  });
  try {
    return await bootstrapCredentials(store, path.join(home, 'credentials.json'), {
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
