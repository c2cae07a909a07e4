/**
 * Runs everything on this machine: PostgreSQL (or somebody else's, by DATABASE_URL), a controller,
 * the console, and a drone with its warden.
 *
 * Start: everything that can be wrong is checked before anything starts; then each part starts
 * when the one that it needs answers; `run.json` is written when all of them do. While it runs,
 * what dies is started again after a growing delay. The end, whatever its cause, is the reverse:
 * the drone stops its backends and reports it, then the console ends, the controller, PostgreSQL.
 *
 * If this process is killed, the others notice that it is gone and end by themselves; the next
 * `leasehold up` waits for them.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { AdminSignIn } from '@leasehold/keys-core/access';
import type { Cli } from '../cli.ts';
import type { CliConfig } from '../config/config.ts';
import { makeHome, type RunFile } from '../config/home.ts';
import { hasPart, pathOfPart } from '../sibling-app.ts';
import { FailureWatch } from './checks/failure-watch.ts';
import { lockHome } from './checks/home-lock.ts';
import { systemSupervision } from '@leasehold/service-kit/supervision';
import { endLeftovers, forgetRun } from './processes/leftovers.ts';
import { checkPlace } from './checks/place-check.ts';
import type { UpRequest } from './programs/up-request.ts';
import { prepareDrone } from './up-drone.ts';
import type { Progress } from './progress.ts';
import { startParts, type Parts, type Programs } from './parts.ts';
import { createSpaceWait } from './checks/space-wait.ts';

export interface UpOptions {
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
  const programs = programsOf(request.withConsole ? consoleProgram(progress) : null);
  const unlock = await unlessStopped(stop, () =>
    whenSpace(() => {
      makeHome(home);
      return lockHome(home);
    }),
  );
  if (unlock === undefined) return;
  const enders: (() => Promise<void>)[] = [];
  try {
    const { environment } = cli.context;
    const drone = prepareDrone(request, { home, environment, roomServerPath: programs.room });
    await clearAway(home, progress);
    const place = await checkPlace(config, { withConsole: programs.console !== null });
    const parts = await unlessStopped(stop, async () => {
      await whenSpace(() => mkdirSync(join(home, 'logs'), { recursive: true, mode: 0o700 }));
      return startParts({
        ...{ supervision, watch, whenSpace, programs, progress, drone, environment },
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
    forgetRun(home);
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

function programsOf(console: string | null): Programs {
  return {
    console,
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
