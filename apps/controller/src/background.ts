/** What a controller does by itself, without being asked. */
import { setMaxListeners } from 'node:events';
import { LeaseError, type Clock } from '@leasehold/keys-core';
import {
  removeOldPeopleRows,
  type SessionAuthority,
  type TokenAuthority,
} from '@leasehold/keys-core/access';
import { removeOldBulks, type BulkRunner } from '@leasehold/keys-core/bulk';
import { removeOldFleetRows } from '@leasehold/keys-core/fleet';
import { removeOldGatewayRows } from '@leasehold/keys-core/gateway';
import {
  createFreeRowRemover,
  createOldRequestRemover,
  OLD_REQUESTS_EVERY_MS,
  removeOldLeaseRows,
} from '@leasehold/keys-core/grants';
import { createIdleStopper, createReaper } from '@leasehold/keys-core/keys';
import {
  dropOldDeclarations,
  removeOldFreezes,
  type WhileLeader,
} from '@leasehold/keys-core/leases';
import {
  type AgeWitness,
  pause,
  readAgeBelief,
  removeOldClockJumps,
  removeOldWitnesses,
  type RetentionPass,
  type Store,
} from '@leasehold/keys-core/postgres';
import type { ReservationService } from '@leasehold/keys-core/reservations';
import { createNameFiller } from '@leasehold/keys-core/search';
import {
  createEventRollup,
  removeOldBuckets,
  removeOldRefusals,
  removeRefusals,
  type Refusals,
  type StatsCounter,
  type StatsService,
} from '@leasehold/keys-core/stats';
import type { Logger } from '@leasehold/service-kit';
import type { Webhook } from './webhook.ts';

export interface Job {
  readonly name: string;
  readonly everyMs: number;
  /**
   * `signal` aborts when the round is to be its last one: it may end early. @returns {@link MORE} if the next
   * round is to begin at once.
   */
  run(signal: AbortSignal): Promise<unknown>;
}

interface Background {
  readonly store: Pick<Store, 'clock' | 'ids'>;
  readonly log: Logger;
}

/** Each round comes up to this share earlier or later, so that controllers do not act in step. */
const JITTER_SHARE = 0.2;

/**
 * Runs each job again and again, each after its last round has ended. A round that fails is logged
 * and the next one runs all the same. @returns a function that ends all, waiting for rounds
 * under way.
 */
export function runInBackground(jobs: readonly Job[], on: Background): () => Promise<void> {
  const stopping = new AbortController();
  const { signal } = stopping;
  // Each job listens to it, and there are more of them than Node takes for a leak.
  setMaxListeners(0, signal);
  const ended = jobs.map(async (job) => {
    await untilNext(job, on, signal);
    await repeat(job, on, signal);
  });
  return async () => {
    stopping.abort();
    await Promise.all(ended);
  };
}

/**
 * A job that only one controller does at a time: it holds a lease, named like the job, for round after
 * round. In a hold-off nobody gets a lease, and every controller does it, which costs more and changes
 * nothing else.
 */
export function inOneController(job: Job, whileLeader: WhileLeader, on: Background): Job {
  return {
    ...job,
    async run(stopping) {
      try {
        await whileLeader(job.name, (signal) => repeat(job, on, signal), stopping);
      } catch (error) {
        if (!(error instanceof LeaseError && error.code === 'grant.hold_off')) throw error;
        await job.run(stopping);
      }
    },
  };
}

async function repeat(job: Job, on: Background, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      if ((await job.run(signal)) === MORE) continue;
    } catch (error) {
      on.log.warn({ err: error, job: job.name }, 'background job failed; it runs again');
    }
    await untilNext(job, on, signal);
  }
}

function untilNext({ everyMs }: Job, { store }: Background, signal: AbortSignal): Promise<void> {
  return pause(store, everyMs * (1 + JITTER_SHARE * (2 * store.ids.random() - 1)), signal);
}

const REAP_EVERY_MS = 1_000;
/** No backend lives longer than its idle time and two seconds: what is left is for its drone. */
const IDLE_STOPS_EVERY_MS = 500;
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
  readonly heartbeatMs: number;
}): Job[] {
  const { store, backlogs } = deps;
  const reaper = createReaper(store);
  const idleStops = createIdleStopper(store, deps.heartbeatMs);
  const freeRows = createFreeRowRemover(store);
  const oldRequests = createOldRequestRemover(store);
  const rollup = createEventRollup(store);
  const names = createNameFiller(store);
  /** A job that goes on at once while it has not caught up with what feeds it. */
  const fed = (
    name: string,
    everyMs: number,
    of: { runOnce(signal: AbortSignal, onMore: () => void): Promise<unknown> },
  ): Job => ({
    name,
    everyMs,
    run: (signal) => backlogs.round(name, (onMore) => of.runOnce(signal, onMore)),
  });
  const shared: Job[] = [
    fed('free rows', FREE_ROWS_EVERY_MS, freeRows),
    fed('answers', OLD_REQUESTS_EVERY_MS, oldRequests),
    fed('event counts', STATISTICS_EVERY_MS, rollup),
    { name: 'health', everyMs: HEALTH_EVERY_MS, run: () => deps.health.judge() },
    fed('names', NAMES_EVERY_MS, names),
    // Without a webhook there is nobody to tell.
    ...(deps.webhook.isConfigured ? [fed('webhook', WEBHOOK_EVERY_MS, deps.webhook)] : []),
    {
      name: 'moves',
      everyMs: MOVES_EVERY_MS,
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
    fed('idle stops', IDLE_STOPS_EVERY_MS, idleStops),
    { name: 'witness', everyMs: LOOK_EVERY_MS, run: () => store.witness.look() },
    { name: 'last uses', everyMs: LAST_USES_EVERY_MS, run: () => deps.tokens.flushLastUses() },
    { name: 'sessions seen', everyMs: LAST_USES_EVERY_MS, run: () => deps.sessions.flushSeen() },
    { name: 'statistics', everyMs: STATISTICS_EVERY_MS, run: () => deps.stats.flush(store) },
    { name: 'refusals', everyMs: STATISTICS_EVERY_MS, run: () => deps.refusals.flush(store) },
    { name: 'bulk actions', everyMs: BULK_EVERY_MS, run: () => deps.bulk.runOnce() },
    ...shared.map((job) => inOneController(job, deps.whileLeader, deps)),
  ];
}

/** A round of a job whose answer is this has left work undone: the next round begins at once. */
export const MORE = 'more';

/** A job that has noted nothing for this long, in milliseconds, is done by another controller. */
const NOTED_MS_MAX = 300_000;

/** For how long each job has not caught up with what feeds it. */
export interface Backlogs {
  /** Notes whether a job has left something undone for its next round. */
  note(job: string, isMore: boolean): void;
  /** Runs one round of a job, notes whether it called `onMore` or failed, and answers {@link MORE} for the former. */
  round(job: string, work: (onMore: () => void) => Promise<unknown>): Promise<unknown>;
  /** By job, in milliseconds; 0 for one that has caught up. */
  behindMs(): Record<string, number>;
}

export function createBacklogs(clock: Pick<Clock, 'nowMs'>): Backlogs {
  const noted = new Map<string, { readonly sinceMs: number | undefined; readonly atMs: number }>();
  const note = (job: string, isMore: boolean): void => {
    const atMs = clock.nowMs();
    noted.set(job, { sinceMs: isMore ? (noted.get(job)?.sinceMs ?? atMs) : undefined, atMs });
  };
  return {
    note,
    async round(job, work) {
      const left = { isMore: false };
      try {
        await work(() => {
          left.isMore = true;
        });
      } catch (error) {
        note(job, true);
        throw error;
      }
      note(job, left.isMore);
      return left.isMore ? MORE : undefined;
    },
    behindMs() {
      const nowMs = clock.nowMs();
      return Object.fromEntries(
        [...noted].map(([job, { sinceMs = nowMs, atMs }]) => [
          job,
          nowMs - atMs > NOTED_MS_MAX ? 0 : nowMs - sinceMs,
        ]),
      );
    },
  };
}

/** How often all kinds are looked at; what has a backlog goes on in between, without a pause. */
const RETENTION_EVERY_MS = 60_000;

interface RetentionDeps {
  readonly store: Pick<Store, 'general' | 'clock'> & AgeWitness;
  readonly log: Pick<Logger, 'warn'>;
  readonly retentionDays: number;
  readonly backlogs: Backlogs;
}

/**
 * One round of removing what nobody needs any more. Kinds take turns of a second; those that have more go on,
 * so that no kind grows because rows come faster than a turn in each minute removes them. Nothing is removed while the
 * database's clock has stepped forward: its rows only look old.
 * @returns {@link MORE} when some were not done after {@link RETENTION_EVERY_MS}.
 */
export async function removeOldRows(deps: RetentionDeps, signal: AbortSignal): Promise<unknown> {
  const { store, log, retentionDays: days, backlogs } = deps;
  const { general, clock } = store;
  if ((await readAgeBelief(store)) === 'stepped') {
    log.warn(
      {},
      'the clock of the database has stepped forward; no old rows are removed meanwhile',
    );
    return undefined;
  }
  const endMs = clock.nowMs() + RETENTION_EVERY_MS;
  let due: readonly ((pass: RetentionPass) => Promise<unknown>)[] = [
    (pass) => removeOldLeaseRows(general, days, pass),
    (pass) => removeOldFleetRows(general, days, pass),
    (pass) => removeOldGatewayRows(general, pass),
    (pass) => removeOldWitnesses(general, pass),
    (pass) => removeOldClockJumps(general, pass),
    (pass) => removeOldBulks(general, days, pass),
    (pass) => removeOldBuckets(general, pass),
    (pass) => removeOldRefusals(general, pass, days),
    (pass) => removeRefusals(general, pass),
    (pass) => removeOldPeopleRows(general, pass),
    (pass) => dropOldDeclarations(general, days, pass),
    (pass) => removeOldFreezes(general, days, pass),
  ];
  do {
    const left: (typeof due)[number][] = [];
    for (const remove of due) {
      const found = { isMore: false };
      await remove({
        clock,
        signal,
        isAgeBelieved: async () => (await readAgeBelief(store)) === 'believed',
        onTurn(kind, isMore) {
          backlogs.note(kind, isMore);
          found.isMore ||= isMore;
        },
        onFailure(kind, error) {
          backlogs.note(kind, true);
          log.warn({ err: error, kind }, 'old rows could not be removed; trying again');
        },
      });
      if (found.isMore) left.push(remove);
    }
    due = left;
  } while (due.length > 0 && !signal.aborted && clock.nowMs() < endMs);
  return due.length > 0 ? MORE : undefined;
}
