/** The stage for a fault: controllers, drones, witnesses, and everything that they wrote. */
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { RunnerTask, RunnerTestSuite } from 'vitest';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import {
  createTestDatabase,
  startControllerProcess,
  waitUntil,
  type ControllerProcess,
} from '@leasehold/testing';
import { copyOfDrone, freshBundles } from './fresh-bundles.ts';
import { LeaseRecorder } from '../leases/stage/lease-recorder.ts';
import { machineMs } from './machine-time.ts';
import { StageDrone } from './stage-drone.ts';
import { livesOf, readTestimony, type Life } from './testimony.ts';

export type WitnessMode = 'gentle' | 'stubborn' | 'family';
export type Answer = Awaited<ReturnType<ControllerApi['keys']['connect']['mutate']>>;

export interface DroneOptions {
  readonly droneId: string;
  /** The programs that it offers, each a witness. */
  readonly programs: Readonly<Record<string, WitnessMode>>;
  /** The first controller's by default. */
  readonly controllerUrls?: readonly string[] | undefined;
  readonly entry?: string | undefined;
}

export interface StageOptions {
  /** A new one unless given. */
  readonly databaseUrl?: string;
  /** How controllers reach it, if not directly. */
  readonly controllersUrl?: string;
  readonly entry?: string;
  /** Configuration of the controllers, such as a ladder other than that of the preset `fast`. */
  readonly env?: Readonly<Record<string, string>>;
}

/** For faults that end before soft: a restart takes less than that even on a busy machine. */
export const PATIENT_LADDER = {
  LEASEHOLD_KEY_RENEW_MS: '2500',
  LEASEHOLD_KEY_SOFT_MS: '16000',
  LEASEHOLD_KEY_HARD_MS: '18000',
  LEASEHOLD_KEY_EXPIRE_MS: '22000',
};

/** A later holder of a key. */
export interface Succession {
  readonly answer: Answer;
  readonly atMs: number;
}

const PORTS_PER_DRONE = 20;
const PORT_FIRST = 10_000;
const PORT_GROUPS = 400;
/** Several beats of a witness. */
const HEARD_MS_MIN = 250;
const SILENCE_MS_MIN = 500;
/** Longer than any ladder of these tests: what has not happened by then never will. */
const SUCCESSION_MS_MAX = 40_000;

export class Stage {
  readonly databaseUrl: string;
  readonly folder: string;
  readonly recorder: LeaseRecorder;
  readonly controllers: ControllerProcess[] = [];
  readonly #drones = new Map<string, StageDrone>();
  readonly #steps: (() => Promise<unknown>)[] = [];
  readonly #env: NonNullable<StageOptions['env']>;
  readonly #controllersUrl: string;
  #token = '';
  #droneFile = '';
  #portGroup = Math.floor(Math.random() * PORT_GROUPS);

  private constructor(databaseUrl: string, folder: string, options: StageOptions) {
    this.databaseUrl = databaseUrl;
    this.folder = folder;
    this.#env = options.env ?? {};
    this.#controllersUrl = options.controllersUrl ?? databaseUrl;
    this.recorder = new LeaseRecorder(databaseUrl);
  }

  /** On a database of its own, unless one is given, with one controller. */
  static async open(options: StageOptions = {}): Promise<Stage> {
    await freshBundles();
    const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-fault-'));
    const database = options.databaseUrl === undefined ? await createTestDatabase() : undefined;
    const stage = new Stage(options.databaseUrl ?? database?.url ?? '', folder, options);
    if (database !== undefined) stage.onClose(() => database.drop());
    // Programs run as users of their own, each of which writes there.
    await mkdir(path.dirname(stage.testimonyFile));
    await writeFile(stage.testimonyFile, '');
    await chmod(stage.testimonyFile, 0o666);
    stage.#droneFile = await copyOfDrone(folder);
    try {
      await stage.startController({ entry: options.entry });
      return stage;
    } catch (error) {
      await stage.close();
      throw error;
    }
  }

  get testimonyFile(): string {
    return path.join(this.folder, 'testimony', 'lines.jsonl');
  }

  /** The API of the first controller, as administrator. */
  get api(): ControllerApi {
    return this.apiAt(this.controllers[0]?.url ?? '');
  }

  apiAt(url: string): ControllerApi {
    return createControllerClient({ url, token: this.#token, transport: 'http' }).api;
  }

  /** Calls `step` when the stage is closed, the latest first. */
  onClose(step: () => Promise<unknown>): void {
    this.#steps.push(step);
  }

  async startController(
    of: { port?: number | undefined; entry?: string | undefined } = {},
  ): Promise<ControllerProcess> {
    const databaseUrl = this.#controllersUrl;
    const home = path.join(this.folder, 'home');
    await mkdir(home, { recursive: true });
    const controller = await startControllerProcess({ databaseUrl, home, env: this.#env, ...of });
    this.onClose(() => controller.kill());
    this.controllers.push(controller);
    const credentials = await readFile(path.join(home, 'credentials.json'), 'utf8');
    this.#token = (JSON.parse(credentials) as { admin: string }).admin;
    return controller;
  }

  /** Another process at the address of a controller that has ended; by default of the same program. */
  async restartController(former: ControllerProcess, entry?: string): Promise<void> {
    const index = this.controllers.indexOf(former);
    const restarted = await this.startController({ port: former.port, entry });
    this.controllers.pop();
    this.controllers[index] = restarted;
  }

  /** Starts a drone and waits until a backend can be placed on it. */
  async startDrone(options: DroneOptions): Promise<StageDrone> {
    const { droneId } = options;
    const { secret } = await this.api.tokens.create.mutate({
      name: droneId,
      role: 'drone',
      droneId,
    });
    this.#portGroup += 1;
    const from = PORT_FIRST + (this.#portGroup % PORT_GROUPS) * PORTS_PER_DRONE;
    const drone = await StageDrone.start({
      droneId,
      controllerUrls: options.controllerUrls ?? [this.controllers[0]?.url ?? ''],
      token: secret,
      home: this.folder,
      programs: Object.fromEntries(
        Object.entries(options.programs).map(([name, mode]) => [name, this.#program(mode)]),
      ),
      ports: { from, to: from + PORTS_PER_DRONE - 1 },
      entry: options.entry ?? this.#droneFile,
    });
    this.#drones.set(droneId, drone);
    this.onClose(() => drone.stop());
    await this.untilReady(droneId);
    return drone;
  }

  async untilReady(droneId: string): Promise<void> {
    await waitUntil(async () => (await this.api.drones.get.query({ droneId })).status === 'ready', {
      what: `readiness of ${droneId}`,
      timeoutMs: SUCCESSION_MS_MAX,
    });
  }

  drone(droneId: string): StageDrone {
    const drone = this.#drones.get(droneId);
    if (drone === undefined) throw new Error(`no drone ${droneId} on this stage`);
    return drone;
  }

  /** One connect, answered when its backend is ready. */
  async connect(name: string, program: string): Promise<Answer> {
    const answer = await this.api.keys.connect.mutate({
      key: { name },
      spawn: { program },
      waitFor: 'ready',
    });
    if (answer.status !== 'ready') {
      const backend = await this.api.backends.get.query({ backendId: answer.backendId });
      throw new Error(`${name}: ${answer.status} instead of ready: ${JSON.stringify(backend)}`);
    }
    return answer;
  }

  /**
   * Asks for the key again and again until somebody other than `former` has it. What is answered
   * meanwhile is either `former` or an error.
   */
  async successorOf(former: Answer, program: string): Promise<Succession> {
    const askUntilMs = machineMs() + SUCCESSION_MS_MAX;
    return waitUntil(
      async () => {
        const answer = await this.api.keys.connect.mutate({
          key: { name: former.key.name },
          spawn: { program },
          waitMs: Math.max(0, Math.ceil(askUntilMs - machineMs())),
        });
        if (answer.backendId === former.backendId) return undefined;
        return { answer, atMs: machineMs() };
      },
      { what: `a successor for ${former.key.name}`, timeoutMs: SUCCESSION_MS_MAX },
    );
  }

  /** When the promise of a grant ends, as the database records it. */
  expiryOf(answer: Answer): number {
    const grant = this.recorder.grant(answer.leaseId);
    if (grant === undefined) throw new Error(`the grant of ${answer.key.name} was never seen`);
    return grant.expiresAtMs;
  }

  /** The lives of the backends of a key so far. */
  lives(name: string): Life[] {
    return livesOf(readTestimony(this.testimonyFile), name);
  }

  /** What one backend has written so far. */
  life(answer: Answer): Life | undefined {
    return this.lives(answer.key.name).find((life) => life.backend === answer.backendId);
  }

  /**
   * Waits until a backend has written something that is newer than this call, and has done so for
   * long enough that an older one which still lives would have acted meanwhile.
   */
  async untilHeard(answer: Answer): Promise<Life> {
    const sinceMs = machineMs();
    return waitUntil(
      () => {
        const life = this.life(answer);
        if (life === undefined || life.lastAtMs <= sinceMs) return undefined;
        return life.lastAtMs - life.firstAtMs >= HEARD_MS_MIN ? life : undefined;
      },
      { what: `a word of ${answer.backendId}` },
    );
  }

  /** Waits until a backend has been silent, from now on, for so long that it must be dead. */
  async untilSilent(answer: Answer): Promise<Life> {
    const sinceMs = machineMs();
    return waitUntil(
      () => {
        const life = this.life(answer);
        if (life === undefined) return undefined;
        return machineMs() - Math.max(life.lastAtMs, sinceMs) > SILENCE_MS_MIN ? life : undefined;
      },
      { what: `the silence of ${answer.backendId}`, timeoutMs: SUCCESSION_MS_MAX },
    );
  }

  /** Waits until a grant has been renewed this many more times. */
  async untilRenewed(answer: Answer, times = 1): Promise<void> {
    const before = this.recorder.grant(answer.leaseId)?.promiseCount ?? 0;
    await waitUntil(
      () => (this.recorder.grant(answer.leaseId)?.promiseCount ?? 0) >= before + times,
      { what: `renewal of ${answer.key.name}`, timeoutMs: SUCCESSION_MS_MAX },
    );
  }

  /** Waits until at most this much of a grant is left. */
  async untilRemaining(answer: Answer, remainingMs: number): Promise<void> {
    await waitUntil(() => this.expiryOf(answer) - machineMs() <= remainingMs, {
      what: `the last ${String(remainingMs)} ms of ${answer.key.name}`,
      timeoutMs: SUCCESSION_MS_MAX,
    });
  }

  /** Ends everything. The folder is kept, and named, when something went wrong. */
  async close(file?: RunnerTestSuite): Promise<void> {
    const hasFailed = file?.tasks.some(isFailed) ?? false;
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      await step().catch((error: unknown) => {
        console.error('closing the stage', error);
      });
    }
    await this.recorder.close();
    if (hasFailed) await this.#writeLogs();
    if (hasFailed) console.log(`what the processes wrote is in ${this.folder}`);
    else await rm(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }

  async #writeLogs(): Promise<void> {
    const logs = [
      ...this.controllers.map((one, index) => [`controller-${String(index)}`, one.log()] as const),
      ...[...this.#drones].map(([droneId, drone]) => [droneId, drone.log()] as const),
    ];
    for (const [name, text] of logs) await writeFile(path.join(this.folder, `${name}.log`), text);
  }

  #program(mode: WitnessMode): unknown {
    return {
      command: process.execPath,
      args: [path.join(import.meta.dirname, 'witness.mjs'), this.testimonyFile, mode],
      readiness: { type: 'http', intervalMs: 50 },
    };
  }
}

function isFailed(task: RunnerTask): boolean {
  if (task.result?.state === 'fail') return true;
  return task.type === 'suite' && task.tasks.some(isFailed);
}
