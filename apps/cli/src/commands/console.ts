import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { becomeApp } from '../sibling-app.ts';

const HELP = `
LEASEHOLD_URL lists the controllers, separated by commas. LEASEHOLD_CONSOLE_ORIGIN is the origin under
which browsers reach the console; set the same for the controllers. Its log is JSON, one entry per line.
SIGTERM stops it gracefully.`;

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
