/**
 * Runs everything on this machine: PostgreSQL (or somebody else's, by DATABASE_URL), a controller,
 * the console, the gateway, and a drone with its warden.
 *
 * Start: everything that can be wrong is checked before anything starts; then each part starts
 * when the one that it needs answers; `run.json` is written when all of them do. While it runs,
 * what dies is started again after a growing delay. The end, whatever its cause, is the reverse:
 * the drone stops its backends and reports it, then the gateway ends, the console, the controller, PostgreSQL.
 *
 * If this process is killed, the others notice that it is gone and end by themselves; the next
 * `leasehold up` waits for them.
 */
import { once } from 'node:events';
import { accessSync, constants, mkdirSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { AdminSignIn } from '@leasehold/keys-core/access';
import { systemSupervision } from '@leasehold/service-kit/supervision';
import { hasPart, pathOfPart } from '../apps.ts';
import type { Cli } from '../cli.ts';
import type { CliConfig } from '../config.ts';
import { CliFailure, EXIT_CODES } from '../failures.ts';
import { lockHome, makeHome, type RunFile } from '../home.ts';
import { isErrorCode } from '../processes.ts';
import { createSpaceWait, startParts, type Parts, type Programs } from './parts.ts';
import { FailureWatch, type Progress } from './progress.ts';
import { endLeftovers, forgetRun } from './run-record.ts';
import { prepareDrone } from './up-drone.ts';
import type { UpRequest } from './up-request.ts';

interface UpOptions {
  readonly cli: Cli;
  readonly config: CliConfig;
  /** What is wanted. If the console was not built, that is reported, and it is left out. */
  readonly request: UpRequest;
  readonly progress: Progress;
  /** Called once everything answers. */
  readonly onRunning: (run: RunFile, signIn: AdminSignIn | undefined) => void;
}

/**
 * Runs until this process is asked to end, and resolves when everything has ended.
 * @throws {CliFailure} when something cannot be started, or dies too often.
 */
export async function runUp(options: UpOptions): Promise<void> {
  const { cli, config, progress, request, onRunning } = options;
  const { home } = config;
  const stop = cli.context.signal();
  const supervision = systemSupervision(stop);
  const watch = new FailureWatch(progress, () => supervision.time.nowMs());
  const whenSpace = createSpaceWait(watch, supervision);
  const programs = programsOf({
    console: request.withConsole ? consoleProgram(progress) : null,
    gateway: request.withGateway ? pathOfPart('gateway') : null,
  });
  const unlock = await unlessStopped(stop, () =>
    whenSpace(() => {
      makeHome(home);
      return lockHome(home);
    }),
  );
  if (unlock === undefined) return;
  const enders: (() => Promise<void>)[] = [];
  let isCleared = false;
  try {
    const { environment } = cli.context;
    const drone = prepareDrone(request, { home, environment, roomServerPath: programs.room });
    await clearAway(home, progress);
    isCleared = true;
    const place = await checkPlace(config, programs);
    const parts = await unlessStopped(stop, async () => {
      await whenSpace(() => mkdirSync(join(home, 'logs'), { recursive: true, mode: 0o700 }));
      return startParts({
        supervision,
        watch,
        whenSpace,
        programs,
        progress,
        drone,
        environment,
        config: { ...config, ...place },
        atEnd: (ender) => enders.push(ender),
      });
    });
    if (parts === undefined) return;
    onRunning(parts.run(), parts.signIn);
    await untilAsked(stop, parts);
    const last = config.databaseUrl === null ? ', then PostgreSQL' : '';
    progress.say(`\nStopping the drone and its backends, then the controller${last}.`);
  } finally {
    for (const end of enders.reverse()) await end();
    // Before that, the record is of a killed run, whose processes the next one must still find.
    if (isCleared) forgetRun(home);
    unlock();
  }
}

/** A start may fail because everything is told to end meanwhile: then the result is undefined. */
async function unlessStopped<Result>(
  stop: AbortSignal,
  start: () => Promise<Result>,
): Promise<Result | undefined> {
  try {
    return await start();
  } catch (error) {
    if (stop.aborted) return undefined;
    throw error;
  }
}

function programsOf(optional: Pick<Programs, 'console' | 'gateway'>): Programs {
  return {
    ...optional,
    controller: pathOfPart('controller'),
    drone: pathOfPart('drone'),
    room: pathOfPart('room'),
    migrations: pathOfPart('migrations'),
  };
}

function consoleProgram(progress: Progress): string | null {
  if (hasPart('console') && hasPart('pages')) return pathOfPart('console');
  progress.warn('the console is missing, and is not started; in a clone, run `npm run build`');
  return null;
}

async function clearAway(home: string, progress: Progress): Promise<void> {
  const endedCount = await endLeftovers(home);
  if (endedCount > 0) {
    progress.warn(`ended processes that an earlier run had left behind: ${String(endedCount)}`);
  }
}

/** Waits for a signal; throws when a part dies too often before that. */
async function untilAsked(stop: AbortSignal, parts: Parts): Promise<void> {
  if (stop.aborted) return;
  const asked = new Promise<void>((resolve) => {
    stop.addEventListener('abort', () => {
      resolve();
    });
  });
  await Promise.race([asked, parts.failed]);
}

/** The ports of what listens: they stay the same when it is started again. */
type Place = Record<'port' | 'consolePort' | 'gatewayPort', number>;

/** How another port is chosen, for a user who finds one taken. */
const ANOTHER_PORT = {
  port: '--port N (or LEASEHOLD_PORT)',
  consolePort: '--console-port N (or LEASEHOLD_CONSOLE_PORT)',
  gatewayPort: '--gateway-port N (or LEASEHOLD_GATEWAY_PORT)',
} as const satisfies Record<keyof Place, string>;
const LISTENERS = {
  port: 'controller',
  consolePort: 'console',
  gatewayPort: 'gateway',
} as const satisfies Record<keyof Place, string>;
/** How often to look for a free port that no other part has. */
const FREE_PORT_TRIES_MAX = 10;

/**
 * Checks everything on this machine that could keep the parts from starting.
 * @returns the ports that were asked for, or a free one for each 0.
 * @throws {CliFailure} `up.cannot_start` with every problem at once; nothing was started.
 */
async function checkPlace(
  config: CliConfig,
  { console, gateway }: Pick<Programs, 'console' | 'gateway'>,
): Promise<Place> {
  const place: Place = {
    port: config.port,
    consolePort: config.consolePort,
    gatewayPort: config.gatewayPort,
  };
  const wanted: (keyof Place)[] = ['port'];
  if (console !== null) wanted.push('consolePort');
  if (gateway !== null) wanted.push('gatewayPort');
  const problems = [homeProblem(config.home)];
  const taken = new Map<number, keyof Place>();
  for (const name of wanted) {
    const found = await findPort(config.host, place[name], { name, taken });
    place[name] = found.port;
    taken.set(found.port, name);
    problems.push(found.problem);
  }
  const known = problems.filter((problem) => problem !== undefined);
  if (known.length === 0) return place;
  throw new CliFailure(`Nothing was started:${known.map((text) => `\n  ${text}`).join('')}`, {
    code: 'up.cannot_start',
    exitCode: EXIT_CODES.refused,
    details: { problems: known },
  });
}

/** A port that can be listened on, and that no other part has. */
async function findPort(
  host: string,
  port: number,
  { name, taken }: { name: keyof Place; taken: ReadonlyMap<number, keyof Place> },
): Promise<{ port: number; problem?: string }> {
  for (let left = FREE_PORT_TRIES_MAX; left > 0; left -= 1) {
    const listened = await tryToListen(host, port, ANOTHER_PORT[name]);
    if (!taken.has(listened.port)) return listened;
    if (port !== 0) break;
  }
  const other = LISTENERS[taken.get(port) ?? 'port'];
  return {
    port,
    problem:
      `port ${String(port)} cannot be the ${other}'s and the ${LISTENERS[name]}'s: ` +
      `choose another one with ${ANOTHER_PORT[name]}`,
  };
}

function homeProblem(home: string): string | undefined {
  try {
    accessSync(home, constants.R_OK | constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    return `the directory ${home} cannot be used (${cause}): set LEASEHOLD_HOME to another one`;
  }
}

/**
 * Listens on an address for a moment. Port 0 finds a free one.
 * @param remedy how another port is chosen, for a user who finds this one taken.
 */
async function tryToListen(
  host: string,
  port: number,
  remedy: string,
): Promise<{ port: number; problem?: string }> {
  const probe = createServer();
  try {
    probe.listen(port, host);
    await once(probe, 'listening');
    const found = (probe.address() as AddressInfo).port;
    probe.close();
    await once(probe, 'close');
    return { port: found };
  } catch (error) {
    return { port, problem: problemOf(error, { host, port, remedy }) };
  }
}

function problemOf(
  error: unknown,
  { host, port, remedy }: { host: string; port: number; remedy: string },
): string {
  if (isErrorCode(error, 'EADDRINUSE')) {
    return (
      `port ${String(port)} of ${host} is in use by another program: ` +
      `end it, or choose another port with ${remedy}`
    );
  }
  if (isErrorCode(error, 'EACCES')) {
    return `port ${String(port)} may not be used by this user: choose one above 1023 with ${remedy}`;
  }
  const cause = error instanceof Error ? error.message : String(error);
  return `LEASEHOLD_HOST ${host} cannot be listened on: ${cause}`;
}
