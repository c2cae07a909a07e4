/**
 * What this controller answers and no statement records: renewals, denials, waits, handovers. Counted in
 * memory, the only cost on the hot paths, and added to the database every few seconds and when the
 * controller stops. A controller that is killed loses what it had not added: one flush at most.
 */
import { FACES, type Face } from '../kernel/resource/resource.ts';
import { createRefusedRenewals, type FlushOptions } from './refused-renewals.ts';
import { addToBuckets, type StatsCounts } from './sql/stats-buckets.ts';
import { DURATION_PLACES, mergedCounts, placeOfDuration } from './histogram.ts';
import { databaseFailureOf } from '../postgres/errors/database-errors.ts';
import type { Store } from '../postgres/open-store.ts';
import type { StoreObserver } from '../postgres/observer.ts';

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
type FaceCounts = Mutable<Omit<StatsCounts, 'waits' | 'handovers'>> & {
  waits: number[] | null;
  handovers: number[] | null;
};

export function createStatsCounter(): StatsCounter {
  let counts = new Map<Face, FaceCounts>();
  const refused = createRefusedRenewals();
  const of = (face: Face): FaceCounts => {
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

function nothingOf(face: Face): FaceCounts {
  return { face, denials: 0, renewals: 0, waits: null, handovers: null };
}

function countDuration(counts: FaceCounts, which: 'waits' | 'handovers', durationMs: number): void {
  const histogram = (counts[which] ??= new Array<number>(DURATION_PLACES).fill(0));
  const place = placeOfDuration(durationMs);
  histogram[place] = (histogram[place] ?? 0) + 1;
}

function putBack(of: (face: Face) => FaceCounts, taken: FaceCounts | undefined): void {
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
