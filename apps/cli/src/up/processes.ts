import { join } from 'node:path';
import type { CliConfig } from '../config.ts';
import type { ChildSpec } from './supervised-child.ts';

/** A backend's grace, the report of its end, and some room. */
const AGENT_STOP_TIMEOUT_MS = 30_000;
const CONTROLLER_STOP_TIMEOUT_MS = 15_000;

type Environment = Readonly<Record<string, string | undefined>>;

/** Where the log of a process of this home is. */
export function logPath(home: string, name: string): string {
  return join(home, 'logs', `${name}.log`);
}

/** How the controller is started. It takes the configuration from its environment, as always. */
export function controllerSpec(
  config: CliConfig,
  of: { environment: Environment; programPath: string; databaseUrl: string },
): ChildSpec {
  return {
    name: 'controller',
    args: [of.programPath],
    env: variables(of.environment, {
      DATABASE_URL: of.databaseUrl,
      LEASEHOLD_HOME: config.home,
      LEASEHOLD_HOST: config.host,
      LEASEHOLD_PORT: String(config.port),
      LEASEHOLD_PRESET: config.preset,
      LEASEHOLD_URL: undefined,
      LEASEHOLD_TOKEN: undefined,
    }),
    logPath: logPath(config.home, 'controller'),
    stopTimeoutMs: CONTROLLER_STOP_TIMEOUT_MS,
  };
}

/** How the drone's agent is started. It never sees the database. */
export function agentSpec(
  config: CliConfig,
  of: {
    environment: Environment;
    programPath: string;
    configPath: string;
    controllerUrl: string;
    token: string;
  },
): ChildSpec {
  return {
    name: 'drone',
    args: [of.programPath, 'agent', '--config', of.configPath],
    env: variables(of.environment, {
      DATABASE_URL: undefined,
      LEASEHOLD_HOME: config.home,
      LEASEHOLD_PRESET: config.preset,
      LEASEHOLD_URL: of.controllerUrl,
      LEASEHOLD_TOKEN: of.token,
    }),
    logPath: logPath(config.home, 'drone'),
    stopTimeoutMs: AGENT_STOP_TIMEOUT_MS,
  };
}

/** Our own environment with some variables set and others taken away. */
function variables(own: Environment, changes: Environment): Record<string, string> {
  return Object.fromEntries(
    Object.entries({ ...own, ...changes }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    ),
  );
}
