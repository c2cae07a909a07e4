import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { becomeApp } from '../sibling-app.ts';

/** `leasehold controller`: the API server, configured by its environment. */
export function addController(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'controller', 'Run a controller on the database that DATABASE_URL names')
    .addHelpText('after', '\nIts log is JSON, one entry per line. SIGTERM stops it gracefully.')
    .action(async () => {
      await becomeApp('controller', []);
      cli.handOver();
    });
}
