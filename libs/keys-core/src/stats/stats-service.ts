import { holdOffView } from '../access/index.ts';
import type { EventStream } from '../events/index.ts';
import { readDroneGroups } from '../fleet/index.ts';
import type { Clock } from '../kernel/clock.ts';
import { keepNewest } from '../kernel/requests-in-progress.ts';
import type { Face } from '../kernel/resource.ts';
import { countCrashLoops } from '../keys/index.ts';
import { countFailingCallbacks, failingCallbacksSince } from '../leases/index.ts';
import { readClockJump } from '../postgres/clock/clock-jumps.ts';
import { readNow } from '../postgres/database-settings.ts';
import type { Store } from '../postgres/open-store.ts';
import { readHoldOff } from '../postgres/witness/epoch.ts';
import { concernsOf, type Present, RENEWALS_JUDGED_MS } from './health.ts';
import {
  countLiveBackends,
  countResources,
  readFailingKeys,
  readHealth,
  readMostWaitedFor,
  readRecentRenewals,
  recordHealth,
  type ResourceCounts,
} from './sql/resource-counts.ts';
import { readSeries } from './sql/stats-buckets.ts';
import { numbersOf, seriesOf, splitSteps, stepsOf } from './stats-steps.ts';
import type { FaceCounts, StatsOverview, StatsService } from './stats-types.ts';

const CONTENDED_MAX = 10;
const FAILING_MAX = 10;
/** A day: what is before it is not kept. */
const STATS_WINDOW_MINUTES_MAX = 24 * 60;
/** For how many windows answers are kept at once. */
const WINDOWS_MAX = 32;

export interface StatsDeps {
  readonly store: Store;
  readonly datacenter: string;
  readonly heartbeatMs: number;
  readonly events: Pick<EventStream, 'lag'>;
}

type Counts = Pick<
  StatsOverview,
  | 'countedAt'
  | 'health'
  | 'faces'
  | 'drones'
  | 'backends'
  | 'reaperLagMs'
  | 'eventLag'
  | 'failingCallbacks'
  | 'contended'
  | 'failing'
  | 'holdOff'
  | 'clockJump'
>;
type Past = Pick<StatsOverview, 'asOf' | 'stepMs' | 'series' | 'totals' | 'before'>;

/**
 * The overview: the present, counted from the tables, and the past, from the buckets. Both are read on
 * the guests' connections, which a controller uses for nothing else, so that however large the tables
 * are, no grant and no renewal waits for a connection because somebody looks at statistics.
 */
export function createStatsService(deps: StatsDeps): StatsService {
  const { store, datacenter } = deps;
  const readCounts = sharedRead(store.clock, () => countsOf(deps));
  const windows = new Map<number, () => Promise<Past>>();
  const readPast = (windowMinutes: number): Promise<Past> => {
    const known = windows.get(windowMinutes);
    const read = known ?? sharedRead(store.clock, () => pastOf(deps, windowMinutes));
    // The window that was not requested for longest is dropped first.
    keepNewest(windows, WINDOWS_MAX, [windowMinutes, read]);
    return read();
  };
  return {
    async overview({ windowMinutes }) {
      const [counts, past] = await Promise.all([readCounts(), readPast(windowMinutes)]);
      return { datacenter, windowMinutes, ...counts, ...past };
    },
    async judge() {
      const { health } = await readCounts();
      await recordHealth(store.general, health.concerns.length === 0);
    },
  };
}

async function countsOf({ store, heartbeatMs, events }: StatsDeps): Promise<Counts> {
  const sql = store.guests;
  // Before the counts, so that it is never later than they are.
  const countedAt = await readNow(sql);
  const [
    resources,
    contended,
    failing,
    drones,
    backends,
    holdOff,
    clockJump,
    eventLag,
    failingCallbacks,
  ] = await Promise.all([
    countResources(sql),
    readMostWaitedFor(sql, CONTENDED_MAX),
    readFailingKeys(sql, FAILING_MAX),
    readDroneGroups(sql, heartbeatMs),
    countLiveBackends(sql),
    readHoldOff(sql).then(holdOffView),
    readClockJump(sql),
    events.lag(),
    countFailingCallbacks(sql),
  ]);
  const lagsMs = Object.values(resources).map(({ oldestOverdueMs }) => oldestOverdueMs);
  const present = {
    reaperLagMs: Math.round(Math.max(0, ...lagsMs)),
    holdOff,
    clockJump,
    eventLag,
    failingCallbacks,
  };
  return {
    countedAt,
    ...present,
    health: await healthOf(sql, {
      ...present,
      drones,
      nowMs: Date.parse(countedAt),
      expiring: byFace((face) => ({
        count: resources[face].expiring,
        since: resources[face].expiringSince,
      })),
    }),
    faces: byFace((face) => countsOfFace(resources[face])),
    drones: {
      total: Object.values(drones).reduce((sum, { count }) => sum + count, 0),
      ready: drones.ready.count,
      draining: drones.draining.count,
      stopped: drones.stopped.count,
      stale: drones.unreachable.count,
      lost: drones.lost.count,
    },
    backends,
    failing,
    contended: contended.map((one) => ({ ...one, longestWaitMs: Math.round(one.longestWaitMs) })),
  };
}

async function healthOf(
  sql: Store['guests'],
  counted: Omit<Present, 'renewals' | 'callbacksSince' | 'crashLoops'>,
): Promise<StatsOverview['health']> {
  const [renewals, callbacksSince, crashLoops, recorded] = await Promise.all([
    readRecentRenewals(sql),
    failingCallbacksSince(sql),
    countCrashLoops(sql),
    readHealth(sql),
  ]);
  const concerns = concernsOf({ ...counted, renewals, callbacksSince, crashLoops });
  // What is recorded is some seconds old: the opposite may be so since then.
  const isSame = recorded?.isHealthy === (concerns.length === 0);
  return {
    concerns,
    since: isSame ? new Date(recorded.since).toISOString() : null,
    judgedMs: RENEWALS_JUDGED_MS,
    renewals: renewals.renewals,
    refused: renewals.refused,
  };
}

function byFace<Value>(of: (face: Face) => Value): Record<Face, Value> {
  return { key: of('key'), lease: of('lease'), environment: of('environment') };
}

function countsOfFace(counts: ResourceCounts): FaceCounts {
  const { held, expiring, overdue, contended, waiters } = counts;
  return { held, expiring, overdue, contended, waiters };
}

async function pastOf({ store }: StatsDeps, windowMinutes: number): Promise<Past> {
  const window = stepsOf(windowMinutes);
  const { stepMs, stepCount } = window;
  const isBeforeKept = 2 * windowMinutes <= STATS_WINDOW_MINUTES_MAX;
  const { asOf, steps } = await readSeries(store.guests, {
    stepMs,
    stepCount: isBeforeKept ? 2 * stepCount : stepCount,
  });
  const { within, before } = splitSteps(steps, { asOf, ...window });
  return {
    asOf: new Date(asOf).toISOString(),
    stepMs,
    series: seriesOf(within, { asOf, ...window }),
    totals: numbersOf(within),
    before: isBeforeKept ? numbersOf(before) : null,
  };
}

/** An answer is kept this many times as long as it took: reads use at most a tenth of the time. */
const KEPT_PER_COST = 10;
const KEPT_MS_MIN = 2_000;

/**
 * An expensive read with many callers: those that ask during a read share it. Its answer is kept for
 * `keptMsMin`, or for ten times as long as it took if that is longer. A failure goes to the callers that
 * shared the read, and is not kept.
 */
export function sharedRead<T>(
  clock: Pick<Clock, 'nowMs'>,
  read: () => Promise<T>,
  keptMsMin = KEPT_MS_MIN,
): () => Promise<T> {
  let kept: { readonly answer: Promise<T>; untilMs: number } | undefined;
  return () => {
    const startedAtMs = clock.nowMs();
    if (kept !== undefined && startedAtMs < kept.untilMs) return kept.answer;
    const mine = { answer: read(), untilMs: Number.POSITIVE_INFINITY };
    kept = mine;
    mine.answer.then(
      () => {
        const endedAtMs = clock.nowMs();
        mine.untilMs = endedAtMs + Math.max(keptMsMin, KEPT_PER_COST * (endedAtMs - startedAtMs));
      },
      () => {
        mine.untilMs = Number.NEGATIVE_INFINITY;
      },
    );
    return mine.answer;
  };
}
