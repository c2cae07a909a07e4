/** The processes of a run: controllers, drones and workers, each behind lines of its own. */
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import {
  startControllerProcess,
  startProcess,
  waitUntil,
  type ControllerProcess,
  type TestProcess,
} from '@leasehold/testing/stack';
import type { HolderClock } from '../../leases/stage/program.ts';
import { skewedEntry, type ClockFault } from '../../stage/skewed-clocks.ts';
import { StageDrone } from '../../stage/stage-drone.ts';
import { DiaryReader } from './diary.ts';
import type { Network } from './network.ts';
import { PROGRAM, type WorkerSettings } from './workers/settings.ts';

/** Where the bundled programs are. */
export const PROGRAMS = import.meta.dirname;

const HOUR_MS = 3_600_000;
/** F5 and F6: clocks that are wrong all the time. */
const CONTROLLER_CLOCKS: readonly (ClockFault | undefined)[] = [
  undefined,
  { wallAheadMs: -HOUR_MS, wallStepsBackEveryMs: 700 },
];
const DRONE_CLOCKS: readonly (ClockFault | undefined)[] = [
  undefined,
  { bootRate: 1.1, wallAheadMs: HOUR_MS },
  // Not a slow one: its leash reads the machine's own clock, and would end its warden sooner and sooner.
  { wallStepsBackEveryMs: 500 },
];
export const CONTROLLERS_COUNT = CONTROLLER_CLOCKS.length;
export const DRONES_COUNT = DRONE_CLOCKS.length;

const READY_MS_MAX = 120_000;
/** Apart from those of other tests, which may run beside a run. */
const PORT_FIRST = 27_500;
const PORTS_PER_DRONE = 40;
const PORT_GROUPS = 40;

export interface FleetOptions {
  readonly folder: string;
  readonly databaseUrl: string;
  /** What the last controller has in place of the database. */
  readonly poolerUrl: string | undefined;
  readonly network: Network;
  readonly seed: number;
}

export interface Worker {
  readonly role: WorkerSettings['role'];
  process: TestProcess;
}

export class Fleet {
  readonly controllers: ControllerProcess[] = [];
  readonly drones: StageDrone[] = [];
  readonly workers = new Map<string, Worker>();
  readonly diaries: DiaryReader[] = [];
  readonly #options: FleetOptions;
  readonly #portFirst: number;
  readonly #clocks = new Map<string, HolderClock>();
  #token = '';
  #startsCount = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
    const group = Math.floor(Math.random() * PORT_GROUPS);
    this.#portFirst = PORT_FIRST + group * DRONES_COUNT * PORTS_PER_DRONE;
  }

  get testimonyFile(): string {
    return path.join(this.#options.folder, 'testimony', 'lines.jsonl');
  }

  get token(): string {
    return this.#token;
  }

  /** Of all processes, as they are now. */
  get pids(): readonly number[] {
    return [
      ...this.controllers.map(({ pid }) => pid),
      ...this.drones.map(({ agent }) => agent.pid),
      ...[...this.workers.values()].map(({ process: one }) => one.pid),
    ];
  }

  /** A controller's API as an administrator, on a line that no fault reaches. */
  api(index: number): ControllerApi {
    const url = this.controllers[index]?.url ?? '';
    return createControllerClient({ url, token: this.#token, transport: 'http' }).api;
  }

  async startControllers(): Promise<void> {
    const { folder, network } = this.#options;
    for (const [index, clock] of CONTROLLER_CLOCKS.entries()) {
      const url = this.#databaseOf(index);
      url.port = String(await network.lay(`c${String(index)}`, 'database', Number(url.port)));
      const home = path.join(folder, `home-${String(index)}`);
      await mkdir(home, { recursive: true });
      const entry = await this.#entry('controller', clock);
      this.controllers.push(await startControllerProcess({ databaseUrl: url.href, home, entry }));
      if (index > 0) continue;
      const credentials = await readFile(path.join(home, 'credentials.json'), 'utf8');
      this.#token = (JSON.parse(credentials) as { admin: string }).admin;
    }
  }

  /** Starts a controller that was killed, at its address. */
  async restartController(index: number): Promise<void> {
    const { folder, network } = this.#options;
    const url = this.#databaseOf(index);
    url.port = String(network.lines(`c${String(index)}`)[0]?.port ?? 0);
    const home = path.join(folder, `home-${String(index)}`);
    const entry = await this.#entry('controller', CONTROLLER_CLOCKS[index]);
    const port = this.controllers[index]?.port;
    this.controllers[index] = await waitUntil(
      () => startControllerProcess({ databaseUrl: url.href, home, entry, port }),
      { what: `the start of controller ${String(index)}`, timeoutMs: READY_MS_MAX },
    );
  }

  #databaseOf(controller: number): URL {
    const { databaseUrl, poolerUrl } = this.#options;
    const isLast = controller === CONTROLLERS_COUNT - 1;
    return new URL((isLast ? poolerUrl : undefined) ?? databaseUrl);
  }

  async startDrones(): Promise<void> {
    await mkdir(path.dirname(this.testimonyFile));
    await writeFile(this.testimonyFile, '');
    // Programs run as users of their own, each of which writes there.
    await chmod(this.testimonyFile, 0o666);
    await Promise.all(DRONE_CLOCKS.map((clock, index) => this.#startDrone(index, clock)));
  }

  async #startDrone(index: number, clock: ClockFault | undefined): Promise<void> {
    const droneId = `d${String(index)}`;
    const { secret } = await this.api(0).tokens.create.mutate({
      ...{ name: droneId, role: 'drone', droneId },
    });
    const from = this.#portFirst + index * PORTS_PER_DRONE;
    const witness = path.join(PROGRAMS, 'witness.mjs');
    const program = {
      command: process.execPath,
      args: [witness, this.testimonyFile, 'stubborn'],
      readiness: { type: 'http', intervalMs: 50 },
    };
    this.drones[index] = await StageDrone.start({
      droneId,
      controllerUrls: await this.#urlsFor(droneId),
      token: secret,
      home: this.#options.folder,
      programs: { [PROGRAM]: program },
      ports: { from, to: from + PORTS_PER_DRONE - 1 },
      entry: await this.#entry('drone', clock),
      env: { LEASEHOLD_LOG_LEVEL: 'info' },
    });
    const isReady = async (): Promise<boolean> =>
      (await this.api(0).drones.get.query({ droneId })).status === 'ready';
    await waitUntil(isReady, { what: `readiness of ${droneId}`, timeoutMs: READY_MS_MAX });
  }

  /** Starts a worker, or one that was killed, with a diary of its own. */
  async startWorker(name: string, role: Worker['role'], clock?: HolderClock): Promise<void> {
    const { folder, network, databaseUrl, seed } = this.#options;
    if (clock !== undefined) this.#clocks.set(name, clock);
    const port = network.lines(name, 'database')[0]?.port;
    const url = new URL(databaseUrl);
    url.port = String(port ?? (await network.lay(name, 'database', Number(url.port))));
    this.#startsCount += 1;
    const ownName = `${name}.${String(this.#startsCount)}`;
    const diary = path.join(folder, `diary-${ownName}.jsonl`);
    this.diaries.push(new DiaryReader(name, diary));
    const settings: WorkerSettings = {
      role,
      name: ownName,
      urls: await this.#urlsFor(name),
      databaseUrl: url.href,
      token: this.#token,
      diary,
      seed: seed + this.#startsCount,
      clock: this.#clocks.get(name) ?? {},
    };
    const started = await startProcess({
      name,
      args: ['--enable-source-maps', path.join(PROGRAMS, 'worker.mjs'), JSON.stringify(settings)],
      env: {},
    });
    this.workers.set(name, { role, process: started });
  }

  /** The addresses of all controllers, through lines of this process alone. */
  async #urlsFor(name: string): Promise<string[]> {
    const { network } = this.#options;
    const urls: string[] = [];
    for (const [index, controller] of this.controllers.entries()) {
      const to = `c${String(index)}`;
      const port =
        network.lines(name, to)[0]?.port ?? (await network.lay(name, to, controller.port));
      urls.push(`http://127.0.0.1:${String(port)}`);
    }
    return urls;
  }

  /** Ends what works, so that nothing is under way any more. */
  async stopWorkers(): Promise<void> {
    await Promise.all([...this.workers.values()].map(({ process: one }) => one.stop()));
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.workers.values()].map(({ process: one }) => one.kill()));
    await Promise.allSettled(this.drones.map((drone) => drone.stop()));
    await Promise.allSettled(this.controllers.map((controller) => controller.kill()));
  }

  /** Keeps what the processes printed. */
  async writeLogs(): Promise<void> {
    const logs = [
      ...this.controllers.map((one, index) => [`c${String(index)}`, one.log()] as const),
      ...this.drones.map((one, index) => [`d${String(index)}`, one.log()] as const),
      ...[...this.workers].map(([name, { process: one }]) => [name, one.log()] as const),
    ];
    for (const [name, text] of logs) {
      await writeFile(path.join(this.#options.folder, `${name}.log`), text);
    }
  }

  async #entry(app: 'controller' | 'drone', clock: ClockFault | undefined): Promise<string> {
    const bundle = path.join(PROGRAMS, `${app}.mjs`);
    if (clock === undefined) return bundle;
    return skewedEntry(this.#options.folder, app, clock, bundle);
  }
}
