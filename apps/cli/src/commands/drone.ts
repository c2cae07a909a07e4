import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { becomeApp } from '../sibling-app.ts';

const HELP = `
LEASEHOLD_URL lists the controllers, separated by commas. LEASEHOLD_TOKEN is the token of the drone. Its
log is JSON, one entry per line. SIGTERM stops all backends and ends the drone. SIGUSR2 ends only the
agent: the next one adopts the backends, for an upgrade.`;

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
