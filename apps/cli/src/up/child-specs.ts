import { join } from 'node:path';
import { fileVariableOf, SECRETS } from '@leasehold/service-kit';
import type { CliConfig } from '../config.ts';
import type { ChildSpec } from './supervised-child.ts';

const STOP_TIMEOUTS_MS = {
  controller: 15_000,
  console: 12_000,
  /** Enough for a backend's grace and the report of its end. */
  drone: 30_000,
};

/** Removes what only a controller may see: every secret, except those that another process is given on purpose. */
const SECRETS_OF_CONTROLLERS = Object.fromEntries(
  SECRETS.filter((name) => name !== 'LEASEHOLD_CONSOLE_SECRET' && name !== 'LEASEHOLD_TOKEN').map(
    (name): [string, undefined] => [name, undefined],
  ),
);

/** Hosts that mean this machine, or all of its addresses. */
const HERE: ReadonlySet<string> = new Set(['127.0.0.1', '::1', '0.0.0.0', '::', 'localhost']);

type Environment = Readonly<Record<string, string | undefined>>;

/** The program of a process, and the environment that it gets a part of. */
interface ProgramPlace {
  readonly environment: Environment;
  readonly programPath: string;
}

/** How the controller is started. It takes the configuration from its environment, as always. */
export function controllerSpec(
  config: CliConfig,
  of: ProgramPlace & { databaseUrl: string },
): ChildSpec {
  return specOf('controller', config, of, {
    DATABASE_URL: of.databaseUrl,
    LEASEHOLD_HOST: config.host,
    LEASEHOLD_PORT: String(config.port),
    LEASEHOLD_CONSOLE_ORIGIN: consoleOriginOf(config),
    LEASEHOLD_PRESET: config.preset,
    LEASEHOLD_URL: undefined,
    LEASEHOLD_TOKEN: undefined,
  });
}

/** How the console is started. It sees the controller alone, and has no token. */
export function consoleSpec(
  config: CliConfig,
  of: ProgramPlace & { controllerUrl: string },
): ChildSpec {
  return specOf('console', config, of, {
    ...SECRETS_OF_CONTROLLERS,
    LEASEHOLD_HOST: config.host,
    LEASEHOLD_CONSOLE_PORT: String(config.consolePort),
    LEASEHOLD_CONSOLE_ORIGIN: consoleOriginOf(config),
    LEASEHOLD_URL: of.controllerUrl,
    LEASEHOLD_TOKEN: undefined,
  });
}

/** The origin of the console: as configured, or else for a browser on this machine. */
export function consoleOriginOf(config: CliConfig): string {
  if (config.consoleOrigin !== null) return config.consoleOrigin;
  const host = HERE.has(config.host) ? 'localhost' : config.host;
  return new URL(`http://${host.includes(':') ? `[${host}]` : host}:${String(config.consolePort)}`)
    .origin;
}

/** How the drone's agent is started. It never sees the database. */
export function agentSpec(
  config: CliConfig,
  of: ProgramPlace & { configPath: string; controllerUrl: string; token: string },
): ChildSpec {
  const spec = specOf('drone', config, of, {
    ...SECRETS_OF_CONTROLLERS,
    LEASEHOLD_CONSOLE_SECRET: undefined,
    LEASEHOLD_PRESET: config.preset,
    LEASEHOLD_URL: of.controllerUrl,
    LEASEHOLD_TOKEN: of.token,
  });
  return { ...spec, args: [...spec.args, 'agent', '--config', of.configPath] };
}

/** A process of this home, with our own environment, some variables set and others removed. */
function specOf(
  name: keyof typeof STOP_TIMEOUTS_MS,
  { home }: CliConfig,
  { environment, programPath }: ProgramPlace,
  changes: Environment,
): ChildSpec {
  // What is set or removed here is not read from a file either.
  const files = Object.keys(changes).map((changed): [string, undefined] => [
    fileVariableOf(changed),
    undefined,
  ]);
  const env: Environment = {
    ...environment,
    LEASEHOLD_HOME: home,
    ...Object.fromEntries(files),
    ...changes,
  };
  return {
    name,
    args: [programPath],
    env: Object.fromEntries(
      Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
    ),
    logPath: join(home, 'logs', `${name}.log`),
    stopTimeoutMs: STOP_TIMEOUTS_MS[name],
  };
}
