import { toleratedClockRatio } from '@leasehold/keys-core';
import { plainDatabaseUrl } from '@leasehold/service-kit';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { redactedConfig, type ConfigInEffect } from '../config/config.ts';
import { findTarget } from '../contexts/target.ts';
import { unreachable } from '../failures/failure.ts';
import { namedDatabase, readCredentials, readRunFile, runningUpOf, type RunFile } from '../home.ts';
import { detailsText } from '../output/table.ts';

interface PrintOptions {
  readonly databaseUrl?: true;
  readonly showSecrets?: true;
}

const HELP = `
While \`leasehold up\` runs in the home, this is what it runs with. The address of the database is one for
psql and other programs, with its password:

  psql "$(leasehold config print --database-url)"`;

/** `leasehold config print`: what is in effect, without secrets unless they are asked for. */
export function addConfig(cli: Cli, program: Command): void {
  const parent = program.command('config').description('Show the configuration');
  cli
    .leaf(parent, 'print', 'Print the configuration in effect, without secrets')
    .option('--database-url', 'print the address of the database alone, with its password')
    .option('--show-secrets', 'print secrets as they are')
    .addHelpText('after', HELP)
    .action((options: PrintOptions) => {
      if (options.databaseUrl === true) {
        const databaseUrl = plainDatabaseUrl(databaseUrlOf(cli));
        cli.show({ databaseUrl }, () => databaseUrl);
        return;
      }
      const { from, ...config } = inEffect(cli);
      const shown = {
        ...(options.showSecrets === true ? config : redactedConfig(config)),
        ...{ clockRatioMax: toleratedClockRatio(config.ladder), from },
      };
      cli.show(shown, () => detailsText(flattened(shown)));
    });
}

/** @throws {CliFailure} `cli.unreachable` when no database is named and none runs. */
function databaseUrlOf(cli: Cli): string {
  const config = cli.config();
  const found = namedDatabase(config) ?? runningIn(config.home)?.databaseUrl;
  if (found !== undefined) return found;
  throw unreachable(
    `Nothing runs in ${config.home}, and DATABASE_URL is not set.`,
    '`leasehold up` starts a PostgreSQL; its port stays the same from start to start.',
  );
}

/** What runs in the home now, and not what was left behind by a run that was killed. */
function runningIn(home: string): RunFile | undefined {
  return runningUpOf(home) === undefined ? undefined : readRunFile(home);
}

/** The configuration, as what runs here has it, and the controllers that commands talk to. */
function inEffect(cli: Cli): ConfigInEffect & { readonly from: { urls: string; token: string } } {
  const config = cli.config();
  const { urls, token, context, from } = findTarget(config, cli.environment);
  if (urls !== null) return { ...config, urls, token, context, from };
  const run = runningIn(config.home);
  if (run === undefined) return { ...config, urls, token, context, from };
  return {
    ...{ ...config, ...run.settings, context, from },
    databaseUrl: run.databaseUrl,
    urls: [run.controllerUrl],
    consoleOrigin: config.consoleOrigin ?? run.consoleUrl,
    token: token ?? readCredentials(config.home)?.admin ?? null,
  };
}

function flattened(value: object, prefix = ''): [string, string][] {
  return Object.entries(value).flatMap(([name, inner]: [string, unknown]): [string, string][] => {
    if (Array.isArray(inner)) return [[`${prefix}${name}`, inner.join(', ')]];
    if (typeof inner === 'object' && inner !== null) return flattened(inner, `${prefix}${name}.`);
    const isText = typeof inner === 'string' || typeof inner === 'number';
    return [[`${prefix}${name}`, isText ? String(inner) : '-']];
  });
}
