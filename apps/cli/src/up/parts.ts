import { createDatabase, migrate } from '@leasehold/keys-core/postgres';
import type { AdminSignIn } from '@leasehold/keys-core/access';
import type { CliConfig } from '../config/config.ts';
import { runSettings, type RunFile } from '../config/home.ts';
import { prepareCredentials } from './credentials.ts';
import { externalDatabase, startDatabase, type Database } from './database.ts';
import { untilDroneReady } from './drone-readiness.ts';
import type { FailureWatch } from './checks/failure-watch.ts';
import type { Supervision } from '@leasehold/service-kit/supervision';
import { untilGone } from './processes/leftovers.ts';
import { identityOf, signalProcess } from './processes/process-identity.ts';
import { agentSpec, consoleOriginOf, consoleSpec, controllerSpec } from './processes/processes.ts';
import type { Progress } from './progress.ts';
import { restartOnChange } from './programs/restart-on-change.ts';
import { programsText, wardenPidOf, type UpDrone } from './up-drone.ts';
import { keepRunRecord } from './processes/run-record.ts';
import { messageOf, type SpaceWait } from './checks/space-wait.ts';
import {
  superviseChild,
  type ChildSpec,
  type SupervisedChild,
} from './processes/supervised-child.ts';

/** Of the column with the names of the parts. */
const NAME_WIDTH = 17;
/** Once its agent has told it to end, the warden ends at once. */
const WARDEN_END_TIMEOUT_MS = 3_000;

/** Where the programs are. */
export interface Programs extends Readonly<
  Record<'controller' | 'drone' | 'room' | 'migrations', string>
> {
  /** null: no console is started. */
  readonly console: string | null;
}

export interface PartsOptions {
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
  const of = { environment, programPath: programs.controller, databaseUrl: database.url };
  // After a crash it starts again as soon as the database runs.
  const needs = (signal: AbortSignal): Promise<void> => database.untilUp(signal);
  const controller = await startChild(starting, { ...controllerSpec(config, of), needs }, urlOf);
  const controllerUrl = urlOf(controller);
  const console = await startConsole(starting, controllerUrl);
  stop.throwIfAborted();
  const agent = await startDrone(starting, controllerUrl, tokens);
  const run = (): RunFile => ({
    controllerUrl,
    consoleUrl: console === undefined ? null : consoleOriginOf(config),
    databaseUrl: database.url,
    settings: runSettings(config),
    droneIds: [drone.droneId],
    programs: drone.programs.map(({ name, command, source }) => ({ name, command, source })),
    pids: {
      controller: controller.ready.pid,
      agent: agent.ready.pid,
      warden: wardenPidOf(drone),
      console: console?.ready.pid ?? null,
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
  watchPrograms(starting, { url: controllerUrl, token: tokens.operator });
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
    controllerUrl,
    token: tokens.drone,
  });
  return progress.step(
    'drone',
    async () => {
      const started = await superviseChild(spec, watch, supervision);
      starting.atEnd(() => endDrone(started, drone));
      await untilDroneReady({ url: controllerUrl, token: tokens.viewer }, drone.droneId);
      return started;
    },
    () => `${'drone'.padEnd(NAME_WIDTH)}${drone.droneId}, offers:${programsText(drone)}`,
  );
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
    ({ url }) => `PostgreSQL       127.0.0.1:${new URL(url).port}, data in ${config.home}/postgres`,
  );
  if (started.note !== undefined) progress.warn(started.note);
  return started;
}

/** Ends the agent, which ends its backends and its warden; what it leaves is killed. */
async function endDrone(agent: SupervisedChild, drone: UpDrone): Promise<void> {
  const wardenPid = wardenPidOf(drone);
  const warden = wardenPid === null ? undefined : identityOf(wardenPid);
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
