import type { Ladder } from '../../kernel/lease/ladder.ts';
import type { GrantRef, RenewOutcome } from '../../kernel/lease/outcomes.ts';
import type { LeaseStore } from '../lease-store.ts';
import { setRenewable } from '../sql/set-renewable.ts';
import { timed } from '../../postgres/statements/timed.ts';
import type { RenewalAct, Caller, RenewalChange } from '../../kernel/face-types.ts';
import type { Face } from '../../kernel/resource/resource.ts';
import type { Store } from '../../postgres/open-store.ts';

/** What the faces of keys, leases and environments do alike. */

/** Blocks or allows the renewal of one grant, as an operator asks. */
export async function changeRenewable(
  store: Store,
  which: { readonly face: Face; readonly renewable: boolean },
  { leaseId, reason }: RenewalAct,
  { actor, namespaces }: Caller,
): Promise<RenewalChange> {
  const kind = which.renewable ? 'allow_renewal' : 'block_renewal';
  const request = { leaseId, reason: reason ?? null, actor, namespaces };
  const changed = await timed(store, kind, () =>
    setRenewable(store.general, which.face, which.renewable, [request]),
  );
  const resource = changed.get(leaseId) ?? null;
  return { changed: resource !== null, resource };
}

/**
 * Renews the grants of one principal, with an answer for each in order, without those whose row is kept
 * locked. `deadlinesOf` counts the deadlines of a renewed grant.
 */
export async function renewHeld<Limits>(
  leases: LeaseStore,
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
