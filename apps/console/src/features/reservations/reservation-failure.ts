/** Refusals of reservations with what to do about them. Pure. */
import { ApiError } from '~/lib/api/api-error.ts';
import { duration } from '~/lib/format.ts';

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
