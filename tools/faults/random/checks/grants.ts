/** The grants of a history, from its committed events alone. */
import type { CommittedEvent, Promised } from '../history.ts';
import { isShareable } from '../world/workers/settings.ts';

const GRANT_KINDS: ReadonlySet<string> = new Set(['granted', 'taken_over']);
const END_KINDS: ReadonlySet<string> = new Set([
  'released',
  'failed',
  'expired',
  'removed',
  'revoked',
]);

export interface GrantRecord {
  readonly token: bigint;
  readonly granted: CommittedEvent;
  readonly ends: readonly CommittedEvent[];
}

export function groupedBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return groups;
}

export function grantsOf(events: readonly CommittedEvent[]): GrantRecord[] {
  const ends = groupedBy(
    events.filter((event) => END_KINDS.has(event.kind)),
    (event) => event.leaseId,
  );
  return events
    .filter((event) => GRANT_KINDS.has(event.kind))
    .map((granted) => ({
      granted,
      token: BigInt(granted.token),
      ends: ends.get(granted.leaseId) ?? [],
    }));
}

/**
 * Each grant with the one before it, of the same resource, in the order in which they were written. What several hold at
 * once has none.
 */
export function successionsOf(
  events: readonly CommittedEvent[],
): { readonly former: GrantRecord; readonly next: GrantRecord }[] {
  const ofOne = grantsOf(events).filter(({ granted }) => !isShareable(granted.resource));
  const groups = groupedBy(ofOne, ({ granted }) => granted.resource);
  return [...groups.values()].flatMap((grants) =>
    grants.slice(1).map((next, index) => ({ former: grants[index] as GrantRecord, next })),
  );
}

/**
 * The last expiry of each grant: not the latest, because after a step of the database clock a renewal may
 * name an earlier one.
 */
export function lastExpiries(promises: readonly Promised[]): Map<string, number> {
  return new Map(promises.map(({ leaseId, expiresAtMs }) => [leaseId, expiresAtMs]));
}
