import { resolve } from 'node:path';
import { LeaseError } from '@leasehold/keys-core';
import { parseEnvironment, type Environment, type LogLevel } from '@leasehold/service-kit';
import {
  consoleSecret,
  controllerUrls,
  controllerVariables,
  logLevel,
  origin,
  port,
  trustedProxies,
} from '@leasehold/service-kit/variables';
import { z } from 'zod';

/** The configuration of a console; see docs/reference/configuration.md. */
export interface ConsoleConfig {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** The addresses of the controllers, or of a proxy in front of several. */
  readonly controllerUrls: readonly string[];
  /** The origin that browsers open this console at: cookies and sign-ins belong to it. */
  readonly origin: string;
  /** Addresses and networks whose `x-forwarded-for` is believed. */
  readonly trustedProxies: readonly string[];
  /** What it proves itself to controllers by; null: a secret that is kept in the home. */
  readonly consoleSecret: string | null;
  readonly home: string;
  readonly logLevel: LogLevel;
}

/** The one place where the console's process reads its environment. */
export function processEnvironment(): Environment {
  return process.env;
}

/**
 * Next, React and what they load read these when they are loaded, so this comes before.
 * @param builtConfig the configuration that the pages were built with, as JSON. Without it Next would look for
 *   a `next.config` in this folder and in all folders above it, which in an installation are somebody else's.
 */
export function setProductionMode(builtConfig: string): void {
  Object.assign(process.env, {
    NODE_ENV: 'production',
    NEXT_TELEMETRY_DISABLED: '1',
    __NEXT_PRIVATE_STANDALONE_CONFIG: builtConfig,
  });
}

/** The variables that the console reads. */
export const environmentSchema = z.object({
  LEASEHOLD_HOST: z.string().default('127.0.0.1'),
  LEASEHOLD_CONSOLE_PORT: port.default(4_601),
  LEASEHOLD_URL: controllerUrls.default(['http://127.0.0.1:4600']),
  LEASEHOLD_CONSOLE_ORIGIN: origin.optional(),
  LEASEHOLD_TRUSTED_PROXIES: trustedProxies,
  LEASEHOLD_HOME: controllerVariables.LEASEHOLD_HOME,
  LEASEHOLD_CONSOLE_SECRET: consoleSecret,
  LEASEHOLD_LOG_LEVEL: logLevel,
});

/** The variables that a console reads. */
export const CONSOLE_VARIABLES = Object.keys(environmentSchema.shape);

/**
 * The configuration that an environment describes.
 * @throws {LeaseError} `config.invalid` that lists every problem at once, each by its variable.
 */
export function readConfig(environment: Environment): ConsoleConfig {
  const parsed = parseEnvironment(environmentSchema, environment);
  if (parsed.outcome === 'invalid') {
    const list = parsed.problems.map((problem) => `  ${problem}`).join('\n');
    throw new LeaseError('config.invalid', `The configuration is not valid:\n${list}`, {
      details: { problems: parsed.problems },
    });
  }
  const { values } = parsed;
  const port = values.LEASEHOLD_CONSOLE_PORT;
  return {
    host: values.LEASEHOLD_HOST,
    port,
    controllerUrls: values.LEASEHOLD_URL,
    origin: (values.LEASEHOLD_CONSOLE_ORIGIN ?? `http://localhost:${String(port)}`).toLowerCase(),
    trustedProxies: values.LEASEHOLD_TRUSTED_PROXIES,
    consoleSecret: values.LEASEHOLD_CONSOLE_SECRET ?? null,
    home: resolve(values.LEASEHOLD_HOME),
    logLevel: values.LEASEHOLD_LOG_LEVEL,
  };
}
