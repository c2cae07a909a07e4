/**
 * Moving a key to another datacenter. The steps, each of which survives a crash after it:
 *
 * 1. ask the new datacenter whether it is there, and can ask us;
 * 2. *leave*: one transaction here that takes the key, writes the pointer and seals the row
 *    (`sql/moves.ts`). Before it nothing has happened; after it the key has left;
 * 3. put the pointer into the reservation store;
 * 4. have the new datacenter activate the reservation, which it does when it has read the pointer.
 *
 * A caller that asks for the key after 2 is sent to the new datacenter, which takes steps 3 and 4 itself:
 * a move that was cut short is finished by the next connect, or when the same move is requested
 * again. One that the controllers carry out is finished by them.
 */
import { ERROR_CODES, type ErrorCode, LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import { LIMITS } from '../kernel/limits.ts';
import {
  datacenterOf,
  keyNameOf,
  parseReservationKey,
  reservationIdOf,
  type ReservationKey,
  type ReservationPointer,
} from '../kernel/reservation.ts';
import { keyTopic } from '../kernel/resource.ts';
import type { Store } from '../postgres/open-store.ts';
import { isoOf } from '../postgres/sql.ts';
import type { Homes, HomesDeps, LocalHome } from './homes.ts';
import { conflict, movedMeanwhile, unfinished } from './invalid.ts';
import {
  type Home,
  type Moved,
  type MoveInput,
  peerOf,
  type PendingMove,
  type ReservationService,
  type ReservationStatus,
} from './reservation-types.ts';
import {
  askForMove,
  endPendingMove,
  failPendingMove,
  moveAway,
  type PendingMoveRow,
  readPendingMove,
  readReadyMoves,
} from './sql/moves.ts';

interface MoverDeps extends Omit<HomesDeps, 'store' | 'givenUp'> {
  readonly store: Store;
  readonly homes: Pick<Homes, 'adopt'>;
}

interface Moving extends Pick<ReservationService, 'move' | 'moveHere'> {
  /**
   * Carries out a move that was requested for a key that lives here.
   * @throws {Withdrawn}; {LeaseError} as `moveHere`.
   */
  moveAsked(input: MoveInput, caller: Caller, asked: PendingMoveRow): Promise<Moved>;
  /**
   * Steps 3 and 4 of a move whose key has left.
   * @returns false when the key is not known to have arrived.
   */
  finish(pointer: ReservationPointer, key: ReservationKey): Promise<boolean>;
}

/** The request was cancelled, has failed, or was replaced, before the key has left. */
class Withdrawn extends Error {
  override readonly name = 'Withdrawn';
}

export function createMover(deps: MoverDeps): Moving {
  return new Mover(deps);
}

class Mover implements Moving {
  readonly #deps: MoverDeps;

  constructor(deps: MoverDeps) {
    this.#deps = deps;
  }

  async move(input: MoveInput, caller: Caller, source?: string | null): Promise<Moved> {
    const { store, resolver, peers } = this.#deps;
    const { home, isJustThere } = await this.#findHome(input, caller);
    // The same move, asked for again after it was cut short: asking has finished it.
    if (home.datacenter === input.toDatacenter && isJustThere) return home;
    assertMovable(home, input);
    if (home.datacenter === store.datacenter) return this.#moveFrom(home, input, { caller });
    const moved = await peerOf(peers, home.datacenter).move(input, caller, source);
    moved.chain.forEach((toId, index) => {
      const fromId = moved.chain[index - 1];
      if (fromId !== undefined) resolver.learn({ fromId, toId });
    });
    return moved;
  }

  moveHere(input: MoveInput, caller: Caller): Promise<Moved> {
    return this.#moveOwn(input, { caller });
  }

  moveAsked(input: MoveInput, caller: Caller, { askedAt }: PendingMoveRow): Promise<Moved> {
    return this.#moveOwn(input, { caller, askedAt });
  }

  async finish(pointer: ReservationPointer, key: ReservationKey): Promise<boolean> {
    const { reservations, resolver, peers } = this.#deps;
    const stored = await reservations.putPointer(pointer);
    resolver.learn(stored);
    if (stored.toId !== pointer.toId) throw movedMeanwhile(stored.toId);
    const status = await peerOf(peers, datacenterOf(stored.toId)).reservationStatus(
      stored.toId,
      key,
    );
    // One that has moved on had arrived.
    return status.standing !== 'pending';
  }

  async #moveOwn(input: MoveInput, asking: Asking): Promise<Moved> {
    const { home } = await this.#findHome(input, asking.caller);
    assertMovable(home, input);
    if (home.datacenter !== this.#deps.store.datacenter) throw movedMeanwhile(home.reservationId);
    return this.#moveFrom(home, input, asking);
  }

  /** Where the key lives, as that datacenter reports it, and whether it has only just arrived there. */
  async #findHome(input: MoveInput, caller: Caller) {
    const { resolver } = this.#deps;
    for (;;) {
      const home = await resolver.resolve(input.key);
      if (home === undefined) throw new LeaseError('reservation.not_found');
      if (await this.#deps.homes.adopt(home, input.key, input.toDatacenter)) continue;
      const hasLeft = home.chain.length > 1 && home.datacenter === input.toDatacenter;
      const status = await this.#statusAt(home, input, caller).catch((error: unknown) => {
        throw hasLeft ? unfinished(error, home.datacenter) : error;
      });
      if (status.standing === 'active') {
        return { home, isJustThere: home.chain.length > 1 && status.isJustActivated === true };
      }
      if (status.standing === 'pending') {
        resolver.forget(home, input.key);
        throw conflict(home.reservationId);
      }
      resolver.learn(status.pointer);
    }
  }

  #statusAt(home: Home, input: MoveInput, caller: Caller): Promise<ReservationStatus> {
    const { store, local, peers } = this.#deps;
    // Another controller here may have moved it since. Leaving finds that out; a refusal to move it to where
    // it seems to live already would not.
    if (home.datacenter === input.toDatacenter) local.forget(home.reservationId);
    return home.datacenter === store.datacenter
      ? local.reservationStatus(home.reservationId, input.key, caller.actor)
      : peerOf(peers, home.datacenter).reservationStatus(home.reservationId, input.key);
  }

  async #moveFrom(home: Home, input: MoveInput, asking: Asking): Promise<Moved> {
    const { store, local, peers } = this.#deps;
    const toId = reservationIdOf(input.toDatacenter, store.ids.uuid());
    // Nothing is sealed for a datacenter that is unreachable. The new reservation is pending there.
    await peerOf(peers, input.toDatacenter).reservationStatus(toId, input.key);
    const pointer = await this.#leave(home, input, { ...asking, toId });
    local.forget(home.reservationId);
    const named = keyNameOf(input.key);
    if (named !== undefined) store.hints.notify(keyTopic(named));
    return this.#arrive(pointer, input, asking.caller).catch((error: unknown) => {
      throw unfinished(error, input.toDatacenter);
    });
  }

  /** Step 2. @throws {LeaseError} `reservation.key_held`, `reservation.moved_meanwhile`. */
  async #leave(
    home: Home,
    input: MoveInput,
    { toId, caller, askedAt }: Asking & { readonly toId: string },
  ): Promise<ReservationPointer> {
    const { store, resolver, local } = this.#deps;
    const outcome = await moveAway(store, {
      key: input.key,
      fromId: home.reservationId,
      toId,
      actor: caller.actor,
      reason: input.reason,
      askedAt,
    });
    switch (outcome.outcome) {
      case 'sealed':
        for (const backendId of outcome.lostBackendIds) store.hints.notify(`backend:${backendId}`);
        return outcome.pointer;
      case 'moved':
        local.forget(home.reservationId);
        resolver.learn(outcome.pointer);
        // Another controller here has carried out the same move.
        if (datacenterOf(outcome.pointer.toId) === input.toDatacenter) return outcome.pointer;
        throw movedMeanwhile(outcome.pointer.toId);
      case 'held':
        throw new LeaseError('reservation.key_held', undefined, {
          details: { holder: outcome.holder, remainingMs: Math.ceil(outcome.remainingMs) },
        });
      case 'pending':
        throw conflict(home.reservationId);
      case 'withdrawn':
        throw new Withdrawn();
    }
  }

  /** Steps 3 and 4. */
  async #arrive(pointer: ReservationPointer, input: MoveInput, caller: Caller): Promise<Moved> {
    const { reservations, resolver } = this.#deps;
    const stored = await reservations.putPointer(pointer);
    resolver.learn(stored);
    if (stored.toId !== pointer.toId) throw movedMeanwhile(stored.toId);
    const home = await resolver.resolve(input.key);
    if (home === undefined) throw new LeaseError('reservation.not_found');
    if (home.datacenter !== input.toDatacenter) throw movedMeanwhile(home.reservationId);
    const status = await this.#statusAt(home, input, caller);
    if (status.standing === 'moved') {
      resolver.learn(status.pointer);
      throw movedMeanwhile(status.pointer.toId);
    }
    if (status.standing !== 'active') throw conflict(home.reservationId);
    return home;
  }
}

/** Who moves, and which request this carries out, if it carries one out. */
interface Asking {
  readonly caller: Caller;
  readonly askedAt?: number | undefined;
}

/** @throws {LeaseError} `reservation.same_datacenter`, `reservation.chain_too_long`. */
function assertMovable(home: Home, { toDatacenter }: MoveInput): void {
  if (home.datacenter === toDatacenter) {
    throw new LeaseError('reservation.same_datacenter', undefined, {
      details: { datacenter: toDatacenter },
    });
  }
  if (home.chain.length > LIMITS.reservationChainMax) {
    throw new LeaseError('reservation.chain_too_long');
  }
}

// Moves that wait for the key's grant to end, and all that a console requests: they are recorded at the
// key’s home, and the controllers there carry them out. The caller need not stay.

interface PendingMovesDeps {
  readonly store: Store;
  readonly local: LocalHome;
  readonly mover: Pick<Moving, 'moveAsked' | 'finish'>;
  readonly homes: Pick<Homes, 'assertKnown'>;
}

type PendingMoves = Pick<
  ReservationService,
  'requestMove' | 'cancelMove' | 'pendingMove' | 'carryOutMoves'
>;

/** Read at once. A round goes through all: requests that cannot go on must not delay others. */
const MOVES_PER_PAGE = 1_000;
/** Each asks another datacenter, which may be slow. */
const LANES = 8;
/** The `failure` of a move that somebody has cancelled; all others are error codes. */
const CANCELLED = 'cancelled';

export function createPendingMoves(deps: PendingMovesDeps): PendingMoves {
  const { store, local } = deps;

  async function pendingMove(input: { reservationId: string; key: ReservationKey }) {
    const row = await readPendingMove(store.reads, input.reservationId, input.key);
    return row === null ? null : viewOf(row);
  }

  return {
    pendingMove,

    async requestMove(input, caller) {
      const { reservationId, key, toDatacenter, reason, waitsFor } = input;
      if (toDatacenter === store.datacenter) {
        throw new LeaseError('reservation.same_datacenter', undefined, {
          details: { datacenter: toDatacenter },
        });
      }
      const status = await local.reservationStatus(reservationId, key, caller.actor);
      if (status.standing === 'moved') throw movedMeanwhile(status.pointer.toId);
      const move = { reservationId, key, toDatacenter, reason, waitsFor, askedBy: caller.actor };
      if (!(await askForMove(store.general, move))) {
        local.forget(reservationId);
        throw conflict(reservationId);
      }
    },

    async cancelMove({ reservationId, key }) {
      const move = await readPendingMove(store.general, reservationId, key);
      if (move === null) return false;
      return failPendingMove(store.general, move, { failure: CANCELLED, ending: 'here' });
    },

    async carryOutMoves(signal) {
      const failures: unknown[] = [];
      let after: PendingMoveRow | null = null;
      do {
        const moves = await readReadyMoves(store.general, { after, limit: MOVES_PER_PAGE });
        after = moves.length < MOVES_PER_PAGE ? null : (moves.at(-1) ?? null);
        const lane = async (): Promise<void> => {
          for (let move = moves.shift(); move !== undefined; move = moves.shift()) {
            if (signal.aborted) return;
            await carryOut(deps, move).catch((error: unknown) => failures.push(error));
          }
        };
        await Promise.all(Array.from({ length: LANES }, lane));
      } while (after !== null && !signal.aborted);
      if (failures.length > 0) throw failures[0];
    },
  };
}

/** One try. A temporary refusal leaves the request for the next round. */
async function carryOut(deps: PendingMovesDeps, move: PendingMoveRow): Promise<void> {
  const { store, homes } = deps;
  try {
    homes.assertKnown(move.toDatacenter);
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    // Another controller may know it, whose configuration is newer.
    if (error.code === 'reservation.unknown_datacenter') return;
    // Nobody can go there, or arrive there.
    await failPendingMove(store.general, move, { failure: error.code, ending: 'any' });
    return;
  }
  const failure = await failureOf(deps, move);
  if (failure === undefined) return;
  if (failure === null) await endPendingMove(store.general, move);
  else await failPendingMove(store.general, move, { failure, ending: 'notOnItsWay' });
}

/** @returns why the request ends without a move; null when the key has arrived, undefined to try again. */
async function failureOf(
  { mover }: PendingMovesDeps,
  move: PendingMoveRow,
): Promise<ErrorCode | null | undefined> {
  const { toDatacenter, reason, askedBy, reservationId, movedTo, tokenFloor } = move;
  const key = parseReservationKey(move.key);
  try {
    if (movedTo !== null && tokenFloor !== null) {
      if (datacenterOf(movedTo) !== toDatacenter) return 'reservation.moved_meanwhile';
      const pointer = { fromId: reservationId, toId: movedTo, tokenFloor };
      return (await mover.finish(pointer, key)) ? null : undefined;
    }
    if (move.leaseId !== null) return 'reservation.key_held';
    await mover.moveAsked({ key, toDatacenter, reason }, callerNamed(askedBy), move);
    return null;
  } catch (error) {
    // What withdrew it has ended it, or has put another in its place.
    if (error instanceof Withdrawn) return undefined;
    if (!(error instanceof LeaseError)) throw error;
    // It had left before: asking has made it arrive.
    if (error.code === 'reservation.same_datacenter') return null;
    return passes(error) ? undefined : error.code;
  }
}

/** A holder that was granted the key in between is found by the next round. */
function passes({ code }: LeaseError): boolean {
  return code !== 'reservation.moved_meanwhile' && ERROR_CODES[code].retryable;
}

/** The rights of the person or token that asked were checked with the request. */
function callerNamed(actor: string): Caller {
  return { principal: actor, actor, role: 'operator', namespaces: null };
}

function viewOf(row: PendingMoveRow): PendingMove {
  const { reservationId, toDatacenter, askedBy, askedAt, reason, failure } = row;
  const { leaseId, holder, heldUntil } = row;
  return {
    reservationId,
    toDatacenter,
    askedBy,
    reason,
    failure,
    key: parseReservationKey(row.key),
    askedAt: isoOf(askedAt),
    heldBy:
      leaseId === null || heldUntil === null
        ? null
        : { leaseId, holder: holder ?? '', until: isoOf(heldUntil) },
  };
}
