import { controllerAccess } from '../cli.ts';
import { parseConfig, redactedUrl, type CliConfig } from '../config.ts';
import { failureOf } from '../failure-of.ts';
import { readRunFile } from '../home.ts';
import { examineController } from './controller-check.ts';
import { examineDatabase } from './database-check.ts';
import { skipped, well, wrong, type Finding } from './finding.ts';
import { examineHome } from './home-check.ts';

/** Looks at everything that can be looked at from here. Never throws: a failure is a finding. */
export async function examine(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Finding[]> {
  let config: CliConfig;
  try {
    config = parseConfig(environment);
  } catch (error) {
    const { message } = failureOf(error);
    return [wrong('configuration', message, 'Mend these variables, and run this again.')];
  }
  const configuration = well(
    'configuration',
    `preset ${config.preset}: a key lasts ${String(config.ladder.ttlMs)} ms, its backend is killed ` +
      `after ${String(config.ladder.hardAfterMs)} ms without a renewal`,
  );
  const home = examineHome(config);
  return [configuration, home, ...(await databaseFindings(config)), ...(await controllerFindings(config))];
}

async function databaseFindings(config: CliConfig): Promise<Finding[]> {
  const databaseUrl = config.databaseUrl ?? localDatabaseUrl(config);
  if (databaseUrl === undefined) {
    return [skipped('database', 'neither DATABASE_URL nor a running `leasehold up` names one')];
  }
  try {
    return await examineDatabase(databaseUrl, config);
  } catch (error) {
    const { message } = failureOf(error);
    return [
      wrong(
        'database',
        `${redactedUrl(databaseUrl)} cannot be used: ${message}`,
        'See that it runs, that DATABASE_URL is right, and that this machine may reach it.',
      ),
    ];
  }
}

/** Only what runs in the home, and only if commands talk to that. */
function localDatabaseUrl(config: CliConfig): string | undefined {
  return config.url === null ? readRunFile(config.home)?.databaseUrl : undefined;
}

async function controllerFindings(config: CliConfig): Promise<Finding[]> {
  try {
    return await examineController(controllerAccess(config), config);
  } catch (error) {
    const { message, hint } = failureOf(error);
    return [wrong('controller', message, hint ?? 'See the log of the controller.')];
  }
}
