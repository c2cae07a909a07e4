import { createEventRollup, removeOldBuckets, type StatsCounter } from '@leasehold/keys-core/stats';
import { createFreeRowRemover, removeOldLeaseRows } from '@leasehold/keys-core/grants';
import { createReaper } from '@leasehold/keys-core/keys';
import { dropOldDeclarations } from '@leasehold/keys-core/leases';
import { removeOldBulks, type BulkRunner } from '@leasehold/keys-core/bulk';
import { removeOldFleetRows } from '@leasehold/keys-core/fleet';
import {
  removeOldPeopleRows,
  type SessionAuthority,
  type TokenAuthority,
} from '@leasehold/keys-core/access';
import { removeOldWitnesses, type Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import type { Job } from './background.ts';

const REAP_EVERY_MS = 1_000;
const FREE_ROWS_EVERY_MS = 5_000;
const LOOK_EVERY_MS = 1_000;
const LAST_USES_EVERY_MS = 15_000;
const STATISTICS_EVERY_MS = 2_000;
const BULK_EVERY_MS = 2_000;
const RETENTION_EVERY_MS = 60_000;

/** The jobs of every controller: none needs a leader, each skips what another has locked. */
export function backgroundJobs(deps: {
  readonly store: Store;
  readonly tokens: TokenAuthority;
  readonly sessions: SessionAuthority;
  readonly log: Logger;
  readonly stats: StatsCounter;
  readonly bulk: BulkRunner;
  readonly retentionDays: number;
}): Job[] {
  const { store, log } = deps;
  const reaper = createReaper(store);
  const freeRows = createFreeRowRemover(store);
  const rollup = createEventRollup(store);
  return [
    { name: 'reap', everyMs: REAP_EVERY_MS, run: () => reaper.runOnce() },
    { name: 'free rows', everyMs: FREE_ROWS_EVERY_MS, run: () => freeRows.runOnce() },
    { name: 'witness', everyMs: LOOK_EVERY_MS, run: () => store.witness.look() },
    { name: 'last uses', everyMs: LAST_USES_EVERY_MS, run: () => deps.tokens.flushLastUses() },
    { name: 'sessions seen', everyMs: LAST_USES_EVERY_MS, run: () => deps.sessions.flushSeen() },
    { name: 'statistics', everyMs: STATISTICS_EVERY_MS, run: () => deps.stats.flush(store) },
    { name: 'bulk actions', everyMs: BULK_EVERY_MS, run: () => deps.bulk.runOnce() },
    { name: 'event counts', everyMs: STATISTICS_EVERY_MS, run: () => rollup.runOnce() },
    {
      name: 'retention',
      everyMs: RETENTION_EVERY_MS,
      run: async () => {
        const pass = {
          clock: store.clock,
          onFailure: (kind: string, error: unknown) => {
            log.warn({ err: error, kind }, 'old rows could not be removed; trying again');
          },
        };
        await removeOldFleetRows(store.prisma, deps.retentionDays, pass);
        await removeOldLeaseRows(store.prisma, deps.retentionDays, pass);
        await removeOldWitnesses(store.prisma, pass);
        await removeOldBulks(store.prisma, deps.retentionDays, pass);
        await removeOldBuckets(store.prisma, pass);
        await removeOldPeopleRows(store.prisma, pass);
        await dropOldDeclarations(store.prisma, deps.retentionDays);
      },
    },
  ];
}
