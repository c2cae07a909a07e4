/** Commands that become another program of Leasehold. */
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { becomeApp } from '../sibling-app.ts';

/** `leasehold controller`: the API server, configured by its environment. */
export function addController(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'controller', 'Run a controller on the database that DATABASE_URL names')
    .addHelpText('after', '\nIts log is JSON, one entry per line. SIGTERM stops it gracefully.')
    .action(() => becomeApp(cli, 'controller', []));
}

const CONSOLE_HELP = `
LEASEHOLD_URL lists the controllers, separated by commas. LEASEHOLD_CONSOLE_ORIGIN is the origin under
which browsers reach the console; set the same for the controllers. Its log is JSON, one entry per line.
SIGTERM stops it gracefully.`;

/** `leasehold console`: the web console, in front of a controller. */
export function addConsole(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'console', 'Run the web console, in front of the controller at LEASEHOLD_URL')
    .addHelpText('after', CONSOLE_HELP)
    .action(() => becomeApp(cli, 'console', []));
}

const DRONE_HELP = `
LEASEHOLD_URL lists the controllers, separated by commas. LEASEHOLD_TOKEN is the token of the drone. Its
log is JSON, one entry per line. SIGTERM stops all backends and ends the drone. SIGUSR2 ends only the
agent: the next one adopts the backends, for an upgrade.`;

/** `leasehold drone`: the agent of a worker machine, which starts the machine's warden. */
export function addDrone(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'drone', 'Run a drone, which runs backends on this machine')
    .requiredOption('--config <file>', 'its programs and limits, a JSON file')
    .addHelpText('after', DRONE_HELP)
    .action(({ config }: { config: string }) =>
      becomeApp(cli, 'drone', ['agent', '--config', config]),
    );
}
