import {
  createEventRollup,
  removeOldBuckets,
  removeOldRefusals,
  type StatsCounter,
  type StatsService,
} from '@leasehold/keys-core/stats';
import { createFreeRowRemover, removeOldLeaseRows } from '@leasehold/keys-core/grants';
import { createNameFiller } from '@leasehold/keys-core/search';
import { createReaper } from '@leasehold/keys-core/keys';
import { dropOldDeclarations, type WhileLeader } from '@leasehold/keys-core/leases';
import { removeOldBulks, type BulkRunner } from '@leasehold/keys-core/bulk';
import type { ReservationService } from '@leasehold/keys-core/reservations';
import { removeOldFleetRows } from '@leasehold/keys-core/fleet';
import {
  removeOldPeopleRows,
  type SessionAuthority,
  type TokenAuthority,
} from '@leasehold/keys-core/access';
import { removeOldClockJumps, removeOldWitnesses, type Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import { inOneController, type Job } from './background.ts';

const REAP_EVERY_MS = 1_000;
const FREE_ROWS_EVERY_MS = 5_000;
const LOOK_EVERY_MS = 1_000;
const LAST_USES_EVERY_MS = 15_000;
const STATISTICS_EVERY_MS = 2_000;
/** Counts every lease: a few percent of a core of the database at a million of them. */
const HEALTH_EVERY_MS = 15_000;
const BULK_EVERY_MS = 2_000;
const RETENTION_EVERY_MS = 60_000;
const MOVES_EVERY_MS = 1_000;
const NAMES_EVERY_MS = 1_000;

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
  readonly health: Pick<StatsService, 'judge'>;
  readonly bulk: BulkRunner;
  readonly reservations: Pick<ReservationService, 'carryOutMoves'>;
  readonly whileLeader: WhileLeader;
  readonly retentionDays: number;
}): Job[] {
  const { store } = deps;
  const reaper = createReaper(store);
  const freeRows = createFreeRowRemover(store);
  const rollup = createEventRollup(store);
  const names = createNameFiller(store);
  const shared: Job[] = [
    { name: 'free rows', everyMs: FREE_ROWS_EVERY_MS, run: (signal) => freeRows.runOnce(signal) },
    { name: 'event counts', everyMs: STATISTICS_EVERY_MS, run: (signal) => rollup.runOnce(signal) },
    { name: 'health', everyMs: HEALTH_EVERY_MS, run: () => deps.health.judge() },
    { name: 'names', everyMs: NAMES_EVERY_MS, run: (signal) => names.runOnce(signal) },
    {
      ...{ name: 'moves', everyMs: MOVES_EVERY_MS },
      run: (signal) => deps.reservations.carryOutMoves(signal),
    },
    { name: 'retention', everyMs: RETENTION_EVERY_MS, run: (signal) => removeOld(deps, signal) },
  ];
  return [
    { name: 'reap', everyMs: REAP_EVERY_MS, run: () => reaper.runOnce() },
    { name: 'witness', everyMs: LOOK_EVERY_MS, run: () => store.witness.look() },
    { name: 'last uses', everyMs: LAST_USES_EVERY_MS, run: () => deps.tokens.flushLastUses() },
    { name: 'sessions seen', everyMs: LAST_USES_EVERY_MS, run: () => deps.sessions.flushSeen() },
    { name: 'statistics', everyMs: STATISTICS_EVERY_MS, run: () => deps.stats.flush(store) },
    { name: 'bulk actions', everyMs: BULK_EVERY_MS, run: () => deps.bulk.runOnce() },
    ...shared.map((job) => inOneController(job, deps.whileLeader, deps)),
  ];
}

async function removeOld(
  { store, log, retentionDays }: { store: Store; log: Logger; retentionDays: number },
  signal: AbortSignal,
): Promise<void> {
  const pass = {
    clock: store.clock,
    signal,
    onFailure: (kind: string, error: unknown) =>
      log.warn({ err: error, kind }, 'old rows could not be removed; trying again'),
  };
  await removeOldFleetRows(store.general, retentionDays, pass);
  await removeOldLeaseRows(store.general, retentionDays, pass);
  await removeOldWitnesses(store.general, pass);
  await removeOldClockJumps(store.general, pass);
  await removeOldBulks(store.general, retentionDays, pass);
  await removeOldBuckets(store.general, pass);
  await removeOldRefusals(store.general, pass, retentionDays);
  await removeOldPeopleRows(store.general, pass);
  if (!signal.aborted) await dropOldDeclarations(store.general, retentionDays);
}
