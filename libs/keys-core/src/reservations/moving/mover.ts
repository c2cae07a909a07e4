/**
 * Moving a key to another datacenter. The steps, each of which survives a crash after it:
 *
 * 1. ask the new datacenter whether it is there, and can ask us;
 * 2. *leave*: one transaction here that takes the key, writes the pointer and seals the row
 *    (`sql/move-away.ts`). Before it nothing has happened; after it the key has left;
 * 3. put the pointer into the reservation store;
 * 4. have the new datacenter activate the reservation, which it does when it has read the pointer.
 *
 * A caller that asks for the key after 2 is sent to the new datacenter, which takes steps 3 and 4 itself:
 * a move that was cut short is finished by the next connect, or when the same move is requested
 * again. One that the controllers carry out is finished by them (`pending-moves.ts`).
 */
import type { Homes, HomesDeps } from '../resolving/homes.ts';
import { movedMeanwhile, conflict, unfinished } from '../invalid.ts';
import { keyTopic } from '../../kernel/resource/resource.ts';
import { LeaseError } from '../../kernel/errors/index.ts';
import { LIMITS } from '../../kernel/limits.ts';
import {
  keyNameOf,
  reservationIdOf,
  type ReservationPointer,
} from '../../kernel/resource/reservation.ts';
import type { Store } from '../../postgres/open-store.ts';
import type { ReservationStatus } from '../sql/activate.ts';
import { moveAway } from '../sql/move-away.ts';
import type { Caller } from '../../kernel/face-types.ts';
import { peerOf } from '../peers.ts';
import type { Home, MoveInput, Moved, ReservationService } from '../reservation-types.ts';

interface MoverDeps extends Omit<HomesDeps, 'store' | 'givenUp'> {
  readonly store: Store;
  readonly homes: Pick<Homes, 'adopt'>;
}

type Moving = Pick<ReservationService, 'move' | 'moveHere'>;

export function createMover(deps: MoverDeps): Moving {
  return new Mover(deps);
}

class Mover implements Moving {
  readonly #deps: MoverDeps;

  constructor(deps: MoverDeps) {
    this.#deps = deps;
  }

  async move(input: MoveInput, caller: Caller): Promise<Moved> {
    const { store, resolver, peers } = this.#deps;
    const { home, isJustThere } = await this.#findHome(input, caller);
    // The same move, asked for again after it was cut short: asking has finished it.
    if (home.datacenter === input.toDatacenter && isJustThere) return home;
    assertMovable(home, input);
    if (home.datacenter === store.datacenter) return this.#moveFrom(home, input, caller);
    const moved = await peerOf(peers, home.datacenter).move(input, caller);
    moved.chain.forEach((toId, index) => {
      const fromId = moved.chain[index - 1];
      if (fromId !== undefined) resolver.learn({ fromId, toId });
    });
    return moved;
  }

  async moveHere(input: MoveInput, caller: Caller): Promise<Moved> {
    const { home } = await this.#findHome(input, caller);
    assertMovable(home, input);
    if (home.datacenter !== this.#deps.store.datacenter) throw movedMeanwhile(home.reservationId);
    return this.#moveFrom(home, input, caller);
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
    return home.datacenter === store.datacenter
      ? local.reservationStatus(home.reservationId, input.key, caller.actor)
      : peerOf(peers, home.datacenter).reservationStatus(home.reservationId, input.key);
  }

  async #moveFrom(home: Home, input: MoveInput, caller: Caller): Promise<Moved> {
    const { store, local, peers } = this.#deps;
    const toId = reservationIdOf(input.toDatacenter, store.ids.uuid());
    // Nothing is sealed for a datacenter that is unreachable. The new reservation is pending there.
    await peerOf(peers, input.toDatacenter).reservationStatus(toId, input.key);
    const pointer = await this.#leave(home, input, { toId, caller });
    local.forget(home.reservationId);
    const named = keyNameOf(input.key);
    if (named !== undefined) store.hints.notify(keyTopic(named));
    return this.#arrive(pointer, input, caller).catch((error: unknown) => {
      throw unfinished(error, input.toDatacenter);
    });
  }

  /** Step 2. @throws {LeaseError} `reservation.key_held`, `reservation.moved_meanwhile`. */
  async #leave(home: Home, input: MoveInput, { toId, caller }: { toId: string; caller: Caller }) {
    const { store, resolver } = this.#deps;
    const outcome = await moveAway(store, {
      key: input.key,
      fromId: home.reservationId,
      toId,
      actor: caller.actor,
      reason: input.reason,
    });
    switch (outcome.outcome) {
      case 'sealed':
        for (const backendId of outcome.lostBackendIds) store.hints.notify(`backend:${backendId}`);
        return outcome.pointer;
      case 'moved':
        resolver.learn(outcome.pointer);
        throw movedMeanwhile(outcome.pointer.toId);
      case 'held':
        throw new LeaseError('reservation.key_held', undefined, {
          details: { holder: outcome.holder, remainingMs: Math.ceil(outcome.remainingMs) },
        });
      case 'pending':
        throw conflict(home.reservationId);
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
    const status = await this.#statusAt(home, input, caller);
    if (status.standing !== 'active') throw conflict(home.reservationId);
    return home;
  }
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
