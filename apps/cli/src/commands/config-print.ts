import { toleratedClockRatio } from '@leasehold/keys-core';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { redactedConfig } from '../config/config.ts';
import { findTarget } from '../contexts/target.ts';
import { detailsText } from '../output/table.ts';

/** `leasehold config print`: what is in effect, without secrets. */
export function addConfig(cli: Cli, program: Command): void {
  const parent = program.command('config').description('Show the configuration');
  cli.leaf(parent, 'print', 'Print the configuration in effect, without secrets').action(() => {
    const { urls, token, context, from } = findTarget(cli.config(), cli.environment);
    const config = { ...cli.config(), urls, token, context };
    const shown = {
      ...redactedConfig(config),
      clockRatioMax: toleratedClockRatio(config.ladder),
      from,
    };
    cli.show(shown, () => detailsText(flattened(shown)));
  });
}

function flattened(value: object, prefix = ''): [string, string][] {
  return Object.entries(value).flatMap(([name, inner]: [string, unknown]): [string, string][] => {
    if (Array.isArray(inner)) return [[`${prefix}${name}`, inner.join(', ')]];
    if (typeof inner === 'object' && inner !== null) return flattened(inner, `${prefix}${name}.`);
    const isText = typeof inner === 'string' || typeof inner === 'number';
    return [[`${prefix}${name}`, isText ? String(inner) : '-']];
  });
}
