import { addGrant, addLeaseRow, ladderOf, noteFact, queueUp } from './grants.ts';
import type { By, Subject } from './grants.ts';
import { msOf, table, words } from './table.ts';
import { SECOND_MS, type World } from './world.ts';

const tenants = words('acme bluebird contoso delmar evergreen fjord granite harbour');

/**
 * The kinds of leases as services declare them. `held`: how many of ten; `declared`: how long ago. The last one
 * is declared, and nobody has taken one yet.
 */
const SERVICES = table(
  ['namespace', 'service', 'ttl', 'held', 'declared', 'description', 'comments'],
  `
  billing.invoices  | billing-worker  | 60s  | 6 | 7m  | One worker numbers and sends the invoices of a customer at a time | Monthly run 2026-11; Credit note after return
  billing.payouts   | payout-service  | 120s | 9 | 14m | Settlement with a bank: never two files for one value date | Value date 2026-11-23; Value date 2026-11-24
  search.reindex    | search-indexer  | 30s  | 8 | 21m | One indexer for each shard | Full rebuild, mapping v19
  tenants.migrate   | tenant-migrator | 300s | 4 | 28m | Schema changes of one tenant | 0187_add_ledger_partition; 0188_drop_legacy_totals
  cron.nightly      | scheduler       | 60s  | 5 | 35m | Jobs that run once, on whichever machine is first | Started by the scheduler
  media.transcode   | media-worker    | 30s  | 7 | 42m | One worker for each upload | 4K, 3 renditions; 1080p, 2 renditions
  warehouse.picking | picking-api     | 45s  | 6 | 49m | A pick list belongs to one cart | Cart 14; Cart 22; Cart 7
  ledger            | ledger-service  | 60s  | 9 | 56m | The one that closes the books of a day | 2026-11-20
  support.macros    | support-desk    | 30s  | 0 | 26h | Edits of a shared macro |`,
);
type Service = (typeof SERVICES)[number];

/** Which leases there are. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  'billing.invoices': tenants.map((tenant) => `customer-${tenant}`),
  'billing.payouts': words('settlement-eu settlement-uk settlement-us settlement-ch'),
  'search.reindex': Array.from({ length: 16 }, (_, at) => `shard-${String(at).padStart(2, '0')}`),
  'tenants.migrate': tenants,
  'cron.nightly': words(`
    exchange-rates vacuum-carts report-revenue sync-tax-tables expire-vouchers archive-logs`),
  'media.transcode': words(`
    upload-8f3k2 upload-91bq7 upload-a02mz upload-bb41x upload-c9d3e upload-d77ka upload-e5t1p`),
  'warehouse.picking': Array.from({ length: 12 }, (_, at) => `aisle-${String(at + 1)}`),
  ledger: ['close-day', 'rebuild-balances'],
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
  readonly renewedLeaseIds: readonly string[];
}

/** Puts the leases of services into the world: declared, held, waited for, and over. */
export function addLeases(world: World): SeededLeases {
  const renewed: string[] = [];
  let count = 0;
  for (const service of SERVICES) {
    for (const name of NAMES[service.namespace] ?? []) {
      const subject: Subject = { face: 'lease', namespace: service.namespace, name };
      const lineLength = LINES[`${service.namespace}/${name}`] ?? 0;
      const leaseId = addLease(world, { service, subject, isWanted: lineLength > 0 });
      if (leaseId !== undefined) renewed.push(leaseId);
      // All names come before the tickets.
      const line = Array.from({ length: lineLength }, (_, place) => {
        const { holder: waiter, principal } = byOf(world, service);
        const agoMs = (lineLength - place) * 6_300 + world.chance.int(200, 4_000);
        return { waiter, principal, agoMs };
      });
      for (const waiter of line) queueUp(world, subject, waiter);
      count += 1;
    }
    world.add('lease_declaration', {
      namespace: service.namespace,
      ttl_ms: msOf(service.ttl),
      description: service.description,
      declared_by: service.service,
      principal: `token:${service.service}`,
      declared_at: world.ago(msOf(service.declared)),
    });
  }
  return {
    queued: { face: 'lease', namespace: 'billing.payouts', name: 'settlement-eu' },
    count,
    renewedLeaseIds: renewed,
  };
}

function byOf(world: World, { service }: Service): By {
  const { chance } = world;
  const holder = `${service}@${service.slice(0, 3)}-${chance.code(5)}:${String(chance.int(7, 990))}`;
  return { holder, principal: `token:${service}`, actor: service };
}

/** How a lease ended, or null for one that is held. */
type End = 'expired' | 'released' | 'failed' | null;

function fateOf(world: World, service: Service, isWanted: boolean): End {
  const { chance } = world;
  if (isWanted || chance.int(1, 10) <= Number(service.held)) return null;
  return chance.pick(['expired', 'released', 'released', 'released', 'released', 'failed']);
}

/** @returns the grant's id when it is one that its holder would renew. */
function addLease(
  world: World,
  { service, subject, isWanted }: { service: Service; subject: Subject; isWanted: boolean },
): string | undefined {
  const { chance } = world;
  const end = fateOf(world, service, isWanted);
  const ttlMs = msOf(service.ttl);
  const grantedAgoMs = chance.int(15, end === null ? 1_500 : 4_000) * SECOND_MS;
  addPast(world, { service, subject, grantedAgoMs });
  const grant = addGrant(world, subject, byOf(world, service), grantedAgoMs);
  const endedAgoMs = Math.floor(grantedAgoMs / 2);
  const renewedAgoMs = end === null ? chance.int(0, ttlMs / 3) : endedAgoMs + ttlMs;
  addLeaseRow(world, grant, {
    ladder: ladderOf(ttlMs),
    renewedAgoMs,
    more: {
      comment: chance.pick(service.comments.split('; ')),
      metadata: { attempt: chance.int(1, 3), region: chance.pick(['eu-central', 'eu-west']) },
      released_at: end === null || end === 'expired' ? null : world.ago(endedAgoMs),
      end_reason: end === 'failed' ? 'released' : end,
    },
  });
  if (end === null) return grant.leaseId;
  const actor = end === 'expired' ? 'leasehold' : service.service;
  noteFact(world, grant, { kind: end, agoMs: endedAgoMs, actor });
  return undefined;
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
    const grant = addGrant(world, of.subject, byOf(world, of.service), beganAgoMs);
    const roll = chance.int(1, 12);
    noteFact(world, grant, {
      kind: roll <= 9 ? 'released' : roll <= 10 ? 'failed' : 'expired',
      agoMs: endAgoMs,
      actor: roll <= 10 ? of.service.service : 'leasehold',
    });
    if (roll === 12) {
      noteFact(world, grant, {
        kind: 'renewal_blocked',
        agoMs: endAgoMs + 9_000,
        actor: 'omar.haddad@example.com',
        reason: 'Holder runs a version with a known leak',
      });
    }
    endAgoMs = beganAgoMs;
  }
}
