import { LeaseError } from '../kernel/errors/index.ts';
import type { Offered } from '../kernel/fleet/offer.ts';
import type { ReservationService } from './reservation-types.ts';

/**
 * Another datacenter's controllers. Every method throws `reservation.datacenter_unreachable`, with
 * `details.datacenter`, when it never got the call, and `request.outcome_unknown` when it may have
 * arrived and the answer was lost.
 */
export interface Peer {
  readonly datacenter: string;
  /** @throws {LeaseError} `reservation.datacenter_unreachable` while it is known to be unreachable. */
  assertReachable(): void;
  readonly connect: ReservationService['connectHere'];
  /** What its drones offer; undefined where nobody can ask it. */
  readonly offered?: (() => Promise<Offered>) | undefined;
  /** How far away it is, in milliseconds; null before it was asked. */
  readonly roundTripMs?: (() => number | null) | undefined;
  readonly reservationStatus: ReservationService['reservationStatus'];
  /** Moves a key that lives there. */
  readonly move: ReservationService['moveHere'];
}

/** The other datacenters, by name. */
export interface Peers {
  readonly names: readonly string[];
  get(datacenter: string): Peer | undefined;
}

/**
 * The other datacenter of this name.
 * @throws {LeaseError} `reservation.datacenter_unreachable` for one that this controller does not know:
 * it exists, because somebody who knew it has reserved keys there.
 */
export function peerOf(peers: Peers, datacenter: string): Peer {
  const peer = peers.get(datacenter);
  if (peer !== undefined) return peer;
  throw new LeaseError('reservation.datacenter_unreachable', undefined, {
    details: { datacenter },
  });
}
