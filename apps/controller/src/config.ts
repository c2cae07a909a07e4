import { resolve } from 'node:path';
import type { Setting } from '@leasehold/api';
import { datacenterSchema } from '@leasehold/api/contract';
import {
  datacenterProblems,
  fairUseFrom,
  HEARTBEAT_MS,
  KEY_LADDERS,
  ladderProblems,
  LeaseError,
  LIMITS,
  type FairUseConfig,
  type Ladder,
} from '@leasehold/keys-core';
import type { GatewayAddresses } from '@leasehold/keys-core/gateway';
import {
  databasePlaceOf,
  parseEnvironment,
  shownUrl,
  type Environment,
  type LogLevel,
} from '@leasehold/service-kit';
import {
  controllerVariables,
  keyHosts,
  origin,
  tokenText,
  wholeNumber,
} from '@leasehold/service-kit/variables';
import { z } from 'zod';
import { peersConfig, peersEnvironment, type DatacentersConfig } from './peers/peers-config.ts';
import {
  signInConfig,
  signInEnvironment,
  signInProblems,
  type SignInConfig,
} from './sign-in/sign-in-config.ts';
import {
  webhookConfig,
  webhookEnvironment,
  webhookProblems,
  type WebhookConfig,
} from './webhook.ts';

/** What a controller is started with; see docs/reference/configuration.md. */
export interface ControllerConfig {
  /** null: PostgreSQL is started, with its data in the home. */
  readonly databaseUrl: string | null;
  /** Where Leasehold's tables are; `databaseUrl` names it too. */
  readonly schema: string;
  readonly home: string;
  /** The token of the first administrator of an empty database; null: one is made, in a file of the home. */
  readonly firstToken: string | null;
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly datacenter: string;
  readonly ladder: Ladder;
  readonly heartbeatMs: number;
  /** How long an environment is leased if its holder names no duration. */
  readonly environmentLeaseMs: number;
  /** Whether the audit keeps who reads the output of a backend. */
  readonly isReadingAudited: boolean;
  readonly retentionDays: number;
  readonly logLevel: LogLevel;
  readonly signIn: SignInConfig;
  readonly fairUse: FairUseConfig;
  /** Left out by a datacenter that is alone. */
  readonly datacenters?: DatacentersConfig | undefined;
  /** Where browsers reach keys through a gateway. */
  readonly gateway: GatewayAddresses;
  /** Null: nobody is told of alarms. */
  readonly webhook: WebhookConfig | null;
  /** All of it, as administrators read it. */
  readonly settings: readonly Setting[];
}

/** The one place where the controller reads its environment. */
export function processEnvironment(): Environment {
  return process.env;
}

/** The variables that a controller reads, besides those of fair use and of tracing. */
export const environmentSchema = z.object({
  ...controllerVariables,
  LEASEHOLD_DATACENTER: datacenterSchema.default('local'),
  LEASEHOLD_ENVIRONMENT_LEASE_MS: wholeNumber(LIMITS.ttlMsMin, LIMITS.ttlMsMax).default(60_000),
  LEASEHOLD_FIRST_TOKEN: tokenText.optional(),
  LEASEHOLD_AUDIT_LOGS: z.enum(['0', '1']).default('0'),
  LEASEHOLD_GATEWAY_URL: origin.optional(),
  LEASEHOLD_GATEWAY_HOSTS: keyHosts.optional(),
  ...signInEnvironment,
  ...peersEnvironment,
  ...webhookEnvironment,
});

/** The variables that a controller reads. */
export const CONTROLLER_VARIABLES = Object.keys(environmentSchema.shape);

/**
 * The configuration that an environment describes.
 * @throws {LeaseError} `config.invalid` that lists every problem at once, each by its variable.
 */
export function readConfig(environment: Environment): ControllerConfig {
  const parsed = parseEnvironment(environmentSchema, environment);
  if (parsed.outcome === 'invalid') throw invalid(parsed.problems);
  const { values } = parsed;
  const preset = KEY_LADDERS[values.LEASEHOLD_PRESET];
  const ladder = {
    renewAfterMs: values.LEASEHOLD_KEY_RENEW_MS ?? preset.renewAfterMs,
    softAfterMs: values.LEASEHOLD_KEY_SOFT_MS ?? preset.softAfterMs,
    hardAfterMs: values.LEASEHOLD_KEY_HARD_MS ?? preset.hardAfterMs,
    ttlMs: values.LEASEHOLD_KEY_EXPIRE_MS ?? preset.ttlMs,
  };
  const heartbeatMs = values.LEASEHOLD_HEARTBEAT_MS ?? HEARTBEAT_MS[values.LEASEHOLD_PRESET];
  const rungs = ladderProblems(ladder, heartbeatMs).map(
    (problem) => `LEASEHOLD_KEY_*_MS: ${problem}`,
  );
  const place = databasePlaceOf(values);
  const fairUse = fairUseFrom(environment);
  const problems = [
    ...place.problems,
    ...rungs,
    ...fairUse.problems,
    ...signInProblems(values),
    ...datacenterProblems(values),
    ...webhookProblems(values),
    ...gatewayProblems(values),
  ];
  if (problems.length > 0) throw invalid(problems);
  return {
    databaseUrl: place.databaseUrl,
    schema: place.schema,
    home: resolve(values.LEASEHOLD_HOME),
    firstToken: values.LEASEHOLD_FIRST_TOKEN ?? null,
    host: values.LEASEHOLD_HOST,
    port: values.LEASEHOLD_PORT,
    datacenter: values.LEASEHOLD_DATACENTER,
    ladder,
    heartbeatMs,
    environmentLeaseMs: values.LEASEHOLD_ENVIRONMENT_LEASE_MS,
    isReadingAudited: values.LEASEHOLD_AUDIT_LOGS === '1',
    retentionDays: values.LEASEHOLD_EVENT_RETENTION_DAYS,
    logLevel: values.LEASEHOLD_LOG_LEVEL,
    signIn: signInConfig(values),
    fairUse: fairUse.config,
    datacenters: peersConfig(values),
    gateway: {
      url: values.LEASEHOLD_GATEWAY_URL?.toLowerCase() ?? null,
      hosts: values.LEASEHOLD_GATEWAY_HOSTS ?? null,
    },
    webhook: webhookConfig(values),
    settings: settingsOf(
      CONTROLLER_VARIABLES,
      {
        ...values,
        LEASEHOLD_KEY_RENEW_MS: ladder.renewAfterMs,
        LEASEHOLD_KEY_SOFT_MS: ladder.softAfterMs,
        LEASEHOLD_KEY_HARD_MS: ladder.hardAfterMs,
        LEASEHOLD_KEY_EXPIRE_MS: ladder.ttlMs,
        LEASEHOLD_HEARTBEAT_MS: heartbeatMs,
      },
      environment,
    ),
  };
}

function gatewayProblems(values: z.output<typeof environmentSchema>): string[] {
  const isIdle =
    values.LEASEHOLD_GATEWAY_HOSTS !== undefined && values.LEASEHOLD_GATEWAY_URL === undefined;
  return isIdle ? ['LEASEHOLD_GATEWAY_HOSTS: needs LEASEHOLD_GATEWAY_URL'] : [];
}

function invalid(problems: readonly string[]): LeaseError {
  return new LeaseError(
    'config.invalid',
    `The configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`,
    {
      details: { problems },
    },
  );
}

// The configuration in effect, as administrators read it: no secret is ever in it.

const SECRET = /SECRET|PASSWORD|TOKEN/u;

/** Every variable of the controller with its value, in the order of docs/reference/configuration.md. */
function settingsOf(
  names: readonly string[],
  values: Readonly<Record<string, unknown>>,
  environment: Environment,
): Setting[] {
  const own = names.map((name): Setting => {
    const value = values[name];
    const isSet = isGiven(environment[name]) || isGiven(environment[`${name}_FILE`]);
    const isSecret = SECRET.test(name);
    const isShown = value !== undefined && !isSecret;
    return { name, value: isShown ? textOf(name, value) : null, isSecret, isSet };
  });
  return [...own, ...limitsOf(environment)];
}

function isGiven(text: string | undefined): boolean {
  return text !== undefined && text !== '';
}

function textOf(name: string, value: unknown): string {
  // Addresses may hold a password, and that of a webhook may be a secret as a whole.
  if (typeof value !== 'string') return JSON.stringify(value);
  if (!name.endsWith('URL')) return value;
  return name === 'LEASEHOLD_WEBHOOK_URL' ? new URL(value).origin : shownUrl(value);
}

/** What a caller of each role may use. */
function limitsOf(environment: Environment): Setting[] {
  const { limits, anonymous } = fairUseFrom(environment).config;
  return Object.entries({ ...limits, peer: null, anonymous }).flatMap(([role, of]) => {
    // Nobody sets it.
    if (of === null) return [];
    const name = `LEASEHOLD_LIMIT_${role.toUpperCase()}`;
    const pairs = Object.entries(of).map(([limit, number]) => `${limit}=${String(number)}`);
    return { name, value: pairs.join(','), isSecret: false, isSet: isGiven(environment[name]) };
  });
}
