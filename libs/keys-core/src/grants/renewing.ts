import type { Caller, RenewalAct, RenewalChange } from '../kernel/face-types.ts';
import type { Ladder } from '../kernel/ladder.ts';
import { LeaseError } from '../kernel/errors.ts';
import type {
  GrantRef,
  RefusalReason,
  RefusedRenewal,
  RenewOutcome,
  UpdateOutcome,
} from '../kernel/lease.ts';
import { type Face, leaseTopic } from '../kernel/resource.ts';
import { databaseFailureOf, sqlStateOf } from '../postgres/database-errors.ts';
import { type KernelStore, pause, timed } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import { assertTableIsOpen, LOCK_NOT_AVAILABLE } from './sql/guard.ts';
import { type ShortLane, tryShort } from './sql/in-time.ts';
import { readEndedGrants } from './sql/past-grants.ts';
import {
  renew,
  renewInTime,
  type RenewRequest,
  updateMetadata,
  type UpdateRequest,
  downgrade,
  type DowngradeRequest,
} from './sql/renew.ts';
import { actOnGrant, type RecordGrantAct, setRenewable } from './sql/revoke.ts';

/** How often, and how long apart, a renewal that met a locked row is tried again. */
const SKIPPED_RENEWAL_TRIES = 3;
const SKIPPED_RENEWAL_PAUSE_MS = 20;

/** Undefined: the row was locked at every try. */
export type RenewAnswer = RenewOutcome | undefined;

/** Renews a batch; one whose row was locked at every try has no answer. */
export async function renewBatch(
  store: KernelStore,
  face: Face,
  requests: readonly RenewRequest[],
  lane: ShortLane,
): Promise<(RenewAnswer | Promise<RenewAnswer>)[]> {
  const answers = await renewPlain(store, face, requests, lane);
  const others = requests.filter(({ leaseId }) => !answers.has(leaseId));
  if (others.length > 0) await addOthers(store, face, others, answers);
  const skipped = requests.filter((request) => !answers.has(request.leaseId));
  const later = skipped.length === 0 ? undefined : renewSkipped(store, face, skipped);
  return requests.map(
    ({ leaseId }) => answers.get(leaseId) ?? later?.then((found) => found.get(leaseId)),
  );
}

/** The answers of the short statement: to most requests, or to none. */
async function renewPlain(
  store: KernelStore,
  face: Face,
  requests: readonly RenewRequest[],
  lane: ShortLane,
): Promise<Map<string, RenewOutcome>> {
  const renewed = await tryShort(
    lane,
    () => store.clock.nowMs(),
    () => timed(store, 'renew', () => renewInTime(store.renewals, face, requests)),
  );
  if (renewed === undefined) return new Map();
  if (renewed.place !== undefined) store.witness.saw({ place: renewed.place });
  return renewed.outcomes;
}

/** Adds the answers of the full statement. It must not fail where others have been renewed: they have their answers. */
async function addOthers(
  store: KernelStore,
  face: Face,
  others: readonly RenewRequest[],
  answers: Map<string, RenewOutcome>,
): Promise<void> {
  try {
    for (const [leaseId, answer] of await renewOnce(store, face, others)) {
      answers.set(leaseId, answer);
    }
  } catch (error) {
    if (answers.size === 0 || databaseFailureOf(error) === 'other') throw error;
  }
}

/** The answers of the full statement; a request without an answer met a locked row. */
async function renewOnce(store: KernelStore, face: Face, requests: readonly RenewRequest[]) {
  const renewed = await timed(store, 'renew', () => renew(store.renewals, face, requests)).catch(
    async (error: unknown) => {
      if (sqlStateOf(error) === LOCK_NOT_AVAILABLE) await assertTableIsOpen(store, error);
      throw error;
    },
  );
  const { outcomes: answers, place } = renewed;
  if (place !== undefined) store.witness.saw({ place });
  const missing = requests.filter((request) => !answers.has(request.leaseId));
  if (missing.length === 0) return answers;
  const ends = await readEndedGrants(store.renewals, face, missing);
  for (const { leaseId } of missing) {
    const end = ends.get(leaseId);
    if (end !== 'current') answers.set(leaseId, refusal(leaseId, end ?? 'not_found'));
  }
  return answers;
}

/**
 * Renewals whose rows were locked are tried again a moment later, together, and never waited for: a row
 * that somebody keeps locked must not delay the answer to the others of its call. A row that is locked
 * every time leaves its renewal without an answer, which the holder takes as a failed try.
 */
async function renewSkipped(store: KernelStore, face: Face, skipped: readonly RenewRequest[]) {
  const answers = new Map<string, RenewOutcome>();
  for (let tries = 0; tries < SKIPPED_RENEWAL_TRIES; tries += 1) {
    await pause(store, SKIPPED_RENEWAL_PAUSE_MS);
    const left = skipped.filter(({ leaseId }) => !answers.has(leaseId));
    if (left.length === 0) break;
    try {
      for (const [leaseId, answer] of await renewOnce(store, face, left)) {
        answers.set(leaseId, answer);
      }
    } catch (error) {
      // Their neighbours have been renewed, and must get their answers.
      if (databaseFailureOf(error) === 'other') throw error;
    }
  }
  return answers;
}

/** Counts by outcome: a call of a thousand renewals makes only a few observations. Says which were refused. */
export function observeRenewals(
  store: KernelStore,
  face: Face,
  requests: readonly RenewRequest[],
  outcomes: readonly RenewAnswer[],
): void {
  const counts = new Map<string, number>();
  for (const outcome of outcomes) {
    const said = outcome?.outcome === 'refused' ? outcome.reason : (outcome?.outcome ?? 'locked');
    counts.set(said, (counts.get(said) ?? 0) + 1);
  }
  for (const [said, count] of counts) store.observer.renewal(face, said, count);
  const refused = refusedOf(requests, outcomes, store.clock.nowMs());
  if (refused.length > 0) store.observer.renewalsRefused(face, refused);
}

function refusedOf(
  requests: readonly RenewRequest[],
  outcomes: readonly RenewAnswer[],
  atMs: number,
): RefusedRenewal[] {
  return requests.flatMap((request, place) => {
    const outcome = outcomes[place];
    return outcome?.outcome === 'refused' && outcome.reason !== 'not_found'
      ? [{ ...request, reason: outcome.reason, atMs }]
      : [];
  });
}

function refusal(leaseId: string, reason: RefusalReason): RenewOutcome {
  return { leaseId, outcome: 'refused', reason };
}

/**
 * Replaces the metadata of a grant, as its holder asks.
 * @throws {LeaseError} `grant.contended` when its row stays locked.
 */
export function updateHeld(
  store: KernelStore,
  face: Face,
  request: UpdateRequest,
): Promise<UpdateOutcome> {
  const { transitions, slowLane } = store;
  return changeHeld(store, face, request, (how) =>
    timed(store, 'update', () =>
      updateMetadata(how === 'skip' ? transitions : slowLane, face, request, how),
    ),
  );
}

/**
 * Shares what a holder has held alone, as it asks, and wakes those who wait to share it.
 * @throws {LeaseError} `request.invalid` for a permit; `grant.contended` when its row stays locked.
 */
export async function downgradeHeld(
  store: KernelStore,
  request: DowngradeRequest,
): Promise<UpdateOutcome> {
  const { transitions, slowLane, hints } = store;
  const answer = await changeHeld(store, 'lease', request, (how) =>
    timed(store, 'update', () => downgrade(how === 'skip' ? transitions : slowLane, request, how)),
  );
  switch (answer.outcome) {
    case 'refused':
      return answer;
    case 'permit':
      throw new LeaseError(
        'request.invalid',
        'leaseId must be of a lease that is held alone, and that has no permits',
        {
          details: { field: 'leaseId' },
        },
      );
    case 'updated':
      hints.notify(leaseTopic(answer));
      return { outcome: 'updated' };
  }
}

/**
 * Changes a grant as its holder asks: by a statement that passes over a locked row, and then in the slow lane,
 * where it waits and delays nobody.
 */
async function changeHeld<Outcome>(
  { transitions, slowLane }: KernelStore,
  face: Face,
  request: RenewRequest,
  ask: (how: 'skip' | 'wait') => Promise<Outcome | undefined>,
): Promise<Outcome | Extract<UpdateOutcome, { outcome: 'refused' }>> {
  const { leaseId } = request;
  const answer = await ask('skip');
  if (answer !== undefined) return answer;
  const end = (await readEndedGrants(transitions, face, [request])).get(leaseId);
  if (end !== 'current') return { outcome: 'refused', reason: end ?? 'not_found' };
  const waited = await ask('wait');
  if (waited !== undefined) return waited;
  // Its row was given to another grant meanwhile.
  const ended = (await readEndedGrants(slowLane, face, [request])).get(leaseId);
  if (ended === 'current') throw new LeaseError('grant.contended');
  return { outcome: 'refused', reason: ended ?? 'not_found' };
}

/** Blocks or allows the renewal of one grant, as an operator asks. @param record as {@link actOnGrant} has it. */
export async function changeRenewable(
  store: Store,
  which: { readonly face: Face; readonly renewable: boolean },
  { leaseId, reason }: RenewalAct,
  { actor, namespaces }: Caller,
  record: RecordGrantAct | undefined,
): Promise<RenewalChange> {
  const kind = which.renewable ? 'allow_renewal' : 'block_renewal';
  const request = { leaseId, reason: reason ?? null, actor, namespaces };
  const resource = await timed(store, kind, () =>
    actOnGrant(store, record, async (sql) => {
      const changed = await setRenewable(sql, which.face, which.renewable, [request]);
      return changed.get(leaseId);
    }),
  );
  return { changed: resource !== undefined };
}

/**
 * Renews the grants of one principal, with an answer for each in order, without those whose row is kept
 * locked. `deadlinesOf` counts the deadlines of a renewed grant.
 */
export async function renewHeld<Limits>(
  leases: { renewAll(face: Face, requests: readonly RenewRequest[]): Promise<RenewAnswer[]> },
  { face, principal }: { readonly face: Face; readonly principal: string },
  renewals: readonly GrantRef[],
  deadlinesOf: (ladder: Ladder, remainingMs: number) => Limits,
): Promise<(RenewRefused | (Pick<RenewDone, 'leaseId' | 'outcome'> & { deadlines: Limits }))[]> {
  const requests = renewals.map((ref) => ({ ...ref, principal }));
  const outcomes = (await leases.renewAll(face, requests)).filter((one) => one !== undefined);
  return outcomes.map((one) => {
    if (one.outcome === 'refused') return one;
    const { leaseId, outcome, ladder, remainingMs } = one;
    return { leaseId, outcome, deadlines: deadlinesOf(ladder, remainingMs) };
  });
}

type RenewRefused = Extract<RenewOutcome, { outcome: 'refused' }>;
type RenewDone = Extract<RenewOutcome, { outcome: 'renewed' }>;
