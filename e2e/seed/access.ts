import { createHash } from 'node:crypto';
import { noteEnding, noteGrant, type Subject } from './grants.ts';
import type { Row } from './world.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, type World } from './world.ts';

interface Token {
  readonly name: string;
  readonly role: string;
  readonly namespaces?: readonly string[];
  readonly droneId?: string;
  readonly ageDays: number;
  readonly usedAgoMs: number | null;
  readonly expiresInDays?: number;
  readonly isRevoked?: boolean;
}

const TOKENS: readonly Token[] = [
  { name: 'room-gateway', role: 'client', namespaces: ['boards'], ageDays: 41, usedAgoMs: 2_000 },
  {
    name: 'document-api',
    role: 'client',
    namespaces: ['documents.sync'],
    ageDays: 40,
    usedAgoMs: 9_000,
  },
  {
    name: 'billing-worker',
    role: 'client',
    namespaces: ['billing'],
    ageDays: 40,
    usedAgoMs: 4_000,
  },
  {
    name: 'payout-service',
    role: 'client',
    namespaces: ['billing.payouts'],
    ageDays: 38,
    usedAgoMs: 3_000,
  },
  { name: 'search-indexer', role: 'client', namespaces: ['search'], ageDays: 33, usedAgoMs: 6_000 },
  {
    name: 'ci-deploy',
    role: 'client',
    namespaces: ['shop', 'payments', 'search'],
    ageDays: 33,
    usedAgoMs: 5 * MINUTE_MS,
    expiresInDays: 57,
  },
  { name: 'grafana', role: 'viewer', ageDays: 31, usedAgoMs: 11_000 },
  {
    name: 'oncall-scripts',
    role: 'operator',
    ageDays: 12,
    usedAgoMs: 27 * HOUR_MS,
    expiresInDays: 18,
  },
  { name: 'drone-fra-2', role: 'drone', droneId: 'drone-fra-2', ageDays: 40, usedAgoMs: 1_000 },
  { name: 'drone-fra-3', role: 'drone', droneId: 'drone-fra-3', ageDays: 40, usedAgoMs: 1_000 },
  { name: 'drone-ams-1', role: 'drone', droneId: 'drone-ams-1', ageDays: 22, usedAgoMs: 2_000 },
  {
    name: 'load-test-2026-10',
    role: 'client',
    ageDays: 47,
    usedAgoMs: 26 * DAY_MS,
    isRevoked: true,
  },
];

/** The rows of the company's API tokens. Nobody has their secrets. */
export function tokenRows(world: World): Row[] {
  return TOKENS.map((token) => ({
    id: world.chance.uuid(),
    name: token.name,
    secret_hash: createHash('sha256').update(world.chance.code(32)).digest('hex'),
    role: token.role,
    namespaces: token.namespaces ?? [],
    drone_id: token.droneId ?? null,
    created_by: 'ada.okafor@example.com',
    created_at: world.ago(token.ageDays * DAY_MS),
    expires_at: token.expiresInDays === undefined ? null : world.ago(-token.expiresInDays * DAY_MS),
    revoked_at: token.isRevoked === true ? world.ago(20 * DAY_MS) : null,
    last_used_at: token.usedAgoMs === null ? null : world.ago(token.usedAgoMs),
  }));
}

const OMAR = { actor: 'omar.haddad@example.com', role: 'operator', source: '10.8.0.23' };
const ADA = { actor: 'ada.okafor@example.com', role: 'admin', source: '10.8.0.7' };
const SCRIPT = { actor: 'oncall-scripts', role: 'operator', source: '10.20.0.40' };

interface Act {
  readonly agoMs: number;
  readonly action: string;
  readonly by: typeof OMAR;
  readonly reason: string | null;
  /** What the action was done to, unless that is a grant. */
  readonly resource?: string;
  readonly on?: Subject;
  readonly detail?: Row;
  /** The holder of the grant that it ended, and for how long it had held: its history shows both. */
  readonly ended?: { readonly holder: string; readonly principal: string; readonly heldMs: number };
}

const key = (namespace: string, name: string): NonNullable<Act['on']> => ({
  face: 'key',
  namespace,
  name,
});
const lease = (namespace: string, name: string): NonNullable<Act['on']> => ({
  face: 'lease',
  namespace,
  name,
});

const ACTS: readonly Act[] = [
  {
    agoMs: 6_000,
    action: 'keys.revoke',
    by: OMAR,
    reason: 'Does not answer, customer waits. OPS-2240',
    on: key('boards.us', 'fraud-rules'),
    detail: { mode: 'force' },
  },
  {
    agoMs: 3 * MINUTE_MS,
    action: 'keys.blockRenewal',
    by: OMAR,
    reason: 'Runs an old image',
    on: key('boards.guest', 'guest-lobby'),
  },
  {
    agoMs: 9 * MINUTE_MS,
    action: 'drones.drain',
    by: OMAR,
    reason: 'Kernel update, OPS-2231',
    resource: 'drone:drone-ams-1',
  },
  {
    agoMs: 22 * MINUTE_MS,
    action: 'leases.revoke',
    by: SCRIPT,
    reason: 'Indexer of an old release still held the shard',
    on: lease('search.reindex', 'shard-11'),
    detail: { mode: 'graceful' },
  },
  {
    agoMs: 48 * MINUTE_MS,
    action: 'environments.revoke',
    by: ADA,
    reason: 'Pipeline hung, runner was replaced',
    on: { face: 'environment', namespace: 'shop', name: 'demo' },
    detail: { mode: 'graceful' },
  },
  {
    agoMs: 3 * HOUR_MS,
    action: 'drones.markLost',
    by: ADA,
    reason: 'Host does not come back, ticket with the data centre',
    resource: 'drone:drone-lon-1',
  },
  {
    agoMs: 5 * HOUR_MS,
    action: 'backends.terminate',
    by: OMAR,
    reason: 'Uses 40 GB of memory',
    resource: 'backend:bk-7hq2mfn4r8tz3c',
  },
  {
    agoMs: 7 * HOUR_MS,
    action: 'keys.allowRenewal',
    by: OMAR,
    reason: 'False alarm',
    on: key('documents.sync', 'pricing-2027'),
  },
  {
    agoMs: 7.1 * HOUR_MS,
    action: 'keys.blockRenewal',
    by: OMAR,
    reason: 'Looks stuck',
    on: key('documents.sync', 'pricing-2027'),
  },
  {
    agoMs: 13 * HOUR_MS,
    action: 'leases.revoke',
    by: OMAR,
    reason: 'Two settlement files for one value date, FIN-881',
    on: lease('billing.payouts', 'settlement-uk'),
    detail: { mode: 'force' },
    ended: {
      holder: 'payout-service@pay-k3x1d:41',
      principal: 'token:payout-service',
      heldMs: 26 * MINUTE_MS,
    },
  },
  {
    agoMs: 20 * HOUR_MS,
    action: 'tokens.revoke',
    by: ADA,
    reason: 'Load test is over',
    resource: 'token:load-test-2026-10',
  },
  {
    agoMs: 27 * HOUR_MS,
    action: 'drones.undrain',
    by: OMAR,
    reason: 'Memory replaced',
    resource: 'drone:drone-fra-3',
  },
  {
    agoMs: 31 * HOUR_MS,
    action: 'drones.drain',
    by: OMAR,
    reason: 'ECC errors, OPS-2202',
    resource: 'drone:drone-fra-3',
  },
  {
    agoMs: 50 * HOUR_MS,
    action: 'people.setRole',
    by: ADA,
    reason: 'On call from this week',
    resource: 'person:omar.haddad@example.com',
    detail: { role: 'operator' },
  },
  {
    agoMs: 12 * DAY_MS,
    action: 'tokens.create',
    by: ADA,
    reason: null,
    resource: 'token:oncall-scripts',
    detail: { role: 'operator' },
  },
];

/** Puts what operators did into the world. */
export function addAudit(world: World): void {
  for (const act of ACTS) {
    const resource = act.resource ?? `lease:${world.chance.uuid()}`;
    world.audit.push({
      at: world.ago(act.agoMs),
      ...act.by,
      action: act.action,
      resource,
      reason: act.reason,
      detail:
        act.on === undefined && act.detail === undefined ? null : { ...act.detail, ...act.on },
    });
    noteEnded(world, act, resource.replace('lease:', ''));
  }
}

/** Puts the grant that an act ended into the history of its resource. */
function noteEnded(
  world: World,
  { agoMs, by, reason, on, ended, detail }: Act,
  leaseId: string,
): void {
  if (on === undefined || ended === undefined) return;
  const { holder, principal, heldMs } = ended;
  const grantedAgoMs = agoMs + heldMs;
  const fencingToken = String(world.nowMs - grantedAgoMs);
  const actor = principal.replace('token:', '');
  const grant = { leaseId, fencingToken, holder, principal, actor, grantedAgoMs };
  noteGrant(world, on, grant);
  const mode = { ...detail, abandon: false };
  noteEnding(world, on, grant, {
    kind: 'revoked',
    agoMs,
    actor: by.actor,
    reason: reason ?? '',
    detail: mode,
  });
}
