/**
 * What holds of leases that several hold, of several leases at once, and of environments that are superseded and frozen.
 * Who held what is judged by what holders believed, and not by what the database says of itself.
 */
import { LIMITS } from '@leasehold/keys-core';
import type { History, Hold, Violation } from '../history.ts';
import {
  ENVIRONMENT,
  isOf,
  PERMITS,
  PERMITS_NAMESPACE,
  SHARED_NAMESPACE,
  TOGETHER_NAMESPACE,
  wantedTogether,
} from '../world/workers/settings.ts';
import { isStepped } from './clock-steps.ts';
import { everRecorded } from './eras.ts';
import { MAPPING_MS } from './exclusion.ts';
import { grantsOf, groupedBy } from './grants.ts';

/** From a commit to the moment at which every statement, and the observer, has seen it. */
const SEEN_MS_MAX = 500;

/** For how long a holder believed that it might act, and nobody had ended its grant. */
interface Belief extends Pick<Hold, 'resource' | 'token' | 'mode'> {
  readonly fromMs: number;
  readonly untilMs: number;
}

function beliefsOf(history: History, namespace: string): Belief[] {
  const endedAtMs = new Map(
    grantsOf(everRecorded(history)).flatMap(({ granted, ends }) => {
      const end = ends.find(({ kind }) => kind !== 'expired' && kind !== 'removed');
      return end === undefined ? [] : [[granted.leaseId, end.atMs - MAPPING_MS] as const];
    }),
  );
  return history.holds
    .filter(({ resource, end }) => isOf(resource, namespace) && end !== 'died')
    .map(({ resource, token, mode, fromMs, untilMs, lateMs, leaseId }) => ({
      ...{ resource, token, mode, fromMs },
      untilMs: Math.min(untilMs - Math.max(0, lateMs), endedAtMs.get(leaseId) ?? Infinity),
    }));
}

/** The others that were believed in when this one began to be. */
function beside(one: Belief, all: readonly Belief[]): Belief[] {
  return all.filter(
    (other) => other !== one && other.fromMs <= one.fromMs && one.fromMs < other.untilMs,
  );
}

/** Never more than the permits of a key, and of all keys. */
export function checkPermits(history: History): Violation[] {
  const beliefs = beliefsOf(history, PERMITS_NAMESPACE);
  return beliefs.flatMap((belief): Violation[] => {
    const others = beside(belief, beliefs);
    const ofKey = others.filter(({ resource }) => resource === belief.resource);
    if (ofKey.length < PERMITS.perKey && others.length < PERMITS.total) return [];
    const text = `${belief.resource}: ${belief.token} beside ${others.map(({ token }) => token).join(', ')}`;
    return [{ invariant: 'permits', atMs: belief.fromMs, text }];
  });
}

/** Never shared beside one that holds it alone. */
export function checkShared(history: History): Violation[] {
  const beliefs = beliefsOf(history, SHARED_NAMESPACE);
  return beliefs.flatMap((belief): Violation[] => {
    const other = beside(belief, beliefs).find(
      ({ resource, mode }) =>
        resource === belief.resource && (mode !== 'shared' || belief.mode !== 'shared'),
    );
    if (other === undefined) return [];
    const text = `${belief.resource}: ${belief.token} beside ${other.token}`;
    return [{ invariant: 'shared', atMs: belief.fromMs, text }];
  });
}

/** I2, of leases that several hold: each token is larger than all before it. */
export function checkSharedTokens({ events }: History): Violation[] {
  const largest = new Map<string, bigint>();
  return grantsOf(events).flatMap(({ granted, token }): Violation[] => {
    const { resource, atMs } = granted;
    if (!isOf(resource, PERMITS_NAMESPACE) && !isOf(resource, SHARED_NAMESPACE)) return [];
    const before = largest.get(resource) ?? 0n;
    if (token > before) largest.set(resource, token);
    if (token > before) return [];
    return [
      { invariant: 'I2', atMs, text: `${resource}: ${granted.token} after ${String(before)}` },
    ];
  });
}

/** All of the leases of an attempt were granted, or none. Its holder says how many it wants. */
export function checkTogether({ events }: History): Violation[] {
  const ofAttempt = groupedBy(
    grantsOf(events).filter(({ granted }) => isOf(granted.resource, TOGETHER_NAMESPACE)),
    ({ granted }) => attemptOf(granted.leaseId),
  );
  return [...ofAttempt.values()].flatMap((grants): Violation[] => {
    const [first] = grants;
    if (first === undefined) return [];
    const { holder, atMs } = first.granted;
    const wanted = wantedTogether(holder);
    if (grants.length === wanted) return [];
    const text = `${holder} was granted ${String(grants.length)} of ${String(wanted)} leases`;
    return [{ invariant: 'together', atMs, text }];
  });
}

/** The leases of an attempt have ids that follow each other, within a block of as many as one may ask for. */
function attemptOf(leaseId: string): string {
  const last = Number.parseInt(leaseId.slice(-2), 16);
  return `${leaseId.slice(0, -2)} ${String(Math.floor(last / LIMITS.leasesTogetherMax))}`;
}

/**
 * Each request for the environment supersedes all before it: once one is in line, no other is granted or renewed. It is
 * in line when the observer has seen its ticket.
 */
export function checkSuperseded({ events, tickets, promises, steps }: History): Violation[] {
  const seen = tickets.filter(({ resource }) => resource === ENVIRONMENT);
  const firstSeen = new Map<string, { readonly id: number; readonly atMs: number }>();
  for (const { ticketId, id, seenByMs } of seen) {
    if (!firstSeen.has(ticketId)) firstSeen.set(ticketId, { id, atMs: seenByMs });
  }
  const newerThan = (id: number, atMs: number) =>
    [...firstSeen].find(([, one]) => one.id > id && one.atMs + SEEN_MS_MAX < atMs);
  return grantsOf(events).flatMap(({ granted }): Violation[] => {
    if (granted.resource !== ENVIRONMENT) return [];
    const own = firstSeen.get(granted.leaseId);
    // One that was granted at once came before all that were seen after its grant.
    const after = [...firstSeen].find(
      ([ticketId, { atMs }]) => ticketId !== granted.leaseId && atMs > granted.atMs,
    );
    const violations: Violation[] = [];
    const newer = own === undefined ? undefined : newerThan(own.id, granted.atMs);
    if (newer !== undefined) {
      const text = `${granted.token} was granted after ticket ${String(newer[1].id)} had superseded it`;
      violations.push({ invariant: 'superseded', atMs: granted.atMs, text });
    }
    const renewed = promises
      .filter(({ leaseId }) => leaseId === granted.leaseId)
      .slice(1)
      .find(({ seenAtMs }) => after !== undefined && after[1].atMs + SEEN_MS_MAX < seenAtMs);
    if (renewed !== undefined && !isStepped(steps, granted.atMs, renewed.seenAtMs)) {
      const text = `${granted.token} was renewed after ticket ${String(after?.[1].id)} had superseded it`;
      violations.push({ invariant: 'superseded', atMs: renewed.seenAtMs, text });
    }
    return violations;
  });
}

/** Nobody is granted a frozen environment, from the answer to who froze it until its end. */
export function checkFrozen(history: History): Violation[] {
  const { freezes, steps, lost } = history;
  // A database that was put back from a backup may not know of a freeze.
  const known = freezes.filter(
    ({ fromMs, untilMs }) =>
      !lost.some(({ endedAtMs }) => fromMs < endedAtMs && endedAtMs < untilMs),
  );
  return grantsOf(everRecorded(history)).flatMap(({ granted }): Violation[] => {
    const freeze = known.find(
      ({ resource, fromMs, untilMs }) =>
        resource === granted.resource &&
        granted.atMs > fromMs + MAPPING_MS &&
        granted.atMs < untilMs - MAPPING_MS,
    );
    if (freeze === undefined || isStepped(steps, freeze.fromMs, granted.atMs)) return [];
    const text = `${granted.resource}: ${granted.token} was granted while it was frozen`;
    return [{ invariant: 'frozen', atMs: granted.atMs, text }];
  });
}
