/**
 * Refused renewals, until they are written as events. The first refusal of a grant is written with the
 * next flush. A holder that goes on asking makes one more row a minute, with the number of its refusals.
 */
import { databaseFailureOf } from '../postgres/errors/database-errors.ts';
import type { RefusedRenewal } from '../kernel/lease/outcomes.ts';
import type { Face } from '../kernel/resource/resource.ts';
import type { Store } from '../postgres/open-store.ts';
import { type RefusedRow, recordRefusedRenewals } from './sql/refused-renewals.ts';

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

export interface FlushOptions {
  /** Whether nothing will be written later: then a grant's row does not wait for its minute. */
  readonly isLast?: boolean;
}

export interface RefusedRenewals {
  note(face: Face, refused: readonly RefusedRenewal[]): void;
  /** Writes what is due. What did not arrive is due again, unless it is unknown whether it did. */
  flush(store: Pick<Store, 'general' | 'clock'>, options?: FlushOptions): Promise<void>;
}

export function createRefusedRenewals(): RefusedRenewals {
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
