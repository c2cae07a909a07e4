import type { Actor } from '../kernel/access.ts';
import { LeaseError } from '../kernel/errors.ts';

/** A datacenter that somebody has declared lost. Instants are ISO-8601, by the database that wrote them. */
export interface GivenUp {
  readonly datacenter: string;
  readonly declaredAt: string;
  readonly declaredBy: string;
  /** The datacenter in which that was done. */
  readonly declaredIn: string;
  readonly reason: string;
  /** Null while its keys wait: somebody there may still act on them. */
  readonly opened: Opened | null;
}

/** From when on its keys may be given other homes. Final. */
export interface Opened {
  readonly at: string;
  readonly by: string;
  readonly reason: string;
  /** Every token in another home is greater; a decimal string. */
  readonly tokenFloor: string;
  /** Whether somebody was certain that nothing runs there, and did not wait. */
  readonly isAbandoned: boolean;
}

/** What a datacenter has made known of itself, for those who may have to give it up. */
export interface Standing {
  /** No token that it had given by then was greater; a decimal string. */
  readonly token: string;
  /** The longest time for which a key is granted there. */
  readonly keyTtlMs: number;
  /** For how long after its last contact with the store a controller that starts there runs without it. */
  readonly startAloneMs: number;
}

/** As operators see it. */
export interface GivenUpView extends GivenUp {
  /** How long its keys wait still; 0 when they need not, null when only somebody who is certain can end it. */
  readonly remainingMs: number | null;
}

/** The datacenters that were given up, from memory: at most a few seconds old. */
export interface GivenUpDatacenters {
  /** What is known; undefined for a datacenter that was not given up. */
  find(datacenter: string): GivenUp | undefined;
  list(): GivenUpView[];
}

export const NONE_GIVEN_UP: GivenUpDatacenters = { find: () => undefined, list: () => [] };

export interface GiveUpInput {
  readonly datacenter: string;
  readonly reason: string;
  /** Nothing runs there, and the caller answers for it: nobody waits. */
  readonly abandon: boolean;
}

/** Giving up a datacenter that is permanently lost. Records what was done in the audit. */
export interface GiveUpService {
  list(): GivenUpView[];
  /**
   * The first time it declares the datacenter lost: from then on it no longer starts, and stops when it learns
   * of it. Again, after the wait, or with `abandon`, it lets its keys be given other homes, permanently.
   * @throws {LeaseError} `reservation.unknown_datacenter`, `reservation.datacenter_reachable`,
   * `reservation.give_up_early` with `details.remainingMs`, `reservation.store_unreachable`.
   */
  giveUp(input: GiveUpInput, actor: Actor): Promise<GivenUpView>;
  /**
   * Takes the declaration back, while its keys wait. The audit has it before it is done.
   * @throws {LeaseError} `reservation.not_given_up`, `reservation.datacenter_given_up` when it is final.
   */
  takeBack(
    input: { readonly datacenter: string; readonly reason: string },
    actor: Actor,
  ): Promise<void>;
}

/** Why a datacenter that was given up does not serve. */
export function givenUpError(givenUp: GivenUp): LeaseError {
  const { datacenter, declaredAt, declaredBy, declaredIn, reason, opened } = givenUp;
  const keys =
    opened === null
      ? `Its keys have no other homes yet: \`leasehold datacenters take-back ${datacenter}\` in ${declaredIn} undoes it`
      : 'Its keys get homes elsewhere, and this is final';
  return new LeaseError(
    'reservation.datacenter_given_up',
    `The datacenter "${datacenter}" was given up by ${declaredBy} at ${declaredAt}: ${reason}. ${keys}. Nothing is granted in it.`,
    { details: { datacenter, declaredAt, declaredBy, declaredIn, reason } },
  );
}
