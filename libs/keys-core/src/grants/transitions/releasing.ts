import { LeaseError } from '../../kernel/errors/index.ts';
import type { ReleaseOutcome } from '../../kernel/lease/outcomes.ts';
import { type Face, leaseTopic } from '../../kernel/resource/resource.ts';
import type { KernelStore } from '../../postgres/kernel-store.ts';
import type { Sql } from '../../postgres/sql.ts';
import { readEndedGrants, type PastEnd } from '../sql/parts/ended-grants.ts';
import { release, type Released, type ReleaseRequest } from '../sql/release.ts';
import { timed } from '../../postgres/statements/timed.ts';

/** Releases a batch, and wakes the callers that wait for its resources. */
export async function releaseBatch(
  store: KernelStore,
  face: Face,
  requests: readonly ReleaseRequest[],
): Promise<(ReleaseOutcome | Promise<ReleaseOutcome>)[]> {
  const answers = await timed(store, 'release', () =>
    release(store.transitions, face, requests, 'skip'),
  );
  for (const released of answers.values()) {
    wakeWaiters(store, released);
    observeHeld(store, released);
  }
  const missing = requests.filter((request) => !answers.has(request.leaseId));
  const ends =
    missing.length === 0
      ? new Map<string, PastEnd | 'current'>()
      : await readEndedGrants(store.transitions, face, missing);
  return requests.map((request) => {
    const answer = answers.get(request.leaseId);
    if (answer !== undefined) return answer.outcome;
    const end = ends.get(request.leaseId);
    return end === 'current' ? releaseLocked(store, face, request) : pastRelease(end);
  });
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

/** Notifies the callers in line that their lease was released. Sends nothing if nobody waits. */
export function wakeWaiters(store: Pick<KernelStore, 'hints'>, released: Released): void {
  if (released.isAwaited) store.hints.notify(leaseTopic(released));
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
