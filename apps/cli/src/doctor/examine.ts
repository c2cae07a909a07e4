import { storeErrorOf } from '@leasehold/keys-core/keys';
import type { Environment } from '@leasehold/service-kit';
import { shownUrl } from '@leasehold/service-kit';
import { parseConfig, type CliConfig } from '../config/config.ts';
import { controllerAccess, findTarget, type Target } from '../contexts/target.ts';
import { failureOf } from '../failures/failure-of.ts';
import { readRunFile, runningUpOf } from '../home.ts';
import { examineConsole } from './console-check.ts';
import { examineController } from './controller-check.ts';
import { examineDatabase } from './database-check.ts';
import { examineDatacenters } from './datacenter-check.ts';
import { skipped, well, wrong, type Finding } from './finding.ts';
import { examineHome } from './home-check.ts';

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
