import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createControllerClient } from '@leasehold/client';
import {
  type AdminSignIn,
  bootstrapCredentials,
  ensureFirstAdmin,
  FIRST_ADMIN_EMAIL,
  isAdminSignIn,
} from '@leasehold/keys-core/access';
import {
  createDatabase,
  type EmbeddedPostgres,
  migrate,
  onceThereIsSpace,
  type Store,
  supervisePostgres,
} from '@leasehold/keys-core/postgres';
import { fileVariableOf, SECRETS, withSchema } from '@leasehold/service-kit';
import type { RunningHooks, Supervision } from '@leasehold/service-kit/supervision';
import type { CliConfig } from '../config.ts';
import { withStore } from '../database.ts';
import { refusal } from '../failures.ts';
import {
  credentialsPath,
  readCredentials,
  type RunFile,
  runSettings,
  writePrivateJson,
} from '../home.ts';
import { printable } from '../output/text.ts';
import { signalProcess } from '../processes.ts';
import { tellFailedEnds } from './failed-ends.ts';
import { type FailureWatch, messageOf, type Progress } from './progress.ts';
import { restartOnChange } from './restart-on-change.ts';
import { keepRunRecord, untilGone } from './run-record.ts';
import {
  type ChildSpec,
  openBoundedLog,
  superviseChild,
  type SupervisedChild,
} from './supervised-child.ts';
import { programsText, runningWardenOf, type UpDrone, wardenPidOf } from './up-drone.ts';

const STOP_TIMEOUTS_MS = {
  controller: 15_000,
  console: 12_000,
  /** It answers what is in progress first. */
  gateway: 12_000,
  /** At least: its programs may have a longer grace. */
  drone: 30_000,
};
/** Of the drone, from the end of the longest grace: it then reports the ends, and gives up by itself before this. */
const AFTER_GRACE_MS = 15_000;

/** Removes what only a controller may see: every secret, except those that another process is given on purpose. */
const SECRETS_OF_CONTROLLERS = Object.fromEntries(
  SECRETS.filter((name) => name !== 'LEASEHOLD_CONSOLE_SECRET' && name !== 'LEASEHOLD_TOKEN').map(
    (name): [string, undefined] => [name, undefined],
  ),
);

/** Hosts that mean this machine, or all of its addresses. */
const HERE: ReadonlySet<string> = new Set(['127.0.0.1', '::1', '0.0.0.0', '::', 'localhost']);

type Environment = Readonly<Record<string, string | undefined>>;

/** The program of a process, and the environment that it gets a part of. */
interface ProgramPlace {
  readonly environment: Environment;
  readonly programPath: string;
}

/** How the controller is started. It takes the configuration from its environment, as always. */
export function controllerSpec(
  config: CliConfig,
  of: ProgramPlace & { databaseUrl: string; withGateway: boolean },
): ChildSpec {
  return specOf('controller', config, of, {
    DATABASE_URL: of.databaseUrl,
    LEASEHOLD_HOST: config.host,
    LEASEHOLD_PORT: String(config.port),
    LEASEHOLD_CONSOLE_ORIGIN: consoleOriginOf(config),
    LEASEHOLD_GATEWAY_URL: of.withGateway ? gatewayUrlOf(config) : undefined,
    LEASEHOLD_PRESET: config.preset,
    LEASEHOLD_URL: undefined,
    LEASEHOLD_TOKEN: undefined,
  });
}

/** How the console is started. It sees the controller alone, and has no token. */
export function consoleSpec(
  config: CliConfig,
  of: ProgramPlace & { controllerUrl: string },
): ChildSpec {
  return specOf('console', config, of, {
    ...SECRETS_OF_CONTROLLERS,
    LEASEHOLD_HOST: config.host,
    LEASEHOLD_CONSOLE_PORT: String(config.consolePort),
    LEASEHOLD_CONSOLE_ORIGIN: consoleOriginOf(config),
    LEASEHOLD_URL: of.controllerUrl,
    LEASEHOLD_TOKEN: undefined,
  });
}

/** The origin of the console: as configured, or else for a browser on this machine. */
function consoleOriginOf(config: CliConfig): string {
  return config.consoleOrigin ?? originAt(config.host, config.consolePort);
}

/** The same of the gateway. */
function gatewayUrlOf(config: CliConfig): string {
  return config.gatewayUrl ?? originAt(config.host, config.gatewayPort);
}

function originAt(listened: string, port: number): string {
  const host = HERE.has(listened) ? 'localhost' : listened;
  return new URL(`http://${host.includes(':') ? `[${host}]` : host}:${String(port)}`).origin;
}

/** How the gateway is started. It never sees the database. */
export function gatewaySpec(
  config: CliConfig,
  of: ProgramPlace & { controllerUrl: string; token: string },
): ChildSpec {
  const { host, gatewayPort } = config;
  return specOf('gateway', config, of, {
    ...SECRETS_OF_CONTROLLERS,
    LEASEHOLD_CONSOLE_SECRET: undefined,
    LEASEHOLD_GATEWAY_LISTEN: `${host.includes(':') ? `[${host}]` : host}:${String(gatewayPort)}`,
    // Nobody reads them here, and two installations must not need the same port.
    LEASEHOLD_GATEWAY_METRICS_LISTEN: '127.0.0.1:0',
    LEASEHOLD_GATEWAY_URL: gatewayUrlOf(config),
    LEASEHOLD_URL: of.controllerUrl,
    LEASEHOLD_TOKEN: of.token,
  });
}

/** How the drone's agent is started. It never sees the database. */
export function agentSpec(
  config: CliConfig,
  of: ProgramPlace & {
    configPath: string;
    stopGraceMs: number;
    controllerUrl: string;
    token: string;
  },
): ChildSpec {
  const spec = specOf('drone', config, of, {
    ...SECRETS_OF_CONTROLLERS,
    LEASEHOLD_CONSOLE_SECRET: undefined,
    LEASEHOLD_PRESET: config.preset,
    LEASEHOLD_URL: of.controllerUrl,
    LEASEHOLD_TOKEN: of.token,
  });
  return {
    ...spec,
    args: [...spec.args, 'agent', '--config', of.configPath],
    stopTimeoutMs: Math.max(spec.stopTimeoutMs, of.stopGraceMs + AFTER_GRACE_MS),
  };
}

/** A process of this home, with our own environment, some variables set and others removed. */
function specOf(
  name: keyof typeof STOP_TIMEOUTS_MS,
  { home }: CliConfig,
  { environment, programPath }: ProgramPlace,
  changes: Environment,
): ChildSpec {
  // What is set or removed here is not read from a file either.
  const files = Object.keys(changes).map((changed): [string, undefined] => [
    fileVariableOf(changed),
    undefined,
  ]);
  const env: Environment = {
    ...environment,
    LEASEHOLD_HOME: home,
    ...Object.fromEntries(files),
    ...changes,
  };
  return {
    name,
    args: [programPath],
    env: Object.fromEntries(
      Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
    ),
    logPath: join(home, 'logs', `${name}.log`),
    stopTimeoutMs: STOP_TIMEOUTS_MS[name],
  };
}

/** Of the column with the names of the parts. */
const NAME_WIDTH = 17;
/** Once its agent has told it to end, the warden ends at once. */
const WARDEN_END_TIMEOUT_MS = 3_000;

/** Retries something until no full disk prevents it, see {@link onceThereIsSpace}. */
type SpaceWait = <Result>(work: () => Result | Promise<Result>) => Promise<Result>;

/** A wait that is reported on the terminal and ends when everything is to end. */
export function createSpaceWait(watch: FailureWatch, { stop, time }: Supervision): SpaceWait {
  return (work) =>
    onceThereIsSpace(work, {
      async pause(ms) {
        await time.pause(ms, stop);
        stop.throwIfAborted();
      },
      onFull: (error) => watch.state(`waiting for space on a disk: ${messageOf(error)}`),
    });
}

/** Where the programs are. */
export interface Programs extends Readonly<
  Record<'controller' | 'drone' | 'room' | 'migrations', string>
> {
  /** null: no console is started. */
  readonly console: string | null;
  /** null: no gateway is started. */
  readonly gateway: string | null;
}

interface PartsOptions {
  readonly config: CliConfig;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly programs: Programs;
  readonly drone: UpDrone;
  readonly progress: Progress;
  readonly supervision: Supervision;
  readonly watch: FailureWatch;
  readonly whenSpace: SpaceWait;
  /** Registers the function that ends a part, as soon as it runs. Called in the order of the starts. */
  readonly atEnd: (ender: () => Promise<void>) => void;
}

/** Everything, running. */
export interface Parts {
  /** What runs at this moment. */
  run(): RunFile;
  /** How an administrator signs in to the console, if that is known here. */
  readonly signIn: AdminSignIn | undefined;
  /** Rejects when something has died so often that it is not started any more. */
  readonly failed: Promise<never>;
}

/**
 * Starts each part when the one that it needs answers. A part that a full disk keeps from starting is
 * retried until there is space. Running parts are ended by `atEnd`'s functions, also when this throws.
 * @throws {CliFailure | LeaseError} when one cannot be started; the reason of the stop if that came
 * first.
 */
export async function startParts(starting: PartsOptions): Promise<Parts> {
  const { config, drone, environment, progress, programs, watch, whenSpace } = starting;
  const { stop } = starting.supervision;
  const database = await openDatabase(starting);
  stop.throwIfAborted();
  await progress.step(
    'database tables',
    () => whenSpace(() => migrate(database.url, programs.migrations)),
    ({ applied }) => `database tables  ${tablesText(applied)}`,
  );
  const { tokens, signIn } = await whenSpace(() => prepareCredentials(config, database.url, drone));
  stop.throwIfAborted();
  const of = {
    environment,
    programPath: programs.controller,
    databaseUrl: database.url,
    withGateway: programs.gateway !== null,
  };
  // After a crash it starts again as soon as the database runs.
  const needs = (signal: AbortSignal): Promise<void> => database.untilUp(signal);
  const controller = await startChild(starting, { ...controllerSpec(config, of), needs }, urlOf);
  const controllerUrl = urlOf(controller);
  const console = await startConsole(starting, controllerUrl);
  stop.throwIfAborted();
  const gateway = await startGateway(starting, controllerUrl, tokens.gateway);
  stop.throwIfAborted();
  const agent = await startDrone(starting, controllerUrl, tokens);
  const run = (): RunFile => ({
    controllerUrl,
    consoleUrl: console === undefined ? null : consoleOriginOf(config),
    gatewayUrl: gateway === undefined ? null : gatewayUrlOf(config),
    databaseUrl: database.url,
    settings: runSettings(config),
    droneIds: [drone.droneId],
    programs: drone.programs.map(({ name, command, source }) => ({ name, command, source })),
    pids: {
      controller: controller.ready.pid,
      agent: agent.ready.pid,
      warden: wardenPidOf(drone),
      console: console?.ready.pid ?? null,
      gateway: gateway?.ready.pid ?? null,
      postgres: database.pid,
    },
  });
  const record = keepRunRecord(config.home, run, (error) =>
    watch.state(`run.json could not be written, and is tried again: ${messageOf(error)}`),
  );
  starting.atEnd(() => {
    record.close();
    return Promise.resolve();
  });
  await whenSpace(() => record.write());
  watch.onChange = () => record.update();
  const access = { url: controllerUrl, token: tokens.operator };
  watchPrograms(starting, access);
  const { time } = starting.supervision;
  const telling = tellFailedEnds({ access, progress, nowMs: () => time.nowMs() });
  starting.atEnd(() => {
    telling.close();
    return Promise.resolve();
  });
  return { run, signIn, failed: watch.failed };
}

/** Starts a program of its own, and says where it is. */
async function startChild(
  starting: PartsOptions,
  spec: ChildSpec,
  placeOf: (child: SupervisedChild) => string,
): Promise<SupervisedChild> {
  const { progress, watch, supervision } = starting;
  const child = await progress.step(
    spec.name,
    () => superviseChild(spec, watch, supervision),
    (started) => `${spec.name.padEnd(NAME_WIDTH)}${placeOf(started)}`,
  );
  starting.atEnd(() => child.stop());
  return child;
}

/** Starts the console, if there is to be one. It needs the controller alone. */
async function startConsole(
  starting: PartsOptions,
  controllerUrl: string,
): Promise<SupervisedChild | undefined> {
  const { config, environment, programs } = starting;
  const { console: programPath } = programs;
  if (programPath === null) return undefined;
  const spec = consoleSpec(config, { environment, programPath, controllerUrl });
  return startChild(starting, spec, () => consoleOriginOf(config));
}

/** Starts the gateway, if there is to be one. */
async function startGateway(
  starting: PartsOptions,
  controllerUrl: string,
  token: string,
): Promise<SupervisedChild | undefined> {
  const { config, environment, programs } = starting;
  const { gateway: programPath } = programs;
  if (programPath === null) return undefined;
  const spec = gatewaySpec(config, { environment, programPath, controllerUrl, token });
  return startChild(starting, spec, () => gatewayUrlOf(config));
}

function watchPrograms(
  { drone, progress, atEnd }: PartsOptions,
  access: { readonly url: string; readonly token: string },
): void {
  if (drone.targets.length === 0) return;
  const watching = restartOnChange({ targets: drone.targets, access, progress });
  atEnd(() => {
    watching.close();
    return Promise.resolve();
  });
}

/** Starts the drone, and waits until the controller lists it as ready, or as draining. */
async function startDrone(
  starting: PartsOptions,
  controllerUrl: string,
  tokens: { readonly drone: string; readonly viewer: string },
): Promise<SupervisedChild> {
  const { config, drone, environment, programs, progress, watch, supervision } = starting;
  await starting.whenSpace(() => drone.write());
  if (drone.note !== undefined) progress.warn(drone.note);
  const spec = agentSpec(config, {
    environment,
    programPath: programs.drone,
    configPath: drone.configPath,
    stopGraceMs: drone.stopGraceMs,
    controllerUrl,
    token: tokens.drone,
  });
  const child = await progress.step(
    'drone',
    async () => {
      const started = await superviseChild(spec, watch, supervision);
      starting.atEnd(() => endDrone(started, drone));
      await untilDroneReady({ url: controllerUrl, token: tokens.viewer }, drone.droneId);
      return started;
    },
    () => `${'drone'.padEnd(NAME_WIDTH)}${drone.droneId}, offers:${programsText(drone)}`,
  );
  for (const problem of problemsOf(child)) progress.warn(printable(problem));
  return child;
}

/** What is likely to keep programs from running, as the drone has found it. */
function problemsOf({ ready }: SupervisedChild): readonly string[] {
  const { problems } = ready;
  return Array.isArray(problems) ? problems.map(String) : [];
}

/** Starts the database, or uses the one that is configured. */
async function openDatabase(starting: PartsOptions): Promise<Database> {
  const { config, progress, watch, supervision, whenSpace } = starting;
  if (config.databaseUrl !== null) return externalDatabase(config.databaseUrl);
  const started = await progress.step(
    'PostgreSQL',
    async () => {
      const database = await whenSpace(() => startDatabase(config, watch, supervision));
      starting.atEnd(() => database.stop());
      await whenSpace(() => createDatabase(database.url));
      return database;
    },
    ({ place }) => place,
  );
  for (const note of started.notes) progress.warn(note);
  return started;
}

/** Ends the agent, which ends its backends and its warden; what it leaves is killed. */
export async function endDrone(
  agent: Pick<SupervisedChild, 'stop'>,
  drone: Pick<UpDrone, 'stateDir'>,
): Promise<void> {
  const warden = runningWardenOf(drone);
  await agent.stop();
  if (warden === undefined || (await untilGone([warden], WARDEN_END_TIMEOUT_MS))) return;
  // Its backends die with it: the kernel kills them.
  signalProcess(warden, 'SIGKILL');
  await untilGone([warden], WARDEN_END_TIMEOUT_MS);
}

function urlOf({ ready }: SupervisedChild): string {
  return String(ready['url']);
}

/** How many migrations are named; more were the whole of a new database. */
const NAMED_MIGRATIONS_MAX = 5;

function tablesText(applied: readonly string[]): string {
  if (applied.length === 0) return 'up to date';
  if (applied.length > NAMED_MIGRATIONS_MAX) return `made by ${String(applied.length)} migrations`;
  return `made: ${applied.join(', ')}`;
}

const DATABASE_NAME = 'leasehold';

/** The database of `leasehold up`. */
interface Database {
  readonly url: string;
  /** null: it was not started here. */
  readonly pid: number | null;
  /** Fulfilled when it runs, as far as is known here, or the signal aborts. */
  untilUp(signal: AbortSignal): Promise<void>;
  stop(): Promise<void>;
}

/** The database that DATABASE_URL names: it is neither started nor stopped here. */
function externalDatabase(url: string): Database {
  return { url, pid: null, untilUp: () => Promise.resolve(), stop: () => Promise.resolve() };
}

/**
 * Starts PostgreSQL on the data in the home and keeps it running.
 * @throws {LeaseError} see {@link supervisePostgres}.
 */
async function startDatabase(
  config: CliConfig,
  hooks: RunningHooks,
  supervision: Supervision,
): Promise<Database & ReturnType<typeof describeStart>> {
  const log = openBoundedLog(join(config.home, 'logs', 'postgres.log'));
  try {
    const postgres = await supervisePostgres({
      dataDir: join(config.home, 'postgres'),
      log: (line) => log.write(Buffer.from(`${line}\n`)),
      hooks,
      supervision,
    });
    return {
      url: withSchema(postgres.url(DATABASE_NAME), config.schema),
      ...describeStart(postgres),
      get pid() {
        return postgres.pid;
      },
      untilUp: (signal) => postgres.untilUp(signal),
      async stop() {
        await postgres.stop();
        log.close();
      },
    };
  } catch (error) {
    log.close();
    throw error;
  }
}

type Started = Pick<EmbeddedPostgres, 'port' | 'lostPort' | 'dir' | 'notice'>;

/** What people are told of a PostgreSQL that was started here: where it is, and what they should know about its start. */
export function describeStart({ port, lostPort, dir, notice }: Started) {
  const moved = lostPort === undefined ? undefined : movedText(port, lostPort);
  return {
    place: `${'PostgreSQL'.padEnd(NAME_WIDTH)}127.0.0.1:${String(port)}, data in ${dir}`,
    notes: [notice, moved].filter((note) => note !== undefined),
  };
}

function movedText(port: number, lostPort: number): string {
  return (
    `another program uses port ${String(lostPort)}, which PostgreSQL had: it has ${String(port)} from now on; ` +
    '`leasehold config print --database-url` prints its address'
  );
}

/**
 * Makes sure that there is a token for each role and an administrator of the console, and writes
 * `credentials.json`.
 * @returns both; no sign-in when the file has none that is valid.
 */
function prepareCredentials(
  config: CliConfig,
  databaseUrl: string,
  { droneId, bindings }: Pick<UpDrone, 'droneId' | 'bindings'>,
) {
  return withStore(databaseUrl, config.datacenter, async (store) => {
    const path = credentialsPath(config.home);
    const tokens = await bootstrapCredentials(store, path, {
      droneIds: [droneId],
      bindings,
    });
    return { tokens, signIn: await prepareSignIn(store, config.home) };
  });
}

/**
 * A password is made once, when there is no administrator; later ones are for people to choose. It is
 * in the file before the administrator is in the database: a crash between the two loses nothing.
 */
async function prepareSignIn(store: Store, home: string): Promise<AdminSignIn | undefined> {
  const known = readCredentials(home);
  const first = { email: FIRST_ADMIN_EMAIL, name: 'Administrator' };
  const made = await ensureFirstAdmin(store, first, (signIn) =>
    writePrivateJson(credentialsPath(home), { ...known, console: signIn }),
  );
  if (made !== undefined) return made;
  const kept: Partial<Record<keyof AdminSignIn, unknown>> = known?.console ?? {};
  if (typeof kept.email !== 'string' || typeof kept.password !== 'string') return undefined;
  const signIn = { email: kept.email, password: kept.password };
  return (await isAdminSignIn(store.general, signIn)) ? signIn : undefined;
}

const READY_TIMEOUT_MS = 30_000;
const POLL_MS = 100;

/** Waits until the controller lists this drone as ready, or as draining. */
async function untilDroneReady(
  access: { readonly url: string; readonly token: string },
  droneId: string,
): Promise<void> {
  const connection = createControllerClient({ ...access, transport: 'http' });
  const deadlineMs = performance.now() + READY_TIMEOUT_MS;
  let last = 'has not registered';
  try {
    while (performance.now() < deadlineMs) {
      const page = await connection.api.drones.list.query({});
      const drone = page.items.find((item) => item.droneId === droneId);
      if (drone?.status === 'ready' || drone?.status === 'draining') return;
      if (drone !== undefined) last = `is ${drone.status}`;
      await delay(POLL_MS);
    }
  } finally {
    await connection.close();
  }
  throw refusal(
    'up.start_failed',
    `The drone ${droneId} ${last} after ${String(READY_TIMEOUT_MS / 1_000)} s.`,
    'See drone.log in the logs folder of the home.',
  );
}
