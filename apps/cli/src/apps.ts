/** The other programs of this installation, and the commands that become one of them. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import type { Cli } from './cli.ts';
import { refusal, usageFailure } from './failures.ts';
import { withDuration } from './options.ts';

/** Of a command that runs a program here, and asks no controller. */
export const HERE = { hasContext: false } as const;

/** `leasehold controller`: the API server, configured by its environment. */
export function addController(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'controller', 'Run a controller on the database that DATABASE_URL names', HERE)
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
    .leaf(
      parent,
      'console',
      'Run the web console, in front of the controller at LEASEHOLD_URL',
      HERE,
    )
    .addHelpText('after', CONSOLE_HELP)
    .action(() => becomeApp(cli, 'console', []));
}

const GATEWAY_HELP = `
LEASEHOLD_URL lists the controllers, separated by commas. LEASEHOLD_TOKEN is a token of the role gateway.
LEASEHOLD_GATEWAY_LISTEN is where it listens, LEASEHOLD_GATEWAY_URL the origin under which browsers reach it; set
the latter for the controllers too. Its log is JSON, one entry per line. SIGTERM stops it gracefully.`;

/** `leasehold gateway run`: the proxy between browsers and backends. */
export function addGatewayRun(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'run', 'Run a gateway, through which browsers reach the backends of keys', HERE)
    .addHelpText('after', GATEWAY_HELP)
    .action(() => becomeApp(cli, 'gateway', []));
}

const DRONE_HELP = `
LEASEHOLD_URL lists the controllers, separated by commas. LEASEHOLD_TOKEN is the token of the drone. Its
log is JSON, one entry per line. SIGTERM stops all backends and ends the drone. SIGUSR2 ends only the
agent: the next one adopts the backends, for an upgrade.`;

/** `leasehold drone`: the agent of a worker machine, which starts the machine's warden. */
export function addDrone(cli: Cli, parent: Command): void {
  const drone = cli
    .leaf(parent, 'drone', 'Run a drone, which runs backends on this machine', HERE)
    .requiredOption('--config <file>', 'its programs and limits, a JSON file')
    .addHelpText('after', DRONE_HELP)
    .action(({ config }: { config: string }) =>
      becomeApp(cli, 'drone', ['agent', '--config', config]),
    );
  addUpgrade(cli, drone);
}

const UPGRADE_HELP = `
Run this with the new version, on the machine of the drone and as its user; --config names the configuration of the
drone. It starts an agent of the new version, which takes the backends over while they run, and waits until the service
manager has started its own. If the new agent does not start, the former one goes on. docs/upgrades.md explains it.`;

interface UpgradeOptions {
  readonly config: string;
  readonly environment?: string;
  readonly install?: string;
  /** Milliseconds. */
  readonly timeout?: number;
}

/** Milliseconds: the range and the default of the drone's own `upgrade`. */
const STEP_RANGE = [1_000, 60 * 60_000] as const;
const STEP_MS = 60_000;

/** `leasehold drone upgrade`: this version in place of the one that runs. */
function addUpgrade(cli: Cli, parent: Command): void {
  // No leaf: it says as text how it goes, and talks to no controller itself.
  const command = parent
    .command('upgrade')
    .description('Replace the agent of a drone by this version while its backends run')
    .showHelpAfterError('(--help lists what the command accepts)');
  withDuration(command, '--timeout', {
    about: 'how long each step may take',
    range: STEP_RANGE,
    defaultMs: STEP_MS,
  })
    .option('--environment <file>', 'variables of the drone, as its service manager reads them')
    .option('--install <file>', 'copy this program to the file that the service manager starts')
    .addHelpText('after', UPGRADE_HELP)
    .action((_options: unknown, command: Command) => {
      if (cli.isJson) {
        throw usageFailure('drone upgrade says as text how it goes: leave out --json.');
      }
      const { config, environment, install, timeout } = command.optsWithGlobals<UpgradeOptions>();
      const given = {
        '--environment': environment,
        '--install': install,
        '--timeout': timeout?.toString(),
      };
      const words = Object.entries(given).flatMap(([name, value]) =>
        value === undefined ? [] : [name, value],
      );
      return becomeApp(cli, 'drone', ['upgrade', '--config', config, ...words]);
    });
}

/**
 * Where the programs are, relative to this one's own file `apps/cli/dist/main.mjs`: an installed package has
 * the folders of the repository. They are found as files because an app may not import another.
 */
const FROM_DIST = {
  cli: 'main.mjs',
  controller: '../../controller/dist/main.mjs',
  drone: '../../drone/dist/main.mjs',
  console: '../../console/dist/main.mjs',
  gateway: '../../gateway/dist/main.mjs',
  /** The file that a build of the console's pages writes last. */
  pages: '../../console/.next/BUILD_ID',
  room: '../../../examples/room-server/server.mjs',
  migrations: '../../../prisma/migrations',
} as const;

type Part = keyof typeof FROM_DIST;

/** Whether a part of this installation exists. */
export function hasPart(part: Part): boolean {
  return existsSync(pathOf(part));
}

function pathOf(part: Part): string {
  return fileURLToPath(new URL(FROM_DIST[part], import.meta.url));
}

/** The path of a part of this installation. @throws {CliFailure} when it is not there. */
export function pathOfPart(part: Part): string {
  const path = pathOf(part);
  if (!existsSync(path)) {
    const help = 'Install Leasehold again; in a clone, run `npm run build`.';
    throw refusal('install.incomplete', `${path} is missing.`, help);
  }
  return path;
}

/** @throws {CliFailure} `cli.usage` for a `--context`, which what a command runs here would not look at. */
export function refuseContext(cli: Cli): void {
  if (cli.environment === cli.context.environment) return;
  throw usageFailure(
    '--context is for commands that talk to controllers. This one runs a program here: leave it out.',
    'Variables such as LEASEHOLD_URL, DATABASE_URL and LEASEHOLD_HOME name what the program uses.',
  );
}

/**
 * Becomes another program: it finds its own arguments in `process.argv`, and from here on the
 * process belongs to it.
 */
async function becomeApp(
  cli: Cli,
  app: 'controller' | 'console' | 'drone' | 'gateway',
  args: readonly string[],
): Promise<void> {
  refuseContext(cli);
  const path = pathOfPart(app);
  process.argv = [process.argv[0] ?? 'node', path, ...args];
  await import(path);
  cli.exitCode = undefined;
}
