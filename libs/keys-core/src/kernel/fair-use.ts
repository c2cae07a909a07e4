/**
 * What one principal may use of one controller, so that no caller starves the others. A principal is
 * an API token, a person, a drone or another datacenter.
 */
import type { Role } from './access.ts';

const MI = 1_024 * 1_024;
const GI = 1_024 * MI;

/**
 * What each role has unless the environment or its token says otherwise, and last the largest value that
 * a limit can be set to. A client is a service: many processes may share one token, so its limits stop a
 * defect and not a legitimate load. A viewer is a person or a dashboard. An admin has what an operator has.
 * All gateways of a datacenter may share one token, and ask for the routes of all of its users: each of them counts as a
 * call twice a second, so they have as many calls as a core can check, see `LIMITS.gatewayUsesPerCallMax`.
 * A peer carries the calls of all callers of its datacenter, each checked there.
 */
const TABLE = {
  // viewer, client, operator, drone, gateway, peer, largest
  callsPerSecond: [500, 100_000, 5_000, 50_000, 250_000, 100_000, 1_000_000],
  batchSize: [100, 1_000, 1_000, 100, 100, 1_000, 1_000],
  connections: [20, 1_000, 100, 8, 100, 0, 100_000],
  streams: [50, 2_000, 500, 8, 0, 0, 100_000],
  waiters: [0, 10_000, 1_000, 0, 10_000, 20_000, 20_000],
  heldLeases: [0, 200_000, 10_000, 0, 0, 1_000_000, 100_000_000],
  requestBytesPerSecond: [2 * MI, 16 * MI, 16 * MI, 16 * MI, 32 * MI, 64 * MI, 1_024 * MI],
  responseBytesPerSecond: [8 * MI, 64 * MI, 32 * MI, 64 * MI, 64 * MI, 256 * MI, 1_024 * MI],
  unreadBytes: [4 * MI, 32 * MI, 16 * MI, 16 * MI, 16 * MI, 128 * MI, 256 * MI],
  declarations: [0, 10_000, 10_000, 0, 0, 10_000, 1_000_000],
  reservationsPerHour: [0, 200_000, 10_000, 0, 200_000, 0, 100_000_000],
  eventBytesPerHour: [0, GI, GI / 4, 0, GI, 16 * GI, 800 * GI],
} as const;

/**
 * - `callsPerSecond`: calls; each item of `acquireMany`, `releaseMany`, a renewal or a declaration is
 *   one. Renewals, releases and what drones and gateways report are counted apart, so that nothing else uses their share.
 * - `batchSize`: calls in one HTTP request or WebSocket message, and items of one call, except renewals.
 * - `connections`: WebSocket connections that are open.
 * - `streams`: subscriptions that are open.
 * - `waiters`: leases and keys that calls wait for.
 * - `heldLeases`: leases and environments that are held, at all controllers.
 * - `requestBytesPerSecond`: bytes that it sends. Large messages beyond it are read later, and nothing is refused.
 * - `responseBytesPerSecond`: bytes of answers. Reads are refused and streams pause beyond it.
 * - `unreadBytes`: bytes of answers that the caller has not read yet.
 * - `declarations`: namespaces whose leases it was the last to declare, at all controllers. That of a peer is for each of the
 *   callers that it forwards.
 * - `reservationsPerHour`: keys to which it gave their first datacenter. A reservation is never
 *   deleted, so this bounds how fast the store grows.
 * - `eventBytesPerHour`: bytes of the events that it causes, with their indexes, about: they are kept for weeks.
 *   Calls that grant something, and blocked or allowed renewals, are refused beyond it. Renewals, releases and revocations never are.
 */
export type FairUseLimit = keyof typeof TABLE;
export type FairUseLimits = Readonly<Record<FairUseLimit, number>>;

/** What a token has instead of the limits of its role. */
export type FairUseOverrides = Readonly<Partial<Record<FairUseLimit, number>>>;

/** The limits, in the order in which they are shown. */
export const FAIR_USE_LIMITS = Object.keys(TABLE) as FairUseLimit[];

function columnOf(place: 0 | 1 | 2 | 3 | 4 | 5 | 6): FairUseLimits {
  const column = FAIR_USE_LIMITS.map((limit) => [limit, TABLE[limit][place]]);
  return Object.fromEntries(column) as FairUseLimits;
}

export const FAIR_USE_DEFAULTS: Readonly<Record<Role, FairUseLimits>> = {
  viewer: columnOf(0),
  client: columnOf(1),
  operator: columnOf(2),
  admin: columnOf(2),
  drone: columnOf(3),
  gateway: columnOf(4),
  peer: columnOf(5),
};

/** The largest value that a limit can be set to. */
export const FAIR_USE_MAX = columnOf(6);

/** The limits of a role, with those of the token in their place. */
export function limitsWith(
  defaults: FairUseLimits,
  overrides: FairUseOverrides | null,
): FairUseLimits {
  return overrides === null ? defaults : { ...defaults, ...overrides };
}

/** What one address may use without authentication. */
interface AnonymousLimits {
  /** Requests without a valid token, and sign-in requests, per second. */
  readonly callsPerSecond: number;
  /** TCP connections, or requests through a proxy, on which no valid token was sent yet. */
  readonly connections: number;
}

/** The fair use that a controller is configured with. */
export interface FairUseConfig {
  readonly limits: Readonly<Record<Role, FairUseLimits>>;
  readonly anonymous: AnonymousLimits;
}

const ANONYMOUS_MAX: AnonymousLimits = { callsPerSecond: 100_000, connections: 20_000 };

export const FAIR_USE_CONFIG_DEFAULTS: FairUseConfig = {
  limits: FAIR_USE_DEFAULTS,
  anonymous: { callsPerSecond: 200, connections: 1_000 },
};

/** The environment variables that change the defaults, by role. */
const FAIR_USE_VARIABLES = {
  anonymous: 'LEASEHOLD_LIMIT_ANONYMOUS',
  viewer: 'LEASEHOLD_LIMIT_VIEWER',
  client: 'LEASEHOLD_LIMIT_CLIENT',
  operator: 'LEASEHOLD_LIMIT_OPERATOR',
  admin: 'LEASEHOLD_LIMIT_ADMIN',
  drone: 'LEASEHOLD_LIMIT_DRONE',
  gateway: 'LEASEHOLD_LIMIT_GATEWAY',
} as const;

type ConfigurableRole = Exclude<keyof typeof FAIR_USE_VARIABLES, 'anonymous'>;

/**
 * The defaults, changed by variables such as `callsPerSecond=100,streams=10`. Limits that are left out
 * keep their defaults.
 * @returns also what is wrong with them, each problem beginning with the name of its variable.
 */
export function fairUseFrom(environment: Readonly<Record<string, string | undefined>>): {
  readonly config: FairUseConfig;
  readonly problems: readonly string[];
} {
  const problems: string[] = [];
  const changed = <Limits extends object>(variable: string, max: Limits): Partial<Limits> => {
    const text = environment[variable];
    if (text === undefined || text === '') return {};
    const read = readLimits(text, max);
    problems.push(...read.problems.map((problem) => `${variable}: ${problem}`));
    return read.limits as Partial<Limits>;
  };
  const limitsOf = (role: ConfigurableRole): FairUseLimits => ({
    ...FAIR_USE_DEFAULTS[role],
    ...changed(FAIR_USE_VARIABLES[role], FAIR_USE_MAX),
  });
  const config = {
    limits: {
      viewer: limitsOf('viewer'),
      client: limitsOf('client'),
      operator: limitsOf('operator'),
      admin: limitsOf('admin'),
      drone: limitsOf('drone'),
      gateway: limitsOf('gateway'),
      peer: FAIR_USE_DEFAULTS.peer,
    },
    anonymous: {
      ...FAIR_USE_CONFIG_DEFAULTS.anonymous,
      ...changed(FAIR_USE_VARIABLES.anonymous, ANONYMOUS_MAX),
    },
  };
  return { config, problems };
}

/** Reads limits such as `callsPerSecond=100,streams=10`. @param max the known limits, each with its maximum. */
export function readLimits(
  text: string,
  max: object,
): { readonly limits: Record<string, number>; readonly problems: string[] } {
  const known = new Map(Object.entries(max) as [string, number][]);
  const limits: Record<string, number> = {};
  const problems: string[] = [];
  for (const part of text.split(',').map((one) => one.trim())) {
    const [, name = '', digits] = /^([A-Za-z]+)\s*=\s*(\d{1,12})$/u.exec(part) ?? [];
    const most = known.get(name);
    if (digits === undefined) {
      problems.push('must be a list such as "callsPerSecond=100,connections=10"');
    } else if (most === undefined) {
      problems.push(`"${name}" is not a limit: must be one of ${[...known.keys()].join(', ')}`);
    } else if (Number(digits) > most) {
      problems.push(`${name} must be a whole number from 0 to ${String(most)}`);
    } else limits[name] = Number(digits);
  }
  return { limits, problems };
}
