/** What a move will do, in words, and by when it is over at the latest. Pure. */
import { ApiError } from '~/lib/api/api-error.ts';
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

// Refusals of reservations with what to do about them.

type Details = Readonly<Record<string, unknown>>;

const WHAT_TO_DO: Readonly<Record<string, (details: Details) => string>> = {
  'reservation.datacenter_unreachable': ({ datacenter }) =>
    `${textOf(datacenter, 'Its datacenter')} still serves its own keys. Try again when it can be reached.`,
  'reservation.store_unreachable': () =>
    'Keys whose home is known still work. Try again when etcd can be reached.',
  'reservation.not_found': () => 'Reserve it first, or connect to it.',
  'reservation.unknown_datacenter': ({ known }) =>
    Array.isArray(known)
      ? `This controller knows ${known.join(', ')}: see LEASEHOLD_PEERS.`
      : 'See LEASEHOLD_PEERS.',
  'reservation.same_datacenter': () => 'There is nothing to do.',
  'reservation.key_held': ({ holder, remainingMs }) =>
    `${textOf(holder, 'Another caller')} holds it${
      typeof remainingMs === 'number' ? ` for ${duration(remainingMs)} more unless renewed` : ''
    }. Revoke it, and move it when it is free.`,
  'reservation.moved_meanwhile': ({ datacenter }) =>
    `Its home is ${textOf(datacenter, 'another datacenter')} now. Refresh before you move it.`,
  'reservation.move_unfinished': ({ datacenter }) =>
    `It goes to ${textOf(datacenter, 'its new home')}. Move it there again when that can be reached, or connect to it.`,
  'reservation.chain_too_long': () => 'Use another key.',
  'reservation.conflict': () => 'Refresh. If it stays like this, see the runbook.',
  'grant.hold_off': () => 'Its last holder may still act. Try again in a moment.',
  'peer.refused': ({ datacenter }) =>
    `This controller and ${textOf(datacenter, 'the other datacenter')} must have the same LEASEHOLD_PEER_TOKEN for each other.`,
};

/** The failure, with advice if there is any. */
export function reservationFailure(error: ApiError | null): ApiError | null {
  const advice = error === null ? undefined : WHAT_TO_DO[error.code]?.(error.details);
  if (error === null || advice === undefined) return error;
  const { code, isRetryable, incidentId, details } = error;
  return new ApiError(`${error.message} ${advice}`, {
    code,
    isRetryable,
    incidentId,
    details,
    cause: error,
  });
}

function textOf(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise;
}
