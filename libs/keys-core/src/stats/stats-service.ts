import { keepNewest } from '../kernel/keep-newest.ts';
import type { FaceCounts, StatsOverview, StatsService } from './stats-types.ts';
import type { Face } from '../kernel/resource/resource.ts';
import type { EventStream } from '../events/index.ts';
import { countDrones } from '../fleet/index.ts';
import { countFailingCallbacks } from '../leases/index.ts';
import {
  countLiveBackends,
  countResources,
  readMostWaitedFor,
  type ResourceCounts,
} from './sql/resource-counts.ts';
import { readSeries } from './sql/stats-buckets.ts';
import { readClockJump } from '../postgres/clock/clock-jumps.ts';
import { readHoldOff } from '../postgres/witness/epoch.ts';
import { readNow } from '../postgres/database-settings.ts';
import type { Store } from '../postgres/open-store.ts';
import { viewOf } from '../access/index.ts';
import { sharedRead } from './shared-read.ts';
import { numbersOf, seriesOf, stepsOf } from './stats-steps.ts';

const CONTENDED_MAX = 10;
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
  | 'faces'
  | 'drones'
  | 'backends'
  | 'reaperLagMs'
  | 'eventLag'
  | 'failingCallbacks'
  | 'contended'
  | 'holdOff'
  | 'clockJump'
>;
type Past = Pick<StatsOverview, 'asOf' | 'stepMs' | 'series' | 'totals'>;

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
  };
}

async function countsOf({ store, heartbeatMs, events }: StatsDeps): Promise<Counts> {
  // Before the counts, so that it is never later than they are.
  const countedAt = await readNow(store.guests);
  const [resources, contended, drones, backends, holdOff, clockJump, eventLag, failingCallbacks] =
    await Promise.all([
      countResources(store.guests),
      readMostWaitedFor(store.guests, CONTENDED_MAX),
      countDrones(store.guests, heartbeatMs),
      countLiveBackends(store.guests),
      readHoldOff(store.guests),
      readClockJump(store.guests),
      events.lag(),
      countFailingCallbacks(store.guests),
    ]);
  const { ready, draining, unreachable, lost } = drones;
  const lagsMs = Object.values(resources).map(({ oldestOverdueMs }) => oldestOverdueMs);
  return {
    countedAt,
    faces: facesOf(resources),
    drones: {
      total: ready + draining + unreachable + lost,
      ready,
      draining,
      stale: unreachable,
      lost,
    },
    backends,
    reaperLagMs: Math.round(Math.max(0, ...lagsMs)),
    eventLag,
    failingCallbacks,
    contended: contended.map((one) => ({ ...one, longestWaitMs: Math.round(one.longestWaitMs) })),
    holdOff: viewOf(holdOff),
    clockJump,
  };
}

function facesOf(resources: Record<Face, ResourceCounts>): Record<Face, FaceCounts> {
  const withoutLag = ({ oldestOverdueMs: _lag, ...counts }: ResourceCounts): FaceCounts => counts;
  return {
    key: withoutLag(resources.key),
    lease: withoutLag(resources.lease),
    environment: withoutLag(resources.environment),
  };
}

async function pastOf({ store }: StatsDeps, windowMinutes: number): Promise<Past> {
  const window = stepsOf(windowMinutes);
  const { asOf, steps } = await readSeries(store.guests, window);
  return {
    asOf: new Date(asOf).toISOString(),
    stepMs: window.stepMs,
    series: seriesOf(steps, { asOf, ...window }),
    totals: numbersOf(steps),
  };
}
