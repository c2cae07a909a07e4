import type { Offered } from '../kernel/drones.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Caller, Count, FilterOf, Page } from '../kernel/face-types.ts';
import type { ReservationKey, ReservationPointer } from '../kernel/reservation.ts';
import type { ConnectInput, ConnectResult, NamedConnect } from '../keys/index.ts';

/** Where a key lives, as far as is known here: the newest reservation of its chain. */
export interface Home {
  readonly reservationId: string;
  readonly datacenter: string;
  /** All its reservations, the first one first, `reservationId` last. */
  readonly chain: readonly string[];
}

/** A connect that another datacenter has sent to the datacenter that it takes for the key's home. */
export type PeerConnectInput = NamedConnect & { readonly homeReservation: string };

/** The outcome of a connect that was forwarded: it is never forwarded a second time. */
export type PeerConnectOutcome =
  | { readonly outcome: 'connected'; readonly result: ConnectResult }
  | { readonly outcome: 'elsewhere'; readonly standing: ReservationStatus };

export interface MoveInput {
  readonly key: ReservationKey;
  readonly toDatacenter: string;
  readonly reason: string;
}

/** A move that the controllers of the key's home are to carry out. */
export interface RequestMoveInput extends MoveInput {
  /** The home of the key, as the caller saw it: a reservation of this datacenter. */
  readonly reservationId: string;
  /** The grant that has to end first; null for a key that is free. Any other grant ends the move. */
  readonly waitsFor: string | null;
}

/** A move that was asked for. Instants are ISO-8601 UTC strings. */
export interface PendingMove {
  readonly key: ReservationKey;
  readonly reservationId: string;
  readonly toDatacenter: string;
  readonly askedBy: string;
  readonly askedAt: string;
  readonly reason: string;
  /** Who holds the key, and until when without a renewal; null when it is free. */
  readonly heldBy: {
    readonly leaseId: string;
    readonly holder: string;
    readonly until: string;
  } | null;
  /** The error code with which it has ended, or `cancelled`; null while it goes on. */
  readonly failure: string | null;
}

/** A key in its new home. */
export type Moved = Home;

/** A reservation of this datacenter. Instants are ISO-8601 UTC strings. */
export interface ReservationView {
  readonly key: ReservationKey;
  readonly reservationId: string;
  readonly datacenter: string;
  readonly state: 'active' | 'moved';
  /** The reservations from the first one to this one. */
  readonly chain: readonly string[];
  /** Where it moved to; null while it is active. */
  readonly movedTo: string | null;
  readonly activatedBy: string;
  readonly activatedAt: string;
  readonly movedAt: string | null;
  readonly movedBy: string | null;
  readonly moveReason: string | null;
}

/** One link of a chain, as its own datacenter reports it. */
export interface ChainLink {
  readonly reservationId: string;
  readonly datacenter: string;
  /**
   * `unreachable`: its datacenter cannot be asked now. `pending`: nothing is granted under it yet. `given_up`:
   * its datacenter is lost, and the next connect gives the key another home.
   */
  readonly state: 'active' | 'moved' | 'pending' | 'unreachable' | 'given_up';
  /** When it was left, by whom and why; null while it is not, or where nobody knows. */
  readonly left: Departure | null;
}

/** A key's whole chain. */
export interface ReservationDetail extends Home {
  readonly key: ReservationKey;
  readonly links: readonly ChainLink[];
}

export interface ReservationListInput {
  /** Of keys in this namespace, children included. */
  readonly namespace?: string | undefined;
  /** Of keys whose last element begins with this. */
  readonly prefix?: string | undefined;
  /** A part of the key's name as it is printed, whatever its case. */
  readonly contains?: string | undefined;
  readonly state?: 'active' | 'moved' | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

export type Resolved = ({ readonly outcome: 'found' } & Home) | { readonly outcome: 'not_found' };
export type Reserved = { readonly outcome: 'reserved' | 'existing' } & Home;

/** Counts the reservations that a caller makes. A key that has its reservation already is not counted. */
export interface ReservationUse {
  /**
   * Counts a reservation that is about to be made. @returns a function that takes the count back.
   * @throws {LeaseError} `request.rate_limited` when the caller may make no more of them.
   */
  startReserving(): () => void;
}

/** What applies to a key that has no datacenter yet. */
export interface FreshKey {
  /** Where it is to live; this datacenter by default. */
  readonly datacenter?: string | undefined;
  /** Undefined for callers whose reservations are not counted. */
  readonly use?: ReservationUse | undefined;
  /** Who is about to use the key, if it is to live here. */
  readonly activateFor?: string | undefined;
}

/**
 * The reservations face. Every method may throw `reservation.store_unreachable`. Moves, requests for them and their
 * cancellations are in the audit, `source` with them, the caller's address: what this database changes is changed
 * together with the line.
 */
export interface ReservationService {
  /**
   * Decides where a key lives, unless that is decided: set-if-absent, permanently.
   * @param use undefined for callers whose reservations are not counted.
   * @throws {LeaseError} `reservation.unknown_datacenter`, `reservation.datacenter_unreachable`.
   */
  reserve(
    input: { key: ReservationKey; datacenter?: string | undefined },
    use?: ReservationUse,
  ): Promise<Reserved>;
  /**
   * Where a key lives. What was resolved once is answered from memory, with all that has been learned
   * of moves since; `isFresh` asks the key's datacenter too.
   * @throws {LeaseError} `reservation.datacenter_unreachable`, when fresh.
   */
  resolve(input: { key: ReservationKey; isFresh?: boolean | undefined }): Promise<Resolved>;
  /**
   * Moves a free key to another datacenter. It can be repeated until it has answered: a step that was
   * taken is not taken again.
   * @throws {LeaseError} `reservation.not_found`, `reservation.unknown_datacenter`,
   * `reservation.same_datacenter`, `reservation.key_held`, `reservation.moved_meanwhile`,
   * `reservation.chain_too_long`, `reservation.datacenter_unreachable`, `reservation.move_unfinished`,
   * `grant.hold_off`; `request.outcome_unknown`, also when another datacenter has moved it and that could not be
   * recorded here.
   */
  move(input: MoveInput, caller: Caller, source?: string | null): Promise<Moved>;
  /**
   * Asks for a move that the controllers here carry out, when the grant that it waits for has ended. It
   * takes the place of an earlier request for the key. A move that was cut short is completed by them too.
   * @returns the request as it was recorded.
   * @throws {LeaseError} `reservation.unknown_datacenter`, `reservation.same_datacenter`,
   * `reservation.moved_meanwhile`, `reservation.conflict`.
   */
  requestMove(
    input: RequestMoveInput,
    caller: Caller,
    source?: string | null,
  ): Promise<PendingMove>;
  /** The request for a key that lives here; null without one, and when the key has arrived. */
  pendingMove(input: { reservationId: string; key: ReservationKey }): Promise<PendingMove | null>;
  /** Ends a request. @returns false without one, and when it had ended. */
  cancelMove(
    input: { reservationId: string; key: ReservationKey },
    caller: Caller,
    source?: string | null,
  ): Promise<boolean>;
  /** One round of the job that carries requests out. */
  carryOutMoves(signal: AbortSignal): Promise<void>;
  /** The whole chain of a key, each link as its datacenter reports it; null when not reserved. */
  get(input: { key: ReservationKey }): Promise<ReservationDetail | null>;
  /** The reservations of this datacenter, in the order of their keys. */
  list(input: ReservationListInput, caller: Caller): Promise<Page<ReservationView>>;
  count(input: FilterOf<ReservationListInput>, caller: Caller): Promise<Count>;
  /**
   * Connects to a key wherever it lives.
   * @throws {LeaseError} as {@link KeyService.connect}; `reservation.unknown_datacenter`,
   * `reservation.datacenter_unreachable`, `reservation.chain_too_long`.
   */
  connect(
    input: ConnectInput,
    caller: Caller,
    signal: AbortSignal,
    fresh?: FreshKey,
  ): Promise<ConnectResult>;
  /** As {@link KeyService.refuse}, for a connect whose key may have no name yet. */
  refuse(input: ConnectInput, caller: Caller, error: unknown): Promise<ConnectResult>;
  /** A connect that another datacenter sent here. @throws {LeaseError} as {@link KeyService.connect}. */
  connectHere(
    input: PeerConnectInput,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<PeerConnectOutcome>;
  /** The status of a reservation of this datacenter, which is activated if it can be proven. */
  reservationStatus(reservationId: string, key: ReservationKey): Promise<ReservationStatus>;
  /**
   * A move that another datacenter sent here, because the key lives here.
   * @throws {LeaseError} as {@link move}.
   */
  moveHere(input: MoveInput, caller: Caller, source?: string | null): Promise<Moved>;
}

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
  readonly move: ReservationService['move'];
}

/** The other datacenters, by name. */
export interface Peers {
  readonly names: readonly string[];
  get(datacenter: string): Peer | undefined;
}

/** Finds out whether anybody answers in another datacenter. */
export interface PeerProbe {
  /** Asks now, whatever is remembered of it. True only if no answer came: a refusal is an answer. */
  isSilent(): Promise<boolean>;
}

/** The same datacenters, for who must know now whether they are there. */
export interface PeerProbes {
  readonly names: readonly string[];
  get(datacenter: string): PeerProbe | undefined;
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

/** The status of a reservation in its own datacenter. */
export type ReservationStatus =
  /** Grants are given under it; `isJustActivated` when this call activated it. */
  | { readonly standing: 'active'; readonly isJustActivated?: boolean | undefined }
  /** It was left, permanently. */
  | {
      readonly standing: 'moved';
      readonly pointer: ReservationPointer;
      /** Undefined where its datacenter does not know: it was restored. */
      readonly left?: Departure | undefined;
    }
  /** Nothing is granted under it: it was never proven, or never made. */
  | { readonly standing: 'pending' };

/** When a reservation was left, by whom and why. */
export interface Departure {
  /** ISO-8601. */
  readonly at: string;
  readonly by: string;
  readonly reason: string | null;
}
