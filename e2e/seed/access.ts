import { createHash } from 'node:crypto';
import { noteEnding, noteGrant, type Subject } from './grants.ts';
import type { Row } from './world.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, type World } from './world.ts';

const CI_NAMESPACES = ['shop', 'payments', 'search'];

/** Name, role, age in days, how long ago it was used, and what is special about it. */
type Token = readonly [string, string, number, number, TokenLimits?];

interface TokenLimits {
  readonly namespaces?: readonly string[];
  readonly droneId?: string;
  readonly expiresInDays?: number;
  readonly isRevoked?: boolean;
}

const TOKENS: readonly Token[] = [
  ['room-gateway', 'client', 41, 2_000, { namespaces: ['boards'] }],
  ['document-api', 'client', 40, 9_000, { namespaces: ['documents.sync'] }],
  ['billing-worker', 'client', 40, 4_000, { namespaces: ['billing'] }],
  ['payout-service', 'client', 38, 3_000, { namespaces: ['billing.payouts'] }],
  ['search-indexer', 'client', 33, 6_000, { namespaces: ['search'] }],
  ['ci-deploy', 'client', 33, 5 * MINUTE_MS, { namespaces: CI_NAMESPACES, expiresInDays: 57 }],
  ['grafana', 'viewer', 31, 11_000],
  ['oncall-scripts', 'operator', 12, 27 * HOUR_MS, { expiresInDays: 18 }],
  ['drone-fra-2', 'drone', 40, 1_000, { droneId: 'drone-fra-2' }],
  ['drone-fra-3', 'drone', 40, 1_000, { droneId: 'drone-fra-3' }],
  ['drone-ams-1', 'drone', 22, 2_000, { droneId: 'drone-ams-1' }],
  ['load-test-2026-10', 'client', 47, 26 * DAY_MS, { isRevoked: true }],
];

/** The rows of the company's API tokens. Nobody has their secrets. */
export function tokenRows(world: World): Row[] {
  return TOKENS.map(([name, role, ageDays, usedAgoMs, limits = {}]) => ({
    id: world.chance.uuid(),
    name,
    secret_hash: createHash('sha256').update(world.chance.code(32)).digest('hex'),
    role,
    namespaces: limits.namespaces ?? [],
    drone_id: limits.droneId ?? null,
    created_by: 'ada.okafor@example.com',
    created_at: world.ago(ageDays * DAY_MS),
    expires_at:
      limits.expiresInDays === undefined ? null : world.ago(-limits.expiresInDays * DAY_MS),
    revoked_at: limits.isRevoked === true ? world.ago(20 * DAY_MS) : null,
    last_used_at: world.ago(usedAgoMs),
  }));
}

const OMAR = { actor: 'omar.haddad@example.com', role: 'operator', source: '10.8.0.23' };
const ADA = { actor: 'ada.okafor@example.com', role: 'admin', source: '10.8.0.7' };
const SCRIPT = { actor: 'oncall-scripts', role: 'operator', source: '10.20.0.40' };

/** How long ago, who, what and why. */
type Act = readonly [number, typeof OMAR, string, string | null, Details];

interface Details {
  /** What the action was done to, unless that is a grant. */
  readonly resource?: string;
  readonly on?: Subject;
  readonly detail?: Row;
  /** The holder of the grant that it ended, and for how long it had held: its history shows both. */
  readonly ended?: { readonly holder: string; readonly principal: string; readonly heldMs: number };
}

const key = (namespace: string, name: string): Subject => ({
  face: 'key',
  namespace,
  name,
});
const lease = (namespace: string, name: string): Subject => ({
  face: 'lease',
  namespace,
  name,
});

const ACTS: readonly Act[] = [
  [
    6_000,
    OMAR,
    'keys.revoke',
    'Does not answer, customer waits. OPS-2240',
    { on: key('boards.us', 'fraud-rules'), detail: { mode: 'force' } },
  ],
  [
    3 * MINUTE_MS,
    OMAR,
    'keys.blockRenewal',
    'Runs an old image',
    { on: key('boards.guest', 'guest-lobby') },
  ],
  [
    9 * MINUTE_MS,
    OMAR,
    'drones.drain',
    'Kernel update, OPS-2231',
    { resource: 'drone:drone-ams-1' },
  ],
  [
    22 * MINUTE_MS,
    SCRIPT,
    'leases.revoke',
    'Indexer of an old release still held the shard',
    { on: lease('search.reindex', 'shard-11'), detail: { mode: 'graceful' } },
  ],
  [
    48 * MINUTE_MS,
    ADA,
    'environments.revoke',
    'Pipeline hung, runner was replaced',
    { on: { face: 'environment', namespace: 'shop', name: 'demo' }, detail: { mode: 'graceful' } },
  ],
  [
    3 * HOUR_MS,
    ADA,
    'drones.markLost',
    'Host does not come back, ticket with the data centre',
    { resource: 'drone:drone-lon-1' },
  ],
  [
    5 * HOUR_MS,
    OMAR,
    'backends.terminate',
    'Uses 40 GB of memory',
    { resource: 'backend:bk-7hq2mfn4r8tz3c' },
  ],
  [
    7 * HOUR_MS,
    OMAR,
    'keys.allowRenewal',
    'False alarm',
    { on: key('documents.sync', 'pricing-2027') },
  ],
  [
    7.1 * HOUR_MS,
    OMAR,
    'keys.blockRenewal',
    'Looks stuck',
    { on: key('documents.sync', 'pricing-2027') },
  ],
  [
    13 * HOUR_MS,
    OMAR,
    'leases.revoke',
    'Two settlement files for one value date, FIN-881',
    {
      on: lease('billing.payouts', 'settlement-uk'),
      detail: { mode: 'force' },
      ended: {
        holder: 'payout-service@pay-k3x1d:41',
        principal: 'token:payout-service',
        heldMs: 26 * MINUTE_MS,
      },
    },
  ],
  [
    20 * HOUR_MS,
    ADA,
    'tokens.revoke',
    'Load test is over',
    { resource: 'token:load-test-2026-10' },
  ],
  [27 * HOUR_MS, OMAR, 'drones.undrain', 'Memory replaced', { resource: 'drone:drone-fra-3' }],
  [31 * HOUR_MS, OMAR, 'drones.drain', 'ECC errors, OPS-2202', { resource: 'drone:drone-fra-3' }],
  [
    50 * HOUR_MS,
    ADA,
    'people.setRole',
    'On call from this week',
    { resource: 'person:omar.haddad@example.com', detail: { role: 'operator' } },
  ],
  [
    12 * DAY_MS,
    ADA,
    'tokens.create',
    null,
    { resource: 'token:oncall-scripts', detail: { role: 'operator' } },
  ],
];

/** Puts what operators did into the world. */
export function addAudit(world: World): void {
  for (const [agoMs, by, action, reason, { on, detail, ended, resource: named }] of ACTS) {
    const resource = named ?? `lease:${world.chance.uuid()}`;
    world.audit.push({
      at: world.ago(agoMs),
      ...by,
      ...{ action, resource, reason },
      detail: on === undefined && detail === undefined ? null : { ...detail, ...on },
    });
    if (on === undefined || ended === undefined) continue;
    // The grant that it ended is in the history of its resource.
    const { holder, principal, heldMs } = ended;
    const grant = {
      ...{ leaseId: resource.replace('lease:', ''), holder, principal },
      fencingToken: String(world.nowMs - agoMs - heldMs),
      actor: principal.replace('token:', ''),
      grantedAgoMs: agoMs + heldMs,
    };
    noteGrant(world, on, grant);
    noteEnding(world, on, grant, {
      ...{ kind: 'revoked', agoMs, actor: by.actor, reason: reason ?? '' },
      detail: { ...detail, abandon: false },
    });
  }
}
