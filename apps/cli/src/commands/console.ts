import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { becomeApp } from '../sibling-app.ts';

const HELP = `
LEASEHOLD_URL says which controllers, separated by commas, LEASEHOLD_CONSOLE_ORIGIN what browsers call the console by: the
controller must be told the same. Its log is JSON, one entry per line. SIGTERM ends it in good order.`;

/** `leasehold console`: the web console, in front of a controller. */
export function addConsole(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'console', 'Run the web console, in front of the controller at LEASEHOLD_URL')
    .addHelpText('after', HELP)
    .action(async () => {
      await becomeApp('console', []);
      cli.handOver();
    });
}
