/** What a move will do, in words, and by when it is over at the latest. Pure. */
import { duration } from '~/lib/format.ts';
import { type Consequences, consequencesOf } from '~/resources/actions/revoke-consequences.ts';
import { type GrantView, isInForce } from '~/resources/grant-view.ts';

/** The consequences of a move that is requested at `nowMs` of the database's clock. */
export function moveConsequences(
  move: {
    readonly from: string;
    /** Null while no datacenter is chosen. */
    readonly to: string | null;
    /** Null: nobody was ever granted it; undefined: not known. */
    readonly grant: GrantView | null | undefined;
  },
  nowMs: number,
): Omit<Consequences, 'worstCaseMs'> {
  const { from, to, grant } = move;
  const there = to ?? 'the other datacenter';
  const sealing = [
    `${from} seals it in one transaction: nothing is granted there any more. This cannot be undone.`,
    `${there} takes it over. The next caller, in any datacenter, is sent there and gets a larger token.`,
  ];
  if (
    grant === undefined ||
    grant === null ||
    grant.phase === 'free' ||
    grant.phase === 'expired'
  ) {
    return {
      holder: grant === undefined ? 'It is unknown whether it is held.' : 'Nobody holds it.',
      steps: sealing,
      worstCase: 'It takes a moment. If it is granted before, it is not moved, and you are told.',
    };
  }
  if (!isInForce(grant)) {
    const heldMs = Math.max(0, Date.parse(grant.stopsBy ?? grant.expiresAt) - nowMs);
    return {
      holder: `It was ended by force and is held back: ${grant.holder} may still act.`,
      steps: ['Nothing happens until its backend is known to be gone.', ...sealing],
      worstCase: `It moves within ${duration(heldMs)} at worst.`,
    };
  }
  const revoke = consequencesOf(
    { face: 'key', grant, mode: 'graceful', isAbandoned: false },
    nowMs,
  );
  return {
    holder: `${revoke.holder} A held key does not move: it is revoked first, gracefully.`,
    steps: [...revoke.steps, ...sealing],
    worstCase: `${revoke.worstCase} Then it moves.`,
  };
}
