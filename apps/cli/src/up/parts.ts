import { createDatabase, migrate, type AdminSignIn } from '@leasehold/keys-core/store';
import type { CliConfig } from '../config.ts';
import { runFilePath, writePrivateJson, type RunFile } from '../home.ts';
import { refusal } from '../failure.ts';
import { printable } from '../output/printable.ts';
import { prepareCredentials } from './credentials.ts';
import { externalDatabase, startDatabase, type Database } from './database.ts';
import { DEMO_DRONE_ID, wardenPidOf, writeDemoDrone, type DemoDrone } from './demo-drone.ts';
import { untilDroneReady } from './drone-readiness.ts';
import { untilGone, writeProcesses } from './leftovers.ts';
import { identityOf, signalProcess } from './process-identity.ts';
import { agentSpec, consoleOriginOf, consoleSpec, controllerSpec } from './processes.ts';
import type { Progress } from './progress.ts';
import { superviseChild, type ChildHooks, type SupervisedChild } from './supervised-child.ts';

/** Once its agent has told it to end, the warden ends at once. */
const WARDEN_END_TIMEOUT_MS = 3_000;

/** What is tried again each second fails each second; it is said once in this time. */
const SAME_ALARM_MS = 30_000;
const ALARMS_REMEMBERED_MAX = 100;

/** Where the programs lie. */
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
  readonly progress: Progress;
  readonly stop: AbortSignal;
  /** Takes what ends a part, as soon as it runs. Called in the order of the starts. */
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
 * Starts each part when the one that it needs answers.
 * @returns undefined when `stop` came in between; what runs then is ended by `atEnd`'s functions.
 * @throws {CliFailure | LeaseError} when one cannot be started.
 */
export async function startParts(options: PartsOptions): Promise<Parts | undefined> {
  const { config, progress, stop, programs } = options;
  const isStopped = (): boolean => stop.aborted;
  const watch = new FailureWatch(progress);

  const database = await openDatabase(options, watch);
  if (isStopped()) return undefined;
  await progress.step(
    'database tables',
    () => migrate(database.url, programs.migrations),
    ({ applied }) =>
      `database tables  ${applied.length === 0 ? 'up to date' : `made: ${applied.join(', ')}`}`,
  );
  const { tokens, signIn } = await prepareCredentials(config, database.url, DEMO_DRONE_ID);
  if (isStopped()) return undefined;

  const controller = await progress.step(
    'controller',
    () =>
      superviseChild(
        controllerSpec(config, {
          ...options,
          programPath: programs.controller,
          databaseUrl: database.url,
        }),
        watch,
        stop,
      ),
    ({ ready }) => `controller       ${urlOf(ready)}`,
  );
  options.atEnd(() => controller.stop());
  const controllerUrl = urlOf(controller.ready);
  const console = await startConsole(options, watch, controllerUrl);
  if (isStopped()) return undefined;

  const demo = writeDemoDrone(config.home, programs.room);
  const agent = await progress.step(
    'drone',
    async () => {
      const started = await superviseChild(
        agentSpec(config, {
          ...options,
          programPath: programs.drone,
          configPath: demo.configPath,
          controllerUrl,
          token: tokens.drone,
        }),
        watch,
        stop,
      );
      options.atEnd(() => endDrone(started, demo));
      await untilDroneReady({ url: controllerUrl, token: tokens.viewer }, DEMO_DRONE_ID);
      return started;
    },
    () => `drone            ${DEMO_DRONE_ID}, offers the program room`,
  );
  const consoleUrl = console === undefined ? null : consoleOriginOf(config);
  const run = (): RunFile =>
    runFileOf({ controllerUrl, consoleUrl, database, controller, console, agent, demo });
  save(config.home, run());
  watch.onChange = () => {
    save(config.home, run());
  };
  return { run, signIn, failed: watch.failed };
}

/** Starts the console, if there is to be one. It needs the controller alone. */
async function startConsole(
  options: PartsOptions,
  watch: FailureWatch,
  controllerUrl: string,
): Promise<SupervisedChild | undefined> {
  const { config, programs, progress, stop } = options;
  const { console: programPath } = programs;
  if (programPath === null) return undefined;
  const started = await progress.step(
    'console',
    () =>
      superviseChild(
        consoleSpec(config, { environment: options.environment, programPath, controllerUrl }),
        watch,
        stop,
      ),
    () => `console          ${consoleOriginOf(config)}`,
  );
  options.atEnd(() => started.stop());
  return started;
}

/** Starts the database, or takes the one that is named. */
async function openDatabase(options: PartsOptions, watch: FailureWatch): Promise<Database> {
  const { config, progress } = options;
  if (config.databaseUrl !== null) return externalDatabase(config.databaseUrl);
  return progress.step(
    'PostgreSQL',
    async () => {
      const database = await startDatabase(config, {
        died: () => {
          watch.restarting('PostgreSQL', 'ended', 0);
        },
        restarted: () => {
          watch.restarted('PostgreSQL');
        },
        gaveUp: (error) => {
          watch.gaveUp('PostgreSQL', error instanceof Error ? error.message : String(error));
        },
      });
      options.atEnd(() => database.stop());
      await createDatabase(database.url);
      return database;
    },
    ({ url }) => `PostgreSQL       127.0.0.1:${new URL(url).port}, data in ${config.home}/postgres`,
  );
}

/** Ends the agent, which ends its backends and its warden; what it leaves is killed. */
async function endDrone(agent: SupervisedChild, demo: DemoDrone): Promise<void> {
  const wardenPid = wardenPidOf(demo);
  const warden = wardenPid === null ? undefined : identityOf(wardenPid);
  await agent.stop();
  if (warden === undefined || (await untilGone([warden], WARDEN_END_TIMEOUT_MS))) return;
  // Its backends die with it: the kernel sees to that.
  signalProcess(warden, 'SIGKILL');
  await untilGone([warden], WARDEN_END_TIMEOUT_MS);
}

function save(home: string, run: RunFile): void {
  writePrivateJson(runFilePath(home), run);
  writeProcesses(home, [run.pids.controller, run.pids.console, run.pids.agent]);
}

function urlOf(ready: SupervisedChild['ready']): string {
  return String(ready['url']);
}

function runFileOf(parts: {
  controllerUrl: string;
  consoleUrl: string | null;
  database: Database;
  controller: SupervisedChild;
  console: SupervisedChild | undefined;
  agent: SupervisedChild;
  demo: DemoDrone;
}): RunFile {
  return {
    controllerUrl: parts.controllerUrl,
    consoleUrl: parts.consoleUrl,
    databaseUrl: parts.database.url,
    droneIds: [DEMO_DRONE_ID],
    pids: {
      controller: parts.controller.ready.pid,
      agent: parts.agent.ready.pid,
      warden: wardenPidOf(parts.demo),
      console: parts.console?.ready.pid ?? null,
      postgres: parts.database.pid,
    },
  };
}

/** Says what dies and comes back, and keeps what is written about it right. */
class FailureWatch implements ChildHooks {
  readonly failed: Promise<never>;
  readonly #progress: Progress;
  /** Called when another process runs than before. */
  onChange: () => void = () => undefined;
  readonly #saidAtMs = new Map<string, number>();
  #fail: (error: Error) => void = () => undefined;

  constructor(progress: Progress) {
    this.#progress = progress;
    this.failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    // It may fail while something else is waited for.
    this.failed.catch(() => undefined);
  }

  alarm(name: string, alarm: { message: string }): void {
    const text = `${name}: ${printable(alarm.message)}`;
    const nowMs = performance.now();
    if (nowMs - (this.#saidAtMs.get(text) ?? -Infinity) < SAME_ALARM_MS) return;
    if (this.#saidAtMs.size >= ALARMS_REMEMBERED_MAX) this.#saidAtMs.clear();
    this.#saidAtMs.set(text, nowMs);
    this.#progress.warn(text);
  }

  restarting(name: string, how: string, inMs: number): void {
    this.#progress.warn(
      `${name} ${how}; starting it again${inMs === 0 ? '' : ` in ${String(inMs)} ms`}`,
    );
  }

  restarted(name: string): void {
    this.onChange();
    this.#progress.warn(`${name} runs again`);
  }

  gaveUp(name: string, how: string): void {
    this.#fail(
      refusal(
        'up.died',
        `The ${name} ${how}, and not for the first time; everything was ended.`,
        'The logs folder of the home says more.',
      ),
    );
  }
}
