/**
 * Refused connects and acquires, until they are written with the statistics. Of each hour so many resources and codes are
 * remembered, and fewer of one caller, so that nobody can fill the table; all others are in the metrics alone.
 */
import type { Clock } from '../kernel/clock.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import type { Store } from '../postgres/open-store.ts';
import { recordRefusals, type RefusalRow, type RefusedCall } from './sql/refusals.ts';

const HOUR_MS = 3_600_000;
const RESOURCES_MAX = 2_000;
const RESOURCES_OF_CALLER_MAX = 500;
const REASON_LENGTH_MAX = 500;
const ROWS_PER_STATEMENT_MAX = 500;

/** A refusal, and who is counted for it. */
export interface Refusal extends RefusedCall {
  readonly principal: string;
}

interface Noted {
  readonly last: RefusedCall;
  readonly count: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

export class Refusals {
  readonly #clock: Pick<Clock, 'nowMs'>;
  /** What is not written yet. */
  #open = new Map<string, Noted>();
  /** The resources and codes of this hour, by caller. */
  #known = new Map<string, Set<string>>();
  #knownCount = 0;
  #hourEndsAtMs = 0;

  constructor(clock: Pick<Clock, 'nowMs'>) {
    this.#clock = clock;
  }

  note({ principal, ...call }: Refusal): void {
    const key = JSON.stringify([call.face, call.namespace, call.name, call.code]);
    const nowMs = this.#clock.nowMs();
    if (!this.#isRemembered(principal, key, nowMs)) return;
    const last = { ...call, reason: call.reason.slice(0, REASON_LENGTH_MAX) };
    const before = this.#open.get(key);
    const { firstMs = nowMs, count = 0 } = before ?? {};
    this.#open.set(key, { last, firstMs, lastMs: nowMs, count: count + 1 });
  }

  /** Writes what was noted. What did not arrive is written the next time, unless it is unknown whether it did. */
  async flush({ general }: Pick<Store, 'general'>): Promise<void> {
    while (this.#open.size > 0) {
      const taken = [...this.#open].slice(0, ROWS_PER_STATEMENT_MAX);
      for (const [key] of taken) this.#open.delete(key);
      try {
        const nowMs = this.#clock.nowMs();
        await recordRefusals(
          general,
          taken.map(([, noted]) => rowOf(noted, nowMs)),
        );
      } catch (error) {
        if (databaseFailureOf(error) !== 'lost') this.#putBack(taken);
        throw error;
      }
    }
  }

  #isRemembered(principal: string, key: string, nowMs: number): boolean {
    if (nowMs >= this.#hourEndsAtMs) {
      this.#known = new Map();
      this.#knownCount = 0;
      this.#hourEndsAtMs = nowMs + HOUR_MS;
    }
    const own = this.#known.get(principal) ?? new Set();
    if (own.has(key)) return true;
    if (this.#knownCount >= RESOURCES_MAX || own.size >= RESOURCES_OF_CALLER_MAX) return false;
    this.#known.set(principal, own.add(key));
    this.#knownCount += 1;
    return true;
  }

  #putBack(taken: readonly [string, Noted][]): void {
    for (const [key, noted] of taken) {
      const since = this.#open.get(key);
      const later = since ?? noted;
      const count = noted.count + (since?.count ?? 0);
      this.#open.set(key, { ...later, count, firstMs: noted.firstMs });
    }
  }
}

function rowOf({ last, count, firstMs, lastMs }: Noted, nowMs: number): RefusalRow {
  return { ...last, count, firstAgeMs: nowMs - firstMs, lastAgeMs: nowMs - lastMs };
}
