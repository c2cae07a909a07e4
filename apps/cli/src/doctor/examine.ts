import { accessSync, constants, existsSync } from 'node:fs';
import { storeErrorOf } from '@leasehold/keys-core/keys';
import { shownUrl, type Environment } from '@leasehold/service-kit';
import { parseConfig, type CliConfig } from '../config.ts';
import { controllerAccess, findTarget, type Target } from '../contexts.ts';
import { failureOf } from '../failures.ts';
import { readRunFile, runFilePath, runningUpOf } from '../home.ts';
import { examineController } from './controller-check.ts';
import { examineDatabase } from './database-check.ts';
import { examineDatacenters } from './datacenter-check.ts';
import { skipped, unsure, well, wrong, type Finding } from './finding.ts';

/** Checks everything that can be checked from here. Never throws: a failure is a finding. */
export async function examine(environment: Environment): Promise<Finding[]> {
  let config: CliConfig;
  let target: Target;
  try {
    const parsed = parseConfig(environment);
    target = findTarget(parsed, environment);
    config = { ...parsed, urls: target.urls === null ? null : [...target.urls] };
  } catch (error) {
    const { message, hint } = failureOf(error);
    const isVariables = failureOf(error).code === 'config.invalid';
    const advice = isVariables ? 'Correct these variables, and run this again.' : hint;
    return [wrong('configuration', message, advice ?? 'Correct it, and run this again.')];
  }
  return [
    well('configuration', 'every variable is valid; `leasehold config print` shows them'),
    examineHome(config),
    ...(await databaseFindings(config)),
    ...(await examineDatacenters(config)),
    ...(await controllerFindings(config, target)),
    await examineConsole(config),
  ];
}

async function databaseFindings(config: CliConfig): Promise<Finding[]> {
  const databaseUrl = config.databaseUrl ?? localDatabaseUrl(config);
  if (databaseUrl === undefined) {
    return [skipped('database', 'neither DATABASE_URL nor a running `leasehold up` names one')];
  }
  try {
    return await examineDatabase(databaseUrl, config);
  } catch (error) {
    const { message } = failureOf(storeErrorOf(error));
    return [
      wrong(
        'database',
        // The last line is the database's own message.
        `${shownUrl(databaseUrl)}: ${message.trim().split('\n').at(-1) ?? message}`,
        'Check that it runs, that DATABASE_URL is right, and that this machine can reach it.',
      ),
    ];
  }
}

/** Only what runs in the home, and only if commands talk to that. */
function localDatabaseUrl(config: CliConfig): string | undefined {
  const isMeant = config.urls === null && runningUpOf(config.home) !== undefined;
  return isMeant ? readRunFile(config.home)?.databaseUrl : undefined;
}

async function controllerFindings(config: CliConfig, target: Target): Promise<Finding[]> {
  try {
    return await examineController(controllerAccess(config, target));
  } catch (error) {
    const { message, hint } = failureOf(error);
    return [wrong('controller', message, hint ?? 'See the log of the controller.')];
  }
}

/** The home directory, and whether something runs from it. */
function examineHome(config: CliConfig): Finding {
  const { home } = config;
  if (!existsSync(home)) {
    return config.urls === null
      ? wrong(
          'home',
          `${home} does not exist`,
          'Start everything here with `leasehold up`, or set LEASEHOLD_URL.',
        )
      : skipped('home', `${home} does not exist, and LEASEHOLD_URL is set`);
  }
  try {
    accessSync(home, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return wrong(
      'home',
      `${home} may not be used by this user`,
      'Use the user who started `leasehold up`.',
    );
  }
  const up = runningUpOf(home);
  if (up !== undefined) {
    return readRunFile(home) === undefined
      ? unsure(
          'home',
          `${home}: leasehold up is starting, as process ${String(up.pid)}`,
          'Wait a moment.',
        )
      : well('home', `${home}: leasehold up runs as process ${String(up.pid)}`);
  }
  if (readRunFile(home) !== undefined) {
    return wrong(
      'home',
      `${runFilePath(home)} exists, but leasehold up was killed`,
      'Start it again: it ends leftover processes, and keeps the data.',
    );
  }
  return skipped('home', `${home}: leasehold up does not run`);
}

const ANSWER_TIMEOUT_MS = 5_000;

/** The console that browsers are sent to, and whether it reaches its controller. */
async function examineConsole(config: CliConfig): Promise<Finding> {
  const running = config.urls === null ? readRunFile(config.home)?.consoleUrl : null;
  const url = config.consoleOrigin ?? running ?? null;
  if (url === null) {
    return skipped('console', 'none runs here, and LEASEHOLD_CONSOLE_ORIGIN names no other');
  }
  try {
    const page = await ask(`${url}/healthz`);
    if (!page.ok) {
      return wrong(
        'console',
        `${url} answers with ${String(page.status)}`,
        'Is this the address of a console? See its log.',
      );
    }
    const passed = await ask(`${url}/api/auth/sign-in-options`);
    return passed.ok
      ? well('console', `${url} answers, and reaches its controller`)
      : wrong(
          'console',
          `${url} answers, but cannot reach its controller (${String(passed.status)})`,
          'Check its LEASEHOLD_URL, and that the controller runs.',
        );
  } catch (error) {
    return wrong(
      'console',
      `${url} does not answer: ${causeOf(error)}`,
      'Is it running, and can this machine reach it? See its log.',
    );
  }
}

function ask(url: string): Promise<Response> {
  return fetch(url, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}
