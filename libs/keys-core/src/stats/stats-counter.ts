/**
 * What this controller answers and no statement records: renewals, denials, waits, handovers. Counted in
 * memory, the only cost on the hot paths, and added to the database every few seconds and when the
 * controller stops. A controller that is killed loses what it had not added: one flush at most.
 */
import type { RefusedRenewal } from '../kernel/lease.ts';
import { type Face, FACES } from '../kernel/resource.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import type { StoreObserver } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import { DURATION_PLACES, mergedCounts, placeOfDuration } from './histogram.ts';
import { recordRefusedRenewals, type RefusedRow } from './sql/refusals.ts';
import { addToBuckets, type StatsCounts } from './sql/stats-buckets.ts';

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
