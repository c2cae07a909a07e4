/**
 * The configuration of a gateway, from the environment, which nothing else in this app reads. All problems are listed
 * at once, before anything is started.
 */
import { readFileSync } from 'node:fs';
import os from 'node:os';
import { createSecureContext } from 'node:tls';
import { idSchema } from '@leasehold/api/contract';
import { LeaseError } from '@leasehold/keys-core';
import { parseEnvironment, type Environment, type LogLevel } from '@leasehold/service-kit';
import {
  controllerUrls,
  keyHosts,
  logLevel,
  origin,
  tokenText,
  trustedProxies,
  wholeNumber,
} from '@leasehold/service-kit/variables';
import { z } from 'zod';

/** Where a server listens. */
export interface Listen {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/** What a gateway is started with; see docs/reference/configuration.md. */
export interface GatewayConfig {
  readonly controllerUrls: readonly string[];
  readonly token: string;
  readonly gatewayId: string;
  readonly listen: Listen;
  /** For `/healthz`, `/readyz` and `/metrics`: no request of a browser arrives there. */
  readonly metricsListen: Listen;
  /** Under which browsers reach it, as an origin; null: whatever name they use. */
  readonly publicUrl: string | null;
  /** What follows the id of a key in the name of its host, with its first dot; null: keys have no hosts. */
  readonly keyHosts: string | null;
  /** In PEM; null: whatever is in front of the gateway speaks TLS, or nobody does. */
  readonly tls: { readonly cert: Buffer; readonly key: Buffer } | null;
  readonly trustedProxies: readonly string[];
  readonly bounds: GatewayBounds;
  readonly logLevel: LogLevel;
}

/** How much of a gateway its callers may use together. */
export interface GatewayBounds {
  /** Connections of clients, with WebSockets. */
  readonly connectionsMax: number;
  /** Requests that wait for a route. */
  readonly heldMax: number;
  /** What these keep in memory. */
  readonly heldBytesMax: number;
  /** The line and the headers of a request. */
  readonly headerBytesMax: number;
  /** How long a request waits for a route. */
  readonly holdMs: number;
}

const HOST_AND_PORT = /^(?:\[([0-9a-fA-F:.]{2,45})\]|([A-Za-z0-9.-]{1,253})):(\d{1,5})$/u;
const DAY_MS = 86_400_000;
const PORT_MAX = 65_535;

function listenOf(text: string): Listen | undefined {
  const [, six, name, port] = HOST_AND_PORT.exec(text) ?? [];
  const host = six ?? name;
  if (host === undefined || Number(port) > PORT_MAX) return undefined;
  return { host, port: Number(port) };
}

const listen = (standard: string) =>
  z
    .string()
    .default(standard)
    .transform((text, context) => {
      const found = listenOf(text);
      if (found !== undefined) return found;
      context.addIssue('must be host:port, as in 0.0.0.0:4602 or [::]:4602');
      return z.NEVER;
    });

/** The content of a file that a variable names. */
const pemFile = z.string().transform((file, context) => {
  try {
    return readFileSync(file);
  } catch (error) {
    context.addIssue(`cannot be read: ${String((error as NodeJS.ErrnoException).code)}`);
    return z.NEVER;
  }
});

/** The variables that a gateway reads, besides those of tracing. */
export const environmentSchema = z.object({
  LEASEHOLD_URL: controllerUrls,
  LEASEHOLD_TOKEN: tokenText,
  LEASEHOLD_GATEWAY_ID: idSchema.optional(),
  LEASEHOLD_GATEWAY_LISTEN: listen('127.0.0.1:4602'),
  LEASEHOLD_GATEWAY_METRICS_LISTEN: listen('127.0.0.1:4603'),
  LEASEHOLD_GATEWAY_URL: origin.optional(),
  LEASEHOLD_GATEWAY_HOSTS: keyHosts.optional(),
  LEASEHOLD_GATEWAY_TLS_CERT: pemFile.optional(),
  LEASEHOLD_GATEWAY_TLS_KEY: pemFile.optional(),
  LEASEHOLD_TRUSTED_PROXIES: trustedProxies,
  LEASEHOLD_GATEWAY_CONNECTIONS_MAX: wholeNumber(1, 1_000_000).default(20_000),
  LEASEHOLD_GATEWAY_HELD_MAX: wholeNumber(1, 100_000).default(2_000),
  LEASEHOLD_GATEWAY_HELD_BYTES_MAX: wholeNumber(65_536, 17_179_869_184).default(268_435_456),
  LEASEHOLD_GATEWAY_HEADER_BYTES_MAX: wholeNumber(4_096, 262_144).default(16_384),
  LEASEHOLD_GATEWAY_HOLD_MS: wholeNumber(1, DAY_MS).default(30_000),
  LEASEHOLD_LOG_LEVEL: logLevel,
});

/** The variables that a gateway reads. */
export const GATEWAY_VARIABLES = Object.keys(environmentSchema.shape);

/** The environment of this process: the one place that reads it. */
export function processEnvironment(): Environment {
  return process.env;
}

/**
 * The configuration that an environment describes.
 * @throws {LeaseError} `config.invalid` that lists every problem at once, each by its variable.
 */
export function readConfig(environment: Environment): GatewayConfig {
  const parsed = parseEnvironment(environmentSchema, required(environment));
  if (parsed.outcome === 'invalid') throw invalid(parsed.problems);
  const { values } = parsed;
  const cert = values.LEASEHOLD_GATEWAY_TLS_CERT;
  const key = values.LEASEHOLD_GATEWAY_TLS_KEY;
  const problems = tlsProblems(cert, key);
  if (problems.length > 0) throw invalid(problems);
  const { port } = values.LEASEHOLD_GATEWAY_LISTEN;
  return {
    controllerUrls: values.LEASEHOLD_URL,
    token: values.LEASEHOLD_TOKEN,
    gatewayId: values.LEASEHOLD_GATEWAY_ID ?? gatewayIdOf(os.hostname(), port),
    listen: values.LEASEHOLD_GATEWAY_LISTEN,
    metricsListen: values.LEASEHOLD_GATEWAY_METRICS_LISTEN,
    publicUrl: values.LEASEHOLD_GATEWAY_URL?.toLowerCase() ?? null,
    keyHosts: values.LEASEHOLD_GATEWAY_HOSTS ?? null,
    tls: cert === undefined || key === undefined ? null : { cert, key },
    trustedProxies: values.LEASEHOLD_TRUSTED_PROXIES,
    bounds: {
      connectionsMax: values.LEASEHOLD_GATEWAY_CONNECTIONS_MAX,
      heldMax: values.LEASEHOLD_GATEWAY_HELD_MAX,
      heldBytesMax: values.LEASEHOLD_GATEWAY_HELD_BYTES_MAX,
      headerBytesMax: values.LEASEHOLD_GATEWAY_HEADER_BYTES_MAX,
      holdMs: values.LEASEHOLD_GATEWAY_HOLD_MS,
    },
    logLevel: values.LEASEHOLD_LOG_LEVEL,
  };
}

const REQUIRED: Readonly<Record<string, string>> = {
  LEASEHOLD_URL: 'is required: the address of a controller, or several with commas',
  LEASEHOLD_TOKEN:
    'is required: a token of the role gateway (`leasehold tokens create --role gateway`)',
};

/** @throws {LeaseError} that says how to get what is missing: a schema would only say that it is. */
function required(environment: Environment): Environment {
  const isGiven = (name: string): boolean =>
    (environment[name] ?? '') !== '' || (environment[`${name}_FILE`] ?? '') !== '';
  const missing = Object.entries(REQUIRED).filter(([name]) => !isGiven(name));
  if (missing.length > 0) throw invalid(missing.map(([name, what]) => `${name}: ${what}`));
  return environment;
}

function tlsProblems(cert: Buffer | undefined, key: Buffer | undefined): string[] {
  if (cert === undefined && key === undefined) return [];
  if (key === undefined) {
    return ['LEASEHOLD_GATEWAY_TLS_KEY: is required with LEASEHOLD_GATEWAY_TLS_CERT'];
  }
  if (cert === undefined) {
    return ['LEASEHOLD_GATEWAY_TLS_CERT: is required with LEASEHOLD_GATEWAY_TLS_KEY'];
  }
  try {
    createSecureContext({ cert, key });
    return [];
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return [
      `LEASEHOLD_GATEWAY_TLS_CERT: is not a certificate of LEASEHOLD_GATEWAY_TLS_KEY: ${why}`,
    ];
  }
}

const ID_LENGTH_MAX = 64;

/** Made of the machine and the port: several gateways of one machine differ. */
function gatewayIdOf(hostName: string, port: number): string {
  const end = `-${String(port)}`;
  const plain = hostName.toLowerCase().replaceAll(/[^a-z0-9]+/gu, '-');
  const cut = plain.slice(0, ID_LENGTH_MAX - end.length).replaceAll(/^-+|-+$/gu, '');
  return `${cut === '' ? 'gateway' : cut}${end}`;
}

function invalid(problems: readonly string[]): LeaseError {
  const list = problems.map((problem) => `  ${problem}`).join('\n');
  return new LeaseError('config.invalid', `The gateway's configuration is not valid:\n${list}`, {
    details: { problems },
  });
}
