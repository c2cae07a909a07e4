import { countHeldLeases, sharedRead } from '@leasehold/keys-core/stats';
import type { Store } from '@leasehold/keys-core/postgres';

/**
 * How many leases each principal holds, at all controllers: counted in the database now and then, and
 * in between by what this controller grants and releases. A count in each grant would cost more than
 * the grant; a counter row would make all grants wait for one another.
 */
export interface HeldCounts {
  /** Notes that this controller granted (positive) or released (negative) so many. */
  note(principal: string, change: number): void;
  /** The newest count, with what this controller did since it began. */
  estimateOf(principal: string): number;
  /** How much the estimate has grown here since the newest count began. */
  changeOf(principal: string): number;
  /** Counts, or waits for a count under way; one that was just made is good enough. */
  refresh(): Promise<void>;
}

/** What was noted during one count, until the next one began. */
type Changes = Map<string, number>;

export function createHeldCounts(store: Pick<Store, 'guests' | 'clock'>): HeldCounts {
  let counted = new Map<string, number>();
  /** One for each count since the newest complete one, the oldest first; changes go into the last. */
  let noted: Changes[] = [new Map<string, number>()];
  const refresh = sharedRead(store.clock, async () => {
    noted.push(new Map<string, number>());
    const since = noted.length - 1;
    try {
      counted = await countHeldLeases(store.guests);
      noted = noted.slice(since);
    } catch (error) {
      noted = [merged(noted)];
      throw error;
    }
  });
  const changeOf = (principal: string): number =>
    noted.reduce((sum, changes) => sum + (changes.get(principal) ?? 0), 0);
  return {
    note(principal, change) {
      const changes = noted.at(-1);
      changes?.set(principal, (changes.get(principal) ?? 0) + change);
    },
    changeOf,
    estimateOf: (principal) => (counted.get(principal) ?? 0) + changeOf(principal),
    refresh,
  };
}

function merged(all: readonly Changes[]): Changes {
  const sum: Changes = new Map();
  for (const changes of all) {
    for (const [principal, change] of changes) {
      sum.set(principal, (sum.get(principal) ?? 0) + change);
    }
  }
  return sum;
}
