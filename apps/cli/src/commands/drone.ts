import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { becomeApp } from '../sibling-app.ts';

const HELP = `
LEASEHOLD_URL and LEASEHOLD_TOKEN say which controllers, separated by commas, and as whom. Its log is JSON, one entry per
line. SIGTERM stops all backends and ends it; SIGUSR2 ends it and leaves the backends to the next
one, for an upgrade.`;

/** `leasehold drone`: the agent of a worker machine, which starts the machine's warden. */
export function addDrone(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'drone', 'Run a drone, which runs backends on this machine')
    .requiredOption('--config <file>', 'its programs and limits, a JSON file')
    .addHelpText('after', HELP)
    .action(async ({ config }: { config: string }) => {
      await becomeApp('drone', ['agent', '--config', config]);
      cli.handOver();
    });
}
