/** The processes of a run: controllers, drones and workers, each behind lines of its own. */
import path from 'node:path';
import type { ControllerApi } from '@leasehold/client';
import {
  Stage,
  waitUntil,
  type ClockFault,
  type ControllerProcess,
  type StageDrone,
  type TestProcess,
} from '@leasehold/testing/stack';
import type { HolderClock } from '../../leases/stage/program.ts';
import { machineMs } from '../../stage/machine-time.ts';
import { openTestimony, witness } from '../../stage/testimony.ts';
import type { Crash } from '../history.ts';
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

export interface FleetOptions {
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
  readonly stage: Stage;
  readonly testimonyFile: string;
  readonly workers = new Map<string, Worker>();
  readonly diaries: DiaryReader[] = [];
  readonly crashes: Crash[] = [];
  readonly #options: FleetOptions;
  readonly #clocks = new Map<string, HolderClock>();
  #startsCount = 0;

  constructor(options: FleetOptions) {
    const { databaseUrl } = options;
    this.#options = options;
    this.stage = new Stage({ name: 'proof', databaseUrl, readyMsMax: READY_MS_MAX });
    this.testimonyFile = openTestimony(this.stage.folder);
  }

  get controllers(): readonly ControllerProcess[] {
    return this.stage.controllers;
  }

  get drones(): readonly StageDrone[] {
    return this.stage.drones;
  }

  get token(): string {
    return this.stage.credentials.admin;
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
    return this.stage.api('admin', index);
  }

  async startControllers(): Promise<void> {
    const { databaseUrl, poolerUrl, network } = this.#options;
    const entry = path.join(PROGRAMS, 'controller.mjs');
    for (const [index, clock] of CONTROLLER_CLOCKS.entries()) {
      const isLast = index === CONTROLLERS_COUNT - 1;
      const url = new URL((isLast ? poolerUrl : undefined) ?? databaseUrl);
      url.port = String(await network.lay(`c${String(index)}`, 'database', Number(url.port)));
      await this.stage.startController({ databaseUrl: url.href, entry, clock });
    }
  }

  /** Starts a controller that was killed, at its address. */
  async restartController(index: number): Promise<void> {
    const former = this.stage.controller(index);
    await waitUntil(() => this.stage.restartController(former).then(() => true), {
      what: `the start of controller ${String(index)}`,
      timeoutMs: READY_MS_MAX,
    });
  }

  async startDrones(): Promise<void> {
    for (const [index, clock] of DRONE_CLOCKS.entries()) {
      const droneId = `d${String(index)}`;
      await this.stage.startDrone({
        droneId,
        clock,
        entry: path.join(PROGRAMS, 'drone.mjs'),
        controllerUrls: await this.#urlsFor(droneId),
        programs: { [PROGRAM]: witness(this.testimonyFile, 'stubborn') },
        env: { LEASEHOLD_LOG_LEVEL: 'info' },
      });
    }
  }

  /** Starts a worker, or one that was killed, with a diary of its own. */
  async startWorker(name: string, role: Worker['role'], clock?: HolderClock): Promise<void> {
    const { network, databaseUrl, seed } = this.#options;
    if (clock !== undefined) this.#clocks.set(name, clock);
    const port = network.lines(name, 'database')[0]?.port;
    const url = new URL(databaseUrl);
    url.port = String(port ?? (await network.lay(name, 'database', Number(url.port))));
    this.#startsCount += 1;
    const ownName = `${name}.${String(this.#startsCount)}`;
    const diary = path.join(this.stage.folder, `diary-${ownName}.jsonl`);
    this.diaries.push(new DiaryReader(name, diary));
    const settings: WorkerSettings = {
      role,
      name: ownName,
      urls: await this.#urlsFor(name),
      databaseUrl: url.href,
      token: this.token,
      diary,
      seed: seed + this.#startsCount,
      clock: this.#clocks.get(name) ?? {},
    };
    const program = [path.join(PROGRAMS, 'worker.mjs'), JSON.stringify(settings)];
    const started = await this.stage.startProgram(ownName, program);
    this.workers.set(name, { role, process: started });
    void started.exited.then((exit) => {
      // Asked to end it ends with 0, and it is killed by faults alone.
      if (exit === 0 || exit === 'SIGKILL') return;
      this.crashes.push({ process: ownName, atMs: machineMs(), exit: String(exit) });
    });
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
}
