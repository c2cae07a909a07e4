import { grantColumns, grantOf, noteEnding, noteEvent, noteGrant, queueUp } from './grants.ts';
import type { Subject } from './grants.ts';
import { words } from './key-kinds.ts';
import { HOUR_MS, MINUTE_MS, SECOND_MS, type Row, type World } from './world.ts';

/** A kind of lease as a service declares it, and which of its leases there are. */
interface Service {
  readonly namespace: string;
  readonly declaredBy: string;
  readonly ttlMs: number;
  readonly description: string;
  readonly names: readonly string[];
  readonly comments: readonly string[];
  /** How many of ten are held. */
  readonly heldOfTen: number;
}

const tenants = words('acme bluebird contoso delmar evergreen fjord granite harbour');

const SERVICES: readonly Service[] = [
  {
    namespace: 'billing.invoices',
    declaredBy: 'billing-worker',
    ttlMs: 60_000,
    description: 'One worker numbers and sends the invoices of a customer at a time',
    names: tenants.map((tenant) => `customer-${tenant}`),
    comments: ['Monthly run 2026-11', 'Credit note after return'],
    heldOfTen: 6,
  },
  {
    namespace: 'billing.payouts',
    declaredBy: 'payout-service',
    ttlMs: 120_000,
    description: 'Settlement with a bank: never two files for one value date',
    names: ['settlement-eu', 'settlement-uk', 'settlement-us', 'settlement-ch'],
    comments: ['Value date 2026-11-23', 'Value date 2026-11-24'],
    heldOfTen: 9,
  },
  {
    namespace: 'search.reindex',
    declaredBy: 'search-indexer',
    ttlMs: 30_000,
    description: 'One indexer for each shard',
    names: Array.from({ length: 16 }, (_, shard) => `shard-${String(shard).padStart(2, '0')}`),
    comments: ['Full rebuild, mapping v19'],
    heldOfTen: 8,
  },
  {
    namespace: 'tenants.migrate',
    declaredBy: 'tenant-migrator',
    ttlMs: 300_000,
    description: 'Schema changes of one tenant',
    names: tenants,
    comments: ['0187_add_ledger_partition', '0188_drop_legacy_totals'],
    heldOfTen: 4,
  },
  {
    namespace: 'cron.nightly',
    declaredBy: 'scheduler',
    ttlMs: 60_000,
    description: 'Jobs that run once, on whichever machine is first',
    names: words(`
      exchange-rates vacuum-carts report-revenue sync-tax-tables expire-vouchers archive-logs`),
    comments: ['Started by the scheduler'],
    heldOfTen: 5,
  },
  {
    namespace: 'media.transcode',
    declaredBy: 'media-worker',
    ttlMs: 30_000,
    description: 'One worker for each upload',
    names: words(`
      upload-8f3k2 upload-91bq7 upload-a02mz upload-bb41x upload-c9d3e upload-d77ka upload-e5t1p`),
    comments: ['4K, 3 renditions', '1080p, 2 renditions'],
    heldOfTen: 7,
  },
  {
    namespace: 'warehouse.picking',
    declaredBy: 'picking-api',
    ttlMs: 45_000,
    description: 'A pick list belongs to one cart',
    names: Array.from({ length: 12 }, (_, aisle) => `aisle-${String(aisle + 1)}`),
    comments: ['Cart 14', 'Cart 22', 'Cart 7'],
    heldOfTen: 6,
  },
  {
    namespace: 'ledger',
    declaredBy: 'ledger-service',
    ttlMs: 60_000,
    description: 'The one that closes the books of a day',
    names: ['close-day', 'rebuild-balances'],
    comments: ['2026-11-20'],
    heldOfTen: 9,
  },
];

/** Declared, and nobody has taken one yet. */
const UNUSED: Row = {
  namespace: 'support.macros',
  ttl_ms: 30_000,
  description: 'Edits of a shared macro',
  declared_by: 'support-desk',
  principal: 'token:support-desk',
};

/** How many wait for a lease. */
const LINES: Readonly<Record<string, number>> = {
  'billing.payouts/settlement-eu': 6,
  'search.reindex/shard-03': 3,
  'tenants.migrate/contoso': 2,
  'ledger/close-day': 2,
  'warehouse.picking/aisle-4': 1,
  'media.transcode/upload-a02mz': 1,
};

/** What tests and pictures want to find again. */
export interface SeededLeases {
  /** Held, with six who wait. */
  readonly queued: Subject;
  readonly count: number;
  readonly declarations: readonly Row[];
  readonly renewedLeaseIds: readonly string[];
}

/** Puts the leases of services into the world: declared, held, waited for, and over. */
export function addLeases(world: World): SeededLeases {
  const renewed: string[] = [];
  let count = 0;
  for (const service of SERVICES) {
    for (const name of service.names) {
      const subject: Subject = { face: 'lease', namespace: service.namespace, name };
      const waitersCount = LINES[`${service.namespace}/${name}`] ?? 0;
      const leaseId = addLease(world, { service, subject, isWanted: waitersCount > 0 });
      if (leaseId !== undefined) renewed.push(leaseId);
      queueUp(world, subject, waiters(world, service, waitersCount));
      count += 1;
    }
  }
  const declarations = SERVICES.map((service, index) => ({
    namespace: service.namespace,
    ttl_ms: service.ttlMs,
    description: service.description,
    declared_by: service.declaredBy,
    principal: `token:${service.declaredBy}`,
    declared_at: world.ago((index + 1) * 7 * MINUTE_MS),
  }));
  return {
    queued: { face: 'lease', namespace: 'billing.payouts', name: 'settlement-eu' },
    count,
    declarations: [...declarations, { ...UNUSED, declared_at: world.ago(26 * HOUR_MS) }],
    renewedLeaseIds: renewed,
  };
}

function hostOf(world: World, service: string): string {
  const { chance } = world;
  return `${service}@${service.slice(0, 3)}-${chance.code(5)}:${String(chance.int(7, 990))}`;
}

function waiters(
  world: World,
  service: Service,
  count: number,
): { waiter: string; principal: string; agoMs: number }[] {
  return Array.from({ length: count }, (_, place) => ({
    waiter: hostOf(world, service.declaredBy),
    principal: `token:${service.declaredBy}`,
    agoMs: (count - place) * 6_300 + world.chance.int(200, 4_000),
  }));
}

/** How a lease ended, or null for one that is held. */
type End = 'expired' | 'released' | 'failed' | null;

function fateOf(world: World, service: Service, isWanted: boolean): End {
  const { chance } = world;
  if (isWanted || chance.int(1, 10) <= service.heldOfTen) return null;
  return chance.pick(['expired', 'released', 'released', 'released', 'released', 'failed']);
}

/** @returns the grant's id when it is one that its holder would renew. */
function addLease(
  world: World,
  { service, subject, isWanted }: { service: Service; subject: Subject; isWanted: boolean },
): string | undefined {
  const { chance } = world;
  const end = fateOf(world, service, isWanted);
  const grantedAgoMs = chance.int(15, end === null ? 1_500 : 4_000) * SECOND_MS;
  addPast(world, { service, subject, grantedAgoMs });
  const grant = grantOf(world, holderOf(world, service), grantedAgoMs);
  noteGrant(world, subject, grant);
  const endedAgoMs = Math.floor(grantedAgoMs / 2);
  const renewedAgoMs = end === null ? chance.int(0, service.ttlMs / 3) : endedAgoMs + service.ttlMs;
  world.leases.push({
    ...grantColumns(world, subject, grant),
    tag: '',
    comment: chance.pick(service.comments),
    metadata: { attempt: chance.int(1, 3), region: chance.pick(['eu-central', 'eu-west']) },
    ...ladderOf(service.ttlMs),
    renewed_at: world.ago(Math.min(renewedAgoMs, grantedAgoMs)),
    expires_at: world.ago(renewedAgoMs - service.ttlMs),
    renewable: true,
    released_at: end === null || end === 'expired' ? null : world.ago(endedAgoMs),
    end_reason: end === 'failed' ? 'released' : end,
    stops_by: null,
  });
  if (end === null) return grant.leaseId;
  const actor = end === 'expired' ? 'leasehold' : service.declaredBy;
  noteEnding(world, subject, grant, { kind: end, agoMs: endedAgoMs, actor });
  return undefined;
}

/** The ladder of a service's lease, made from its TTL. */
export function ladderOf(ttlMs: number): Row {
  const loseAfterMs = ttlMs - Math.max(Math.ceil(ttlMs / 6), 250);
  return {
    renew_after_ms: Math.min(Math.floor(ttlMs / 3), 30_000),
    soft_after_ms: loseAfterMs,
    hard_after_ms: loseAfterMs,
    ttl_ms: ttlMs,
  };
}

function holderOf(
  world: World,
  service: Service,
): { holder: string; principal: string; actor: string } {
  return {
    holder: hostOf(world, service.declaredBy),
    principal: `token:${service.declaredBy}`,
    actor: service.declaredBy,
  };
}

function addPast(
  world: World,
  of: { service: Service; subject: Subject; grantedAgoMs: number },
): void {
  const { chance } = world;
  let endAgoMs = of.grantedAgoMs;
  for (let left = chance.int(1, 5); left > 0; left -= 1) {
    endAgoMs += chance.int(1, 200) * SECOND_MS;
    const beganAgoMs = endAgoMs + chance.int(20, 900) * SECOND_MS;
    const grant = grantOf(world, holderOf(world, of.service), beganAgoMs);
    noteGrant(world, of.subject, grant);
    const roll = chance.int(1, 12);
    noteEnding(world, of.subject, grant, {
      kind: roll <= 9 ? 'released' : roll <= 10 ? 'failed' : 'expired',
      agoMs: endAgoMs,
      actor: roll <= 10 ? of.service.declaredBy : 'leasehold',
    });
    if (roll === 12) {
      noteEvent(world, of.subject, grant, {
        kind: 'renewal_blocked',
        agoMs: endAgoMs + 9_000,
        actor: 'omar.haddad@example.com',
        reason: 'Holder runs a version with a known leak',
      });
    }
    endAgoMs = beganAgoMs;
  }
}
