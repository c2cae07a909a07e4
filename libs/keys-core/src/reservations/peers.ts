import { LeaseError } from '../kernel/errors/index.ts';
import type { ReservationKey } from '../kernel/resource/reservation.ts';
import type { ReservationStatus } from './sql/activate.ts';
import type { Caller } from '../kernel/face-types.ts';
import type {
  MoveInput,
  Moved,
  PeerConnectInput,
  PeerConnectOutcome,
} from './reservation-types.ts';

/**
 * Another datacenter's controllers. Every method throws `reservation.datacenter_unreachable`, with
 * `details.datacenter`, when it never got the call, and `request.outcome_unknown` when it may have
 * arrived and the answer was lost.
 */
export interface Peer {
  readonly datacenter: string;
  /** @throws {LeaseError} `reservation.datacenter_unreachable` while it is known to be unreachable. */
  assertReachable(): void;
  connect(
    input: PeerConnectInput,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<PeerConnectOutcome>;
  /** The status of a reservation in its datacenter, which activates it if it can prove it. */
  reservationStatus(reservationId: string, key: ReservationKey): Promise<ReservationStatus>;
  /** Moves a key that lives there. */
  move(input: MoveInput, caller: Caller): Promise<Moved>;
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
