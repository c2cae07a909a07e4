/** The service of this slice, and what apps and other slices may use of it. */
import { holdOffView } from '../access/index.ts';
import type { EventStream } from '../events/index.ts';
import { readDroneGroups } from '../fleet/index.ts';
import type { Clock } from '../kernel/clock.ts';
import type { RefusedRenewal } from '../kernel/lease.ts';
import { keepNewest } from '../kernel/requests.ts';
import { type Face, FACES } from '../kernel/resource.ts';
import { countCrashLoops } from '../keys/index.ts';
import { countFailingCallbacks, failingCallbacksSince } from '../leases/index.ts';
import { readClockJump } from '../postgres/clock/clock-jumps.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import { readNow } from '../postgres/database-settings.ts';
import type { StoreObserver } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import { readHoldOff } from '../postgres/witness/epoch.ts';
import { concernsOf, type Present, RENEWALS_JUDGED_MS } from './health.ts';
import {
  DURATION_PLACES,
  mergedCounts,
  placeOfDuration,
  numbersOf,
  seriesOf,
  splitSteps,
  stepsOf,
} from './histogram.ts';
import { recordRefusedRenewals, type RefusedRow } from './sql/refusals.ts';
import {
  addToBuckets,
  readSeries,
  type StatsCounts,
  countLiveBackends,
  countResources,
  readFailingKeys,
  readHealth,
  readMostWaitedFor,
  readRecentRenewals,
  recordHealth,
  type ResourceCounts,
} from './sql/stats-buckets.ts';
import type { FaceCounts, StatsOverview, StatsService } from './stats-types.ts';

export {
  countHeldLeases,
  createEventRollup,
  readSeries,
  removeOldBuckets,
} from './sql/stats-buckets.ts';
export {
  listRefusals,
  type Refusal,
  type RefusalListInput,
  Refusals,
  type RefusalView,
  removeOldRefusals,
  removeRefusals,
} from './sql/refusals.ts';
export { numbersOf } from './histogram.ts';
export type {
  ContendedResource,
  FailingKey,
  FaceCounts,
  HealthConcern,
  StatsOverview,
  StatsPoint,
  StatsService,
  StatsStep,
} from './stats-types.ts';

/**
 * What this controller answers and no statement records: renewals, denials, waits, handovers. Counted in
 * memory, the only cost on the hot paths, and added to the database every few seconds and when the
 * controller stops. A controller that is killed loses what it had not added: one flush at most.
 */
export interface StatsCounter {
  /** An observer for the store, which counts here and passes everything on to `next`. */
  observing(next: StoreObserver): StoreObserver;
  /**
   * Adds what was counted since the last time. Counts that did not arrive are kept for the next time;
   * only if it is unknown whether they did, they are dropped, because counting twice is worse.
   */
  flush(store: Pick<Store, 'general' | 'clock'>, options?: FlushOptions): Promise<void>;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type MutableCounts = Mutable<Omit<StatsCounts, 'waits' | 'handovers'>> & {
  waits: number[] | null;
  handovers: number[] | null;
};

export function createStatsCounter(): StatsCounter {
  let counts = new Map<Face, MutableCounts>();
  const refused = createRefusedRenewals();
  const of = (face: Face): MutableCounts => {
    const found = counts.get(face) ?? nothingOf(face);
    counts.set(face, found);
    return found;
  };
  async function flushCounts(store: Pick<Store, 'general'>): Promise<void> {
    if (counts.size === 0) return;
    const taken = counts;
    counts = new Map();
    try {
      await addToBuckets(store.general, [...taken.values()]);
    } catch (error) {
      if (databaseFailureOf(error) !== 'lost') {
        for (const face of FACES) putBack(of, taken.get(face));
      }
      throw error;
    }
  }
  return {
    observing: (next) => ({
      ...next,
      grant(face, outcome, ...rest) {
        if (outcome === 'denied') of(face).denials += 1;
        next.grant(face, outcome, ...rest);
      },
      joined(face) {
        // It was counted as denied just before, but got the running backend.
        of(face).denials -= 1;
        next.joined(face);
      },
      renewal(face, outcome, count) {
        if (outcome === 'renewed') of(face).renewals += count;
        next.renewal(face, outcome, count);
      },
      renewalsRefused(face, renewals) {
        refused.note(face, renewals);
        next.renewalsRefused(face, renewals);
      },
      waited(face, durationMs, outcome) {
        countDuration(of(face), 'waits', durationMs);
        next.waited(face, durationMs, outcome);
      },
      handedOver(face, durationMs) {
        countDuration(of(face), 'handovers', durationMs);
        next.handedOver(face, durationMs);
      },
    }),
    async flush(store, options) {
      await flushCounts(store);
      await refused.flush(store, options);
    },
  };
}

function nothingOf(face: Face): MutableCounts {
  return { face, denials: 0, renewals: 0, waits: null, handovers: null };
}

function countDuration(
  counts: MutableCounts,
  which: 'waits' | 'handovers',
  durationMs: number,
): void {
  const histogram = (counts[which] ??= new Array<number>(DURATION_PLACES).fill(0));
  const place = placeOfDuration(durationMs);
  histogram[place] = (histogram[place] ?? 0) + 1;
}

function putBack(of: (face: Face) => MutableCounts, taken: MutableCounts | undefined): void {
  if (taken === undefined) return;
  const counts = of(taken.face);
  counts.denials += taken.denials;
  counts.renewals += taken.renewals;
  counts.waits = merged(counts.waits, taken.waits);
  counts.handovers = merged(counts.handovers, taken.handovers);
}

function merged(one: number[] | null, other: number[] | null): number[] | null {
  if (one === null || other === null) return one ?? other;
  return mergedCounts([one, other]);
}

// Refused renewals, until they are written as events. The first refusal of a grant is written with the
// next flush. A holder that goes on asking makes one more row a minute, with the number of its refusals.

/** How often a grant that is refused again for the same reason makes a row. */
const ROW_EVERY_MS = 60_000;
/** How many grants are remembered. The refusals of further ones are in the metrics alone. */
const GRANTS_MAX = 20_000;
const ROWS_PER_STATEMENT_MAX = 1_000;

interface Noted {
  readonly face: Face;
  readonly first: RefusedRenewal;
  readonly lastMs: number;
  readonly count: number;
}

interface FlushOptions {
  /** Whether nothing will be written later: then a grant's row does not wait for its minute. */
  readonly isLast?: boolean;
}

interface RefusedRenewals {
  note(face: Face, refused: readonly RefusedRenewal[]): void;
  /** Writes what is due. What did not arrive is due again, unless it is unknown whether it did. */
  flush(store: Pick<Store, 'general' | 'clock'>, options?: FlushOptions): Promise<void>;
}

function createRefusedRenewals(): RefusedRenewals {
  /** What is not written yet, by grant and reason. */
  const open = new Map<string, Noted>();
  /** When a grant and reason may make a row again. */
  const nextRowMs = new Map<string, number>();

  function takeDue(nowMs: number, isLast: boolean): [string, Noted][] {
    for (const [key, atMs] of nextRowMs) if (atMs <= nowMs) nextRowMs.delete(key);
    const isDue = ([key]: [string, Noted]): boolean => isLast || !nextRowMs.has(key);
    const due = [...open].filter(isDue).slice(0, ROWS_PER_STATEMENT_MAX);
    for (const [key] of due) {
      open.delete(key);
      nextRowMs.set(key, nowMs + ROW_EVERY_MS);
    }
    return due;
  }

  function putBack(due: readonly [string, Noted][]): void {
    for (const [key, noted] of due) {
      const since = open.get(key);
      open.set(key, since === undefined ? noted : together(noted, since));
      nextRowMs.delete(key);
    }
  }

  return {
    note(face, refused) {
      for (const first of refused) {
        const key = `${first.leaseId} ${first.reason}`;
        const known = open.get(key);
        const noted = { face, first, lastMs: first.atMs, count: 1 };
        if (known !== undefined) open.set(key, together(known, noted));
        else if (open.size < GRANTS_MAX) open.set(key, noted);
      }
    },
    async flush({ general, clock }, { isLast = false } = {}) {
      for (;;) {
        const nowMs = clock.nowMs();
        const due = takeDue(nowMs, isLast);
        if (due.length === 0) return;
        try {
          await recordRefusedRenewals(
            general,
            due.map(([, noted]) => rowOf(noted, nowMs)),
          );
        } catch (error) {
          if (databaseFailureOf(error) !== 'lost') putBack(due);
          throw error;
        }
      }
    },
  };
}

function together(before: Noted, after: Noted): Noted {
  return { ...before, lastMs: after.lastMs, count: before.count + after.count };
}

function rowOf({ face, first, lastMs, count }: Noted, nowMs: number): RefusedRow {
  const { atMs, ...asked } = first;
  return { face, ...asked, count, firstAgeMs: nowMs - atMs, lastAgeMs: nowMs - lastMs };
}

const CONTENDED_MAX = 10;
const FAILING_MAX = 10;
/** A day: what is before it is not kept. */
const STATS_WINDOW_MINUTES_MAX = 24 * 60;
/** For how many windows answers are kept at once. */
const WINDOWS_MAX = 32;

interface StatsDeps {
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
