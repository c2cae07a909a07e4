import { LeaseError } from '../kernel/errors.ts';
import type { ReleaseOutcome } from '../kernel/lease.ts';
import {
  type Face,
  leaseTopic,
  othersTurnTopic,
  poolTopic,
  turnTopic,
} from '../kernel/resource.ts';
import { type KernelStore, timed } from '../postgres/kernel-store.ts';
import type { Sql } from '../postgres/sql.ts';
import { type ShortLane, tryShort } from './sql/in-time.ts';
import { type PastEnd, readEndedGrants } from './sql/past-grants.ts';
import { release, type Released, releaseHeld, type ReleaseRequest } from './sql/release.ts';

type ReleaseAnswer = ReleaseOutcome | Promise<ReleaseOutcome>;

/** Releases a batch, and wakes the callers that wait for its resources. */
export async function releaseBatch(
  store: KernelStore,
  face: Face,
  requests: readonly ReleaseRequest[],
  lane: ShortLane,
): Promise<ReleaseAnswer[]> {
  const short = await tryShort(
    lane,
    () => store.clock.nowMs(),
    () => carryOut(store, () => releaseHeld(store.transitions, face, requests)),
  );
  const held = short ?? new Map<string, Released>();
  const others = await releaseOthers(
    store,
    face,
    requests.filter(({ leaseId }) => !held.has(leaseId)),
  );
  return requests.map(({ leaseId }) => held.get(leaseId)?.outcome ?? others(leaseId));
}

/** Those that were not simply in force. An error here fails these alone: their neighbours are released. */
async function releaseOthers(
  store: KernelStore,
  face: Face,
  requests: readonly ReleaseRequest[],
): Promise<(leaseId: string) => ReleaseAnswer> {
  if (requests.length === 0) return () => 'not_found';
  try {
    const judged = await carryOut(store, () => release(store.transitions, face, requests, 'skip'));
    const missing = requests.filter(({ leaseId }) => !judged.has(leaseId));
    const ends =
      missing.length === 0
        ? new Map<string, PastEnd | 'current'>()
        : await readEndedGrants(store.transitions, face, missing);
    const lockedOf = new Map(missing.map((request) => [request.leaseId, request]));
    return (leaseId) => {
      const answer = judged.get(leaseId);
      if (answer !== undefined) return answer.outcome;
      const end = ends.get(leaseId);
      const locked = lockedOf.get(leaseId);
      return end === 'current' && locked !== undefined
        ? releaseLocked(store, face, locked)
        : pastRelease(end === 'current' ? undefined : end);
    };
  } catch (error) {
    return () => Promise.reject(error instanceof Error ? error : new Error(String(error)));
  }
}

/** Sends a statement that releases, and reports what it released. */
async function carryOut<Answers extends Map<string, Released> | undefined>(
  store: KernelStore,
  statement: () => Promise<Answers>,
): Promise<Answers> {
  const answers = await timed(store, 'release', statement);
  for (const released of answers?.values() ?? []) {
    wakeWaiters(store, released);
    observeHeld(store, released);
  }
  return answers;
}

/** A release whose row was locked: alone, in the slow lane, where its wait delays nobody. */
async function releaseLocked(store: KernelStore, face: Face, request: ReleaseRequest) {
  const { outcome, released } = await releaseAlone(store.slowLane, face, request);
  if (released !== undefined) {
    wakeWaiters(store, released);
    observeHeld(store, released);
  }
  return outcome;
}

/**
 * A release that waits for its row: in a transaction of its caller's, or after it was skipped.
 * `released` is for {@link wakeWaiters}, once the release is committed.
 */
export async function releaseAlone(
  sql: Sql<'general' | 'guests' | 'slowLane' | 'vital'>,
  face: Face,
  request: ReleaseRequest,
): Promise<{ outcome: ReleaseOutcome; released: Released | undefined }> {
  const released = (await release(sql, face, [request], 'wait')).get(request.leaseId);
  if (released !== undefined) return { outcome: released.outcome, released };
  const end = (await readEndedGrants(sql, face, [request])).get(request.leaseId);
  if (end === 'current') throw new LeaseError('grant.contended');
  return { outcome: pastRelease(end), released: undefined };
}

/**
 * Wakes the first in line for a released lease. The others are told, too, because its caller may be dead;
 * they look a little later. Of a pool all look at once: several may have their turn. Sends nothing if nobody waits, except where those who wait for other keys may have their turn.
 */
export function wakeWaiters(
  store: Pick<KernelStore, 'hints'>,
  released: Pick<Released, 'namespace' | 'name' | 'nextTicketId' | 'outcome' | 'slotOf'>,
): void {
  const { nextTicketId, outcome, slotOf } = released;
  if (slotOf === 'namespace' && outcome === 'released') store.hints.notify(poolTopic(released));
  else if (nextTicketId === null) return;
  else if (slotOf === 'scope') store.hints.notify(leaseTopic(released));
  else store.hints.notify(turnTopic(nextTicketId), othersTurnTopic(released));
}

/** Counts for how long a grant was held, once its release is committed. */
export function observeHeld(store: Pick<KernelStore, 'observer'>, released: Released): void {
  if (released.outcome !== 'released') return;
  const action = released.face === 'environment' ? released.tag : undefined;
  store.observer.held(released.face, released.heldMs, action);
}

function pastRelease(end: PastEnd | undefined): ReleaseOutcome {
  return end === 'released' ? 'already_released' : (end ?? 'not_found');
}
