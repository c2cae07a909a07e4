/**
 * A whole Leasehold of processes as they ship: a database, controllers, drones, a console, and networks in
 * front of them. For tests, tools and measurements alike, so it loads no Vitest.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import type { Ladder } from '@leasehold/keys-core';
import type { Credentials } from '@leasehold/keys-core/access';
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { startFaultProxy, type FaultProxy } from '../network/fault-proxy.ts';
import { freePort, reservePorts } from '../network/free-port.ts';
import { copyTemplate } from '../postgres/template-copy.ts';
import { startProcess, type TestProcess } from '../test-process.ts';
import { waitUntil } from '../wait-until.ts';
import {
  bundleOf,
  copyDrone,
  startControllerProcess,
  type ControllerProcess,
} from '../leasehold-processes.ts';
import { skewedEntry, type ClockFault } from './skewed-clocks.ts';
import { StageDrone, type DronePlan } from './stage-drone.ts';

/** How a controller is started. */
export interface ControllerOptions {
  /** By default any free one. */
  readonly port?: number | undefined;
  /** By default the stage's. */
  readonly databaseUrl?: string | undefined;
  /** Run in place of the app's own file. */
  readonly entry?: string | undefined;
  readonly clock?: ClockFault | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** How a drone is started: at the first controller, with a token of its own and a copy of the app's own file. */
export interface DroneOptions extends Pick<
  DronePlan,
  'droneId' | 'programs' | 'env' | 'config' | 'user'
> {
  readonly controllerUrls?: readonly string[] | undefined;
  readonly token?: string | undefined;
  readonly entry?: string | undefined;
  readonly clock?: ClockFault | undefined;
}

/** How a gateway is started: at the first controller, with a token of its own. */
export interface GatewayOptions {
  readonly gatewayId?: string | undefined;
  /** By default any free one. */
  readonly port?: number | undefined;
  readonly controllerUrls?: readonly string[] | undefined;
  /** Run in place of the app's own file. */
  readonly entry?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** A gateway that answers at `url`. */
export interface GatewayProcess extends TestProcess {
  readonly url: string;
  readonly metricsUrl: string;
}

/** What a stage begins with. */
export interface StageOptions {
  /** A part of the names of its folder and its database. */
  readonly name?: string | undefined;
  /** The PostgreSQL in which it makes a database of its own, unless one is given. */
  readonly clusterUrl?: string | undefined;
  readonly databaseUrl?: string | undefined;
  /** How controllers reach the database, if not directly. */
  readonly controllersUrl?: string | undefined;
  /** What is done to the database before a controller is connected to it. */
  readonly prepare?: ((databaseUrl: string) => Promise<void>) | undefined;
  /** How many; by default one. */
  readonly controllers?: number | undefined;
  /** By default none. */
  readonly drones?: readonly DroneOptions[] | undefined;
  /** Of keys: a preset, by default `fast`, or any other. */
  readonly ladder?: 'fast' | 'standard' | Ladder | undefined;
  /** Of the controllers. */
  readonly clock?: ClockFault | undefined;
  readonly datacenter?: string | undefined;
  /** Where people open the console, which controllers must know when they start. */
  readonly consoleOrigin?: string | undefined;
  /** Of the first controller; by default any free one. */
  readonly port?: number | undefined;
  /** Run by controllers in place of the app's own file. */
  readonly entry?: string | undefined;
  /** Further configuration of the controllers. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** How long each part may take to be ready. */
  readonly readyMsMax?: number | undefined;
}

/** Whose token a caller has. */
export type StageRole = 'admin' | 'operator' | 'client' | 'viewer';

/** A test, or a suite of them, with its result: as Vitest has them. */
interface Tested {
  readonly result?: { readonly state?: string } | undefined;
  readonly tasks?: readonly Tested[];
}

const READY_MS_MAX = 40_000;

/** Where browsers find a console that listens on `port`. */
export function consoleOrigin(port: number): string {
  return `http://localhost:${String(port)}`;
}

/** Starts a stage, and returns when it works. The caller closes it. */
export function openStage(options: StageOptions): Promise<Stage> {
  return new Stage(options).begin();
}

export class Stage implements AsyncDisposable {
  /** Its programs may read what is there, other than in `home`. */
  readonly folder: string;
  readonly home: string;
  readonly controllers: ControllerProcess[] = [];
  readonly drones: StageDrone[] = [];
  readonly #options: StageOptions;
  readonly #launches = new Map<ControllerProcess, ControllerOptions>();
  readonly #steps: (() => unknown)[] = [];
  readonly #authSecret = randomBytes(32).toString('hex');
  #databaseUrl = '';
  #credentials: Credentials | undefined;
  #sql: pg.Pool | undefined;
  /** A copy: an agent starts its warden from its own file much later, and a build must not change that meanwhile. */
  #droneFile: string | undefined;

  /** Nothing of it runs before {@link Stage.begin}. */
  constructor(options: StageOptions) {
    const { name = 'stage' } = options;
    this.#options = options;
    this.folder = mkdtempSync(path.join(os.tmpdir(), `leasehold-${name}-`));
    chmodSync(this.folder, 0o755);
    this.home = path.join(this.folder, 'home');
    mkdirSync(this.home, { mode: 0o700 });
  }

  /** Starts what the options name. Closes everything when something does not start. */
  async begin(): Promise<this> {
    const { controllers = 1, drones = [], port, prepare } = this.#options;
    try {
      this.#databaseUrl = this.#options.databaseUrl ?? (await this.#makeDatabase());
      await prepare?.(this.#databaseUrl);
      if (controllers > 0) await this.startController({ port });
      const others = Array.from({ length: Math.max(0, controllers - 1) });
      await Promise.all(others.map(() => this.startController()));
      await Promise.all(drones.map((drone) => this.startDrone(drone)));
      return this;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async #makeDatabase(): Promise<string> {
    const { clusterUrl, name = 'stage' } = this.#options;
    if (clusterUrl === undefined) throw new Error('a stage needs a database or a cluster');
    const database = await copyTemplate(clusterUrl, name);
    this.onClose(() => database.drop());
    return database.url;
  }

  get datacenter(): string {
    return this.#options.datacenter ?? 'local';
  }

  get databaseUrl(): string {
    return this.#databaseUrl;
  }

  /** One statement, for what no API shows or does. */
  async query<Row extends pg.QueryResultRow>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<Row[]> {
    return (await this.sql.query<Row>(text, [...values])).rows;
  }

  /** Sessions of the database. */
  get sql(): pg.Pool {
    return (this.#sql ??= this.#openSql());
  }

  #openSql(): pg.Pool {
    const sql = new pg.Pool({ ...connectionOf(this.#databaseUrl), max: 4 });
    // The database may be what fails, while nothing is asked of it.
    sql.on('error', () => undefined);
    // Not waited for: a test that has failed may have kept a session.
    this.onClose(() => void sql.end());
    return sql;
  }

  /** A secret for each role. */
  get credentials(): Credentials {
    if (this.#credentials === undefined) throw new Error('no controller was started');
    return this.#credentials;
  }

  /** Of the first controller. */
  get url(): string {
    return this.controller().url;
  }

  controller(index = 0): ControllerProcess {
    const controller = this.controllers[index];
    if (controller === undefined) throw new Error(`no controller ${String(index)}`);
    return controller;
  }

  /** The API of a controller, over HTTP. */
  api(role: StageRole = 'admin', at: string | number = 0): ControllerApi {
    const url = typeof at === 'number' ? this.controller(at).url : at;
    const token = this.credentials[role];
    return createControllerClient({ url, token, transport: 'http' }).api;
  }

  /** Calls `step` when the stage is closed, the latest first. */
  onClose(step: () => unknown): void {
    this.#steps.push(step);
  }

  async startController(options: ControllerOptions = {}): Promise<ControllerProcess> {
    const controller = await this.#launch(options);
    this.controllers.push(controller);
    const file = path.join(this.home, 'credentials.json');
    this.#credentials ??= JSON.parse(await readFile(file, 'utf8')) as Credentials;
    return controller;
  }

  /** Another process at the address of a controller that has ended; unless `entry` is given, of the same program. */
  async restartController(former = this.controller(), entry?: string): Promise<void> {
    const options = { ...this.#launches.get(former), port: former.port };
    const index = this.controllers.indexOf(former);
    this.controllers[index] = await this.#launch(
      entry === undefined ? options : { ...options, entry },
    );
  }

  async #launch(options: ControllerOptions): Promise<ControllerProcess> {
    const { controllersUrl, consoleOrigin: origin, datacenter, ladder = 'fast' } = this.#options;
    const clock = options.clock ?? this.#options.clock;
    const entry = options.entry ?? this.#options.entry ?? bundleOf('controller');
    const controller = await startControllerProcess({
      databaseUrl: options.databaseUrl ?? controllersUrl ?? this.#databaseUrl,
      home: this.home,
      // It may be started again there: one that the kernel chose may be another's by then.
      port: options.port ?? (await freePort()),
      entry: clock === undefined ? entry : await skewedEntry(this.folder, entry, clock),
      env: {
        ...variablesOf(ladder),
        ...(datacenter === undefined ? {} : { LEASEHOLD_DATACENTER: datacenter }),
        ...(origin === undefined
          ? {}
          : { LEASEHOLD_CONSOLE_ORIGIN: origin, LEASEHOLD_AUTH_SECRET: this.#authSecret }),
        ...this.#options.env,
        ...options.env,
      },
      readyMsMax: this.#options.readyMsMax,
    });
    this.onClose(() => controller.kill());
    this.#launches.set(controller, options);
    return controller;
  }

  /** A network of its own in front of a controller. */
  async front(index = 0): Promise<FaultProxy> {
    const proxy = await startFaultProxy({ host: '127.0.0.1', port: this.controller(index).port });
    this.onClose(() => proxy.close());
    return proxy;
  }

  /** Starts a drone and waits until a backend can be placed on it. */
  async startDrone(options: DroneOptions): Promise<StageDrone> {
    const { droneId, clock, env, controllerUrls = [this.url] } = options;
    const { datacenter } = this.#options;
    const ports = await reservePorts();
    this.onClose(ports.giveBack);
    const entry = options.entry ?? (this.#droneFile ??= copyDrone(this.folder));
    const drone = new StageDrone({
      ...options,
      controllerUrls,
      home: this.home,
      ports,
      token: options.token ?? (await this.#tokenOf(droneId)),
      entry: clock === undefined ? entry : await skewedEntry(this.folder, entry, clock),
      env: { ...(datacenter === undefined ? {} : { LEASEHOLD_DATACENTER: datacenter }), ...env },
    });
    this.drones.push(drone);
    this.onClose(() => drone.stop());
    await drone.startAgent();
    await this.untilReady(droneId);
    return drone;
  }

  async #tokenOf(droneId: string): Promise<string> {
    const drone = { name: droneId, role: 'drone', droneId } as const;
    return (await this.api().tokens.create.mutate(drone)).secret;
  }

  async untilReady(droneId: string): Promise<void> {
    const isReady = async (): Promise<boolean> =>
      (await this.api().drones.get.query({ droneId })).status === 'ready';
    await waitUntil(isReady, {
      what: `readiness of ${droneId}`,
      timeoutMs: this.#options.readyMsMax ?? READY_MS_MAX,
    });
  }

  drone(droneId?: string): StageDrone {
    const drone = this.drones.find((one) => droneId === undefined || one.droneId === droneId);
    if (drone === undefined) throw new Error(`no drone ${droneId ?? ''} on this stage`);
    return drone;
  }

  /** Starts the console as it ships, built for production; `controllerUrl` may be that of a proxy. */
  async startConsole(of: {
    readonly port: number;
    readonly controllerUrl?: string;
    readonly origin?: string;
    readonly entry?: string;
  }): Promise<TestProcess & { readonly url: string }> {
    const { port, controllerUrl = this.url, origin = consoleOrigin(port) } = of;
    const started = await startProcess({
      name: 'console',
      args: [of.entry ?? bundleOf('console')],
      env: {
        NODE_ENV: 'production',
        // The secret by which its controllers know it is there.
        LEASEHOLD_HOME: this.home,
        LEASEHOLD_URL: controllerUrl,
        LEASEHOLD_CONSOLE_PORT: String(port),
        LEASEHOLD_CONSOLE_ORIGIN: origin,
      },
      readyMsMax: this.#options.readyMsMax,
    });
    this.onClose(() => started.kill());
    return { ...started, url: origin };
  }

  /**
   * Starts a gateway as it ships. Controllers that are to make addresses and tokens for it know `url` when they
   * start: it is given by {@link StageOptions.env}.
   */
  async startGateway(options: GatewayOptions = {}): Promise<GatewayProcess> {
    const { gatewayId = 'gateway-1', port = 0, controllerUrls = [this.url], env } = options;
    const token = await this.api().tokens.create.mutate({ name: gatewayId, role: 'gateway' });
    const started = await startProcess({
      name: gatewayId,
      args: ['--enable-source-maps', options.entry ?? bundleOf('gateway')],
      env: {
        LEASEHOLD_URL: controllerUrls.join(','),
        LEASEHOLD_TOKEN: token.secret,
        LEASEHOLD_GATEWAY_ID: gatewayId,
        LEASEHOLD_GATEWAY_LISTEN: `127.0.0.1:${String(port)}`,
        LEASEHOLD_GATEWAY_METRICS_LISTEN: '127.0.0.1:0',
        LEASEHOLD_LOG_LEVEL: 'debug',
        ...env,
      },
      readyMsMax: this.#options.readyMsMax,
    });
    this.onClose(async () => {
      await started.kill();
      await this.#keep(gatewayId, started.log());
    });
    const { url, metricsUrl } = started.ready;
    return { ...started, url: String(url), metricsUrl: String(metricsUrl) };
  }

  /** Starts another program; what it prints is kept with the logs. */
  async startProgram(name: string, args: readonly string[]): Promise<TestProcess> {
    const started = await startProcess({ name, args: ['--enable-source-maps', ...args], env: {} });
    this.onClose(async () => {
      await started.kill();
      await this.#keep(name, started.log());
    });
    return started;
  }

  /** Ends everything. The folder is kept, and named, when a test of `file` has failed. */
  async close(file: Tested = {}): Promise<void> {
    await this.end();
    if (hasFailed(file)) console.log(`what the processes wrote is in ${this.folder}`);
    else await this.removeFolder();
  }

  /** Ends everything, and leaves what it wrote. */
  async end(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step();
      } catch (error) {
        console.error('closing the stage', error);
      }
    }
    for (const [at, one] of this.controllers.entries()) {
      await this.#keep(`c${String(at)}`, one.log());
    }
    for (const drone of this.drones) await this.#keep(drone.droneId, drone.log());
  }

  async removeFolder(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #keep(name: string, log: string): Promise<void> {
    await writeFile(path.join(this.folder, `${name}.log`), log);
  }
}

function variablesOf(ladder: NonNullable<StageOptions['ladder']>): Record<string, string> {
  if (typeof ladder === 'string') return { LEASEHOLD_PRESET: ladder };
  return {
    LEASEHOLD_PRESET: 'fast',
    LEASEHOLD_KEY_RENEW_MS: String(ladder.renewAfterMs),
    LEASEHOLD_KEY_SOFT_MS: String(ladder.softAfterMs),
    LEASEHOLD_KEY_HARD_MS: String(ladder.hardAfterMs),
    LEASEHOLD_KEY_EXPIRE_MS: String(ladder.ttlMs),
  };
}

function hasFailed({ result, tasks = [] }: Tested): boolean {
  return result?.state === 'fail' || tasks.some(hasFailed);
}
