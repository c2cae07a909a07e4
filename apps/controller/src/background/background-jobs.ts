import {
  createEventRollup,
  type Refusals,
  type StatsCounter,
  type StatsService,
} from '@leasehold/keys-core/stats';
import { createFreeRowRemover } from '@leasehold/keys-core/grants';
import { createNameFiller } from '@leasehold/keys-core/search';
import { createReaper } from '@leasehold/keys-core/keys';
import type { WhileLeader } from '@leasehold/keys-core/leases';
import type { BulkRunner } from '@leasehold/keys-core/bulk';
import type { ReservationService } from '@leasehold/keys-core/reservations';
import type { SessionAuthority, TokenAuthority } from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import type { Webhook } from '../webhook/webhook.ts';
import { inOneController, type Job } from './background.ts';
import type { Backlogs } from './backlogs.ts';
import { removeOldRows, RETENTION_EVERY_MS } from './retention.ts';

const REAP_EVERY_MS = 1_000;
const FREE_ROWS_EVERY_MS = 5_000;
const LOOK_EVERY_MS = 1_000;
const LAST_USES_EVERY_MS = 15_000;
const STATISTICS_EVERY_MS = 2_000;
/** Counts every lease: a few percent of a core of the database at a million of them. */
const HEALTH_EVERY_MS = 15_000;
const BULK_EVERY_MS = 2_000;
const MOVES_EVERY_MS = 1_000;
const NAMES_EVERY_MS = 1_000;
const WEBHOOK_EVERY_MS = 5_000;

/**
 * The jobs of a controller. Each one writes what it keeps in memory, and reaps without a lease, because
 * leases need the reaper. Each bulk action has its own lease. One controller at a time does the rest.
 */
export function backgroundJobs(deps: {
  readonly store: Store;
  readonly tokens: TokenAuthority;
  readonly sessions: SessionAuthority;
  readonly log: Logger;
  readonly stats: StatsCounter;
  readonly refusals: Pick<Refusals, 'flush'>;
  readonly webhook: Pick<Webhook, 'isConfigured' | 'runOnce'>;
  readonly health: Pick<StatsService, 'judge'>;
  readonly bulk: BulkRunner;
  readonly reservations: Pick<ReservationService, 'carryOutMoves'>;
  readonly whileLeader: WhileLeader;
  readonly retentionDays: number;
  readonly backlogs: Backlogs;
}): Job[] {
  const { store, backlogs } = deps;
  const reaper = createReaper(store);
  const freeRows = createFreeRowRemover(store);
  const rollup = createEventRollup(store);
  const names = createNameFiller(store);
  /** A job that goes on at once while it has not caught up with what feeds it. */
  const fed = (
    name: string,
    everyMs: number,
    of: { runOnce(signal: AbortSignal, onMore: () => void): Promise<unknown> },
  ): Job => ({
    ...{ name, everyMs },
    run: (signal) => backlogs.round(name, (onMore) => of.runOnce(signal, onMore)),
  });
  const shared: Job[] = [
    fed('free rows', FREE_ROWS_EVERY_MS, freeRows),
    fed('event counts', STATISTICS_EVERY_MS, rollup),
    { name: 'health', everyMs: HEALTH_EVERY_MS, run: () => deps.health.judge() },
    fed('names', NAMES_EVERY_MS, names),
    ...webhookJobs(deps),
    {
      ...{ name: 'moves', everyMs: MOVES_EVERY_MS },
      run: (signal) => deps.reservations.carryOutMoves(signal),
    },
    {
      name: 'retention',
      everyMs: RETENTION_EVERY_MS,
      run: (signal) => removeOldRows(deps, signal),
    },
  ];
  return [
    { name: 'reap', everyMs: REAP_EVERY_MS, run: () => reaper.runOnce() },
    { name: 'witness', everyMs: LOOK_EVERY_MS, run: () => store.witness.look() },
    { name: 'last uses', everyMs: LAST_USES_EVERY_MS, run: () => deps.tokens.flushLastUses() },
    { name: 'sessions seen', everyMs: LAST_USES_EVERY_MS, run: () => deps.sessions.flushSeen() },
    { name: 'statistics', everyMs: STATISTICS_EVERY_MS, run: () => deps.stats.flush(store) },
    { name: 'refusals', everyMs: STATISTICS_EVERY_MS, run: () => deps.refusals.flush(store) },
    { name: 'bulk actions', everyMs: BULK_EVERY_MS, run: () => deps.bulk.runOnce() },
    ...shared.map((job) => inOneController(job, deps.whileLeader, deps)),
  ];
}

/** Without a webhook there is nobody to tell. */
function webhookJobs({
  webhook,
}: {
  readonly webhook: Pick<Webhook, 'isConfigured' | 'runOnce'>;
}): Job[] {
  if (!webhook.isConfigured) return [];
  return [
    {
      ...{ name: 'webhook', everyMs: WEBHOOK_EVERY_MS },
      run: (signal) => webhook.runOnce(signal),
    },
  ];
}
