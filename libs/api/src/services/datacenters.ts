import type { ErrorCode } from '@leasehold/keys-core';
import type { GivenUpView } from '@leasehold/keys-core/reservations';
import type { Access } from '../access/access.ts';

/** A datacenter as this one sees it. Instants are ISO-8601 UTC strings. */
export interface DatacenterView {
  readonly name: string;
  readonly isLocal: boolean;
  readonly isReachable: boolean;
  /** Since when it cannot be reached; null while it can. */
  readonly since: string | null;
  /** Why it cannot be reached; null while it can, or has not been tried yet. */
  readonly code: ErrorCode | null;
  /** Of the newest answer to a ping; null before the first one, and for this datacenter. */
  readonly roundTripMs: number | null;
}

/** Where the homes of keys are written down, and whether it can be asked. */
export interface ReservationStoreView {
  readonly kind: 'postgres' | 'etcd';
  readonly isReachable: boolean;
  /** Since when it cannot be reached; null while it can. */
  readonly since: string | null;
}

/** A datacenter that is missing from a list. */
export interface UnreachableDatacenter {
  readonly datacenter: string;
  /** Since when it cannot be reached; null if it can, but did not answer this request. */
  readonly since: string | null;
  readonly code: ErrorCode;
}

/** A procedure that is carried out in another datacenter, for a caller of this one. */
export interface ForwardedCall {
  /** As on the wire: `keys.get`. */
  readonly procedure: string;
  /** As the caller sent it, without its datacenter. */
  readonly input: unknown;
  /** For how long the procedure itself may wait, in milliseconds. */
  readonly waitMs?: number | undefined;
  readonly access: Access;
  /** The caller's address. */
  readonly source: string | null;
  /** Ends the call when the caller is gone. */
  readonly signal: AbortSignal;
}

/** This datacenter and the others. */
export interface DatacenterService {
  /** The others, in the order of their names. */
  readonly peers: readonly string[];
  list(): {
    readonly items: DatacenterView[];
    readonly store: ReservationStoreView;
    /** Those that were declared lost, whether or not this controller knows them. */
    readonly givenUp: GivenUpView[];
  };
  /** Why a datacenter is known to be unreachable; undefined when it is worth asking. */
  away(datacenter: string): UnreachableDatacenter | undefined;
  /**
   * Carries out a procedure in another datacenter, and returns its answer from there.
   * @throws {LeaseError} `reservation.unknown_datacenter`, `reservation.datacenter_unreachable`,
   * `request.outcome_unknown` when it may have been carried out, `peer.refused`, and whatever the
   * procedure itself throws.
   */
  call(datacenter: string, call: ForwardedCall): Promise<unknown>;
}
