import { resolve } from 'node:path';
import {
  DATACENTER_NAME,
  datacenterProblems,
  endpointsProblem,
  fairUseFrom,
  HEARTBEAT_MS,
  isPeerSecret,
  KEY_LADDERS,
  ladderProblems,
  LIMITS,
  listEntries,
  listItems,
  peerSecretsProblem,
  peersProblem,
  type Ladder,
} from '@leasehold/keys-core';
import {
  databasePlaceOf,
  parseEnvironment,
  shownUrl,
  type Environment,
} from '@leasehold/service-kit';
import {
  checkedText,
  controllerUrls,
  controllerVariables,
  origin,
  port,
  tokenText,
  wholeNumber,
} from '@leasehold/service-kit/variables';
import { z } from 'zod';
import { CliFailure, EXIT_CODES } from './failures.ts';

/** What the command line and `leasehold up` take from the environment; see docs/reference/configuration.md. */
export type CliConfig = Readonly<ReturnType<typeof parseConfig>>;

/** The one place where the command line reads its environment. */
export function processEnvironment(): Environment {
  return process.env;
}

/** Of the other datacenters, and of the etcd that they share. */
const datacenterEnvironment = {
  LEASEHOLD_PEERS: checkedText(peersProblem).optional(),
  LEASEHOLD_PEER_TOKEN: checkedText(peerSecretsProblem).optional(),
  LEASEHOLD_ETCD: checkedText(endpointsProblem).optional(),
  LEASEHOLD_ETCD_USER: z.string().optional(),
  LEASEHOLD_ETCD_PASSWORD: z.string().optional(),
  LEASEHOLD_ETCD_CA_FILE: z.string().optional(),
  LEASEHOLD_ETCD_CERT_FILE: z.string().optional(),
  LEASEHOLD_ETCD_KEY_FILE: z.string().optional(),
};

/** The variables that the command line and `leasehold up` read. */
export const environmentSchema = z.object({
  ...controllerVariables,
  LEASEHOLD_CONSOLE_PORT: port.optional(),
  LEASEHOLD_CONSOLE_ORIGIN: origin.optional(),
  LEASEHOLD_GATEWAY_PORT: port.optional(),
  LEASEHOLD_GATEWAY_URL: origin.optional(),
  LEASEHOLD_DATACENTER: z
    .string()
    .regex(DATACENTER_NAME, 'must be 1 to 32 of a-z, 0-9 and "-"')
    .default('local'),
  ...datacenterEnvironment,
  LEASEHOLD_ENVIRONMENT_LEASE_MS: wholeNumber(LIMITS.ttlMsMin, LIMITS.ttlMsMax).default(60_000),
  LEASEHOLD_URL: controllerUrls.optional(),
  LEASEHOLD_TOKEN: tokenText.optional(),
  LEASEHOLD_CONTEXT: z.string().optional(),
});

/** The variables that the command line and `leasehold up` read. */
export const CLI_VARIABLES = Object.keys(environmentSchema.shape);

type Values = z.infer<typeof environmentSchema>;

/**
 * The configuration that an environment gives. Errors do not repeat values, because some of them
 * are secrets.
 * @throws {CliFailure} `config.invalid` listing every problem at once.
 */
export function parseConfig(environment: Environment) {
  const parsed = parseEnvironment(environmentSchema, environment);
  if (parsed.outcome === 'invalid') throw configFailure(parsed.problems);
  const env = parsed.values;
  const ladder = ladderOf(env);
  const heartbeatMs = env.LEASEHOLD_HEARTBEAT_MS ?? HEARTBEAT_MS[env.LEASEHOLD_PRESET];
  const problems = ladderProblems(ladder, heartbeatMs);
  const place = databasePlaceOf(env);
  const fairUse = fairUseFrom(environment);
  const allProblems = [
    ...place.problems,
    ...problems.map((problem) => `LEASEHOLD_KEY_*_MS, LEASEHOLD_HEARTBEAT_MS: ${problem}`),
    ...fairUse.problems,
    ...datacenterProblems(env),
  ];
  if (allProblems.length > 0) throw configFailure(allProblems);
  return {
    /** 0: any free port. */
    consolePort: consolePortOf(env),
    /** 0: any free port. */
    gatewayPort: gatewayPortOf(env),
    /** The origin at which browsers find the console; null: this machine, at its port. */
    consoleOrigin: env.LEASEHOLD_CONSOLE_ORIGIN?.toLowerCase() ?? null,
    /** The origin at which browsers find the gateway; null: this machine, at its port. */
    gatewayUrl: env.LEASEHOLD_GATEWAY_URL?.toLowerCase() ?? null,
    home: resolve(env.LEASEHOLD_HOME),
    /** null: PostgreSQL is started, with its data in the home. */
    databaseUrl: place.databaseUrl,
    /** Where Leasehold's tables are; `databaseUrl` names it too. */
    schema: place.schema,
    host: env.LEASEHOLD_HOST,
    port: env.LEASEHOLD_PORT,
    datacenter: env.LEASEHOLD_DATACENTER,
    ...datacenterConfig(env),
    preset: env.LEASEHOLD_PRESET,
    ladder,
    heartbeatMs,
    /** How long an environment is leased when its holder does not say. */
    environmentLeaseMs: env.LEASEHOLD_ENVIRONMENT_LEASE_MS,
    eventRetentionDays: env.LEASEHOLD_EVENT_RETENTION_DAYS,
    logLevel: env.LEASEHOLD_LOG_LEVEL,
    /** How much the controller's callers may use. */
    fairUse: fairUse.config,
    /** The context that commands use, whatever else is set; null: the current one, if nothing else is. */
    context: env.LEASEHOLD_CONTEXT ?? null,
    /** The controllers that commands talk to; null: the current context, or what runs in the home. */
    urls: env.LEASEHOLD_URL ?? null,
    token: env.LEASEHOLD_TOKEN ?? null,
  };
}

function ladderOf(env: Values): Ladder {
  const preset = KEY_LADDERS[env.LEASEHOLD_PRESET];
  return {
    renewAfterMs: env.LEASEHOLD_KEY_RENEW_MS ?? preset.renewAfterMs,
    softAfterMs: env.LEASEHOLD_KEY_SOFT_MS ?? preset.softAfterMs,
    hardAfterMs: env.LEASEHOLD_KEY_HARD_MS ?? preset.hardAfterMs,
    ttlMs: env.LEASEHOLD_KEY_EXPIRE_MS ?? preset.ttlMs,
  };
}

const PORT_MAX = 65_535;

/** One above the controller's, unless it is set. */
function consolePortOf(env: Values): number {
  const besides = env.LEASEHOLD_PORT === 0 ? 0 : env.LEASEHOLD_PORT + 1;
  const consolePort = env.LEASEHOLD_CONSOLE_PORT ?? besides;
  if (consolePort <= PORT_MAX) return consolePort;
  throw configFailure(['LEASEHOLD_CONSOLE_PORT: must be set, for LEASEHOLD_PORT is the last port']);
}

/** Two above the controller's, unless it is set; any free one where that is no port. */
function gatewayPortOf(env: Values): number {
  const besides = env.LEASEHOLD_PORT + 2;
  const standard = env.LEASEHOLD_PORT === 0 || besides > PORT_MAX ? 0 : besides;
  return env.LEASEHOLD_GATEWAY_PORT ?? standard;
}

function configFailure(problems: readonly string[]): CliFailure {
  const list = problems.map((problem) => `\n  ${problem}`).join('');
  return new CliFailure(`The configuration is not valid:${list}`, {
    code: 'config.invalid',
    exitCode: EXIT_CODES.usage,
    hint: 'Nothing was done. Correct what is named above, in the environment of this command.',
    details: { problems },
  });
}

/** The configuration, and which controllers commands talk to in the end. */
export type ConfigInEffect = Omit<CliConfig, 'urls'> & { readonly urls: readonly string[] | null };

/** The configuration as it may be shown: with secrets replaced, and all else as it is in effect. */
export function redactedConfig(config: ConfigInEffect): Record<string, unknown> {
  return {
    ...config,
    ...redactedDatacenters(config),
    databaseUrl: config.databaseUrl === null ? null : shownUrl(config.databaseUrl),
    urls: config.urls?.map(shownUrl) ?? null,
    token: config.token === null ? null : 'lh_…',
  };
}

/** The other datacenters and the reservation store, as the command line knows them. */
type DatacenterConfig = ReturnType<typeof datacenterConfig>;
export type EtcdConfig = NonNullable<DatacenterConfig['etcd']>;

type DatacenterValues = z.infer<z.ZodObject<typeof datacenterEnvironment>>;

/** What the variables give, once each is well-formed. */
function datacenterConfig(env: DatacenterValues) {
  const { LEASEHOLD_PEERS: peers } = env;
  const entries = peers === undefined ? [] : listEntries(peers);
  return {
    /** The URLs of the other datacenters' controllers, by name. */
    peers: Object.fromEntries(entries.map(([name, url]) => [name, new URL(url).origin])),
    /** One secret for all peers, or one for each: as it was given. null: none exists. */
    peerToken: env.LEASEHOLD_PEER_TOKEN ?? null,
    /** null: this datacenter's PostgreSQL is the reservation store. */
    etcd: env.LEASEHOLD_ETCD === undefined ? null : etcdConfig(env.LEASEHOLD_ETCD, env),
  };
}

function etcdConfig(endpoints: string, env: DatacenterValues) {
  return {
    endpoints: listItems(endpoints),
    user: env.LEASEHOLD_ETCD_USER ?? null,
    password: env.LEASEHOLD_ETCD_PASSWORD ?? null,
    /** Paths of PEM files. */
    caFile: env.LEASEHOLD_ETCD_CA_FILE ?? null,
    certFile: env.LEASEHOLD_ETCD_CERT_FILE ?? null,
    keyFile: env.LEASEHOLD_ETCD_KEY_FILE ?? null,
  };
}

/** The same configuration as it may be shown, without secrets. No URL in it has a password. */
function redactedDatacenters(config: DatacenterConfig): DatacenterConfig {
  const { peers, peerToken, etcd } = config;
  return {
    peers,
    peerToken: peerToken === null ? null : redactedSecrets(peerToken),
    etcd: etcd?.password == null ? etcd : { ...etcd, password: '***' },
  };
}

function redactedSecrets(text: string): string {
  if (isPeerSecret(text)) return 'lh_…';
  return listEntries(text)
    .map(([name]) => `${name}=lh_…`)
    .join(',');
}
