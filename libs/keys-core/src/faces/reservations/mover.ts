/**
 * Moving a key to another datacenter. The steps, each of which survives a crash after it:
 *
 * 1. ask the new datacenter whether it is there, and can ask us;
 * 2. *leave*: one transaction here that takes the key, writes the pointer and seals the row
 *    (`store/reservations/move-away`). Before it nothing has happened; after it the key has left;
 * 3. put the pointer into the reservation store;
 * 4. have the new datacenter activate the reservation, which it does when it has read the pointer.
 *
 * Whoever asks for the key after 2 is led to the new datacenter, which takes steps 3 and 4 itself:
 * a move that was cut short is finished by the next connect, or by the same move, asked for again.
 */
import { LeaseError } from '../../kernel/errors.ts';
import { LIMITS } from '../../kernel/limits.ts';
import { datacenterOf, keyNameOf, reservationIdOf } from '../../kernel/reservation.ts';
import type { ReservationPointer } from '../../kernel/reservation.ts';
import type { Store } from '../../store/open-store.ts';
import type { Standing } from '../../store/reservations/activate.ts';
import { moveAway } from '../../store/reservations/move-away.ts';
import type { Caller } from '../face-types.ts';
import { keyTopic } from '../keys/key-topic.ts';
import type { LocalHome } from './local-home.ts';
import type { Peers } from './peers.ts';
import type { ReservationStore } from './reservation-store.ts';
import type { Home, MoveInput, Moved } from './reservation-types.ts';
import type { Resolver } from './resolver.ts';

export interface MoverDeps {
  readonly store: Store;
  readonly reservations: ReservationStore;
  readonly resolver: Resolver;
  readonly local: LocalHome;
  readonly peers: Peers;
}

export interface Mover {
  /** Moves a key, wherever it lives: its own datacenter does it. */
  move(input: MoveInput, caller: Caller): Promise<Moved>;
  /** Moves a key that lives here. */
  moveHere(input: MoveInput, caller: Caller): Promise<Moved>;
}

export function createMover(deps: MoverDeps): Mover {
  const { store, reservations, resolver, local, peers } = deps;

  function standingAt(home: Home, input: MoveInput, caller: Caller): Promise<Standing> {
    const { reservationId, datacenter } = home;
    if (datacenter === store.datacenter) {
      return local.standing(reservationId, input.key, caller.actor);
    }
    const peer = peers.get(datacenter);
    if (peer === undefined) {
      throw new LeaseError('reservation.datacenter_unreachable', undefined, {
        details: { datacenter },
      });
    }
    return peer.standing(reservationId, input.key);
  }

  /** Where the key lives, by the word of that datacenter, and whether it has only just come there. */
  async function findHome(
    input: MoveInput,
    caller: Caller,
  ): Promise<{ readonly home: Home; readonly isJustThere: boolean }> {
    for (;;) {
      const home = await resolver.resolve(input.key);
      if (home === undefined) throw new LeaseError('reservation.not_found');
      const standing = await standingAt(home, input, caller);
      if (standing.standing === 'active') {
        return { home, isJustThere: home.chain.length > 1 && standing.isJustActivated === true };
      }
      if (standing.standing === 'pending') throw conflict(home.reservationId);
      resolver.learn(standing.pointer);
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

  /** Step 2. @throws {LeaseError} `reservation.key_held`, `reservation.moved_meanwhile`. */
  async function leave(
    home: Home,
    input: MoveInput,
    { toId, caller }: { toId: string; caller: Caller },
  ): Promise<ReservationPointer> {
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
        throw movedMeanwhile(outcome.pointer);
      case 'held':
        throw new LeaseError('reservation.key_held', undefined, {
          details: { holder: outcome.holder, remainingMs: Math.ceil(outcome.remainingMs) },
        });
      default:
        throw conflict(home.reservationId);
    }
  }

  /** Steps 3 and 4. */
  async function arrive(
    pointer: ReservationPointer,
    input: MoveInput,
    caller: Caller,
  ): Promise<Moved> {
    const stored = await reservations.putPointer(pointer);
    resolver.learn(stored);
    if (stored.toId !== pointer.toId) throw movedMeanwhile(stored);
    const home = await resolver.resolve(input.key);
    if (home === undefined) throw new LeaseError('reservation.not_found');
    const standing = await standingAt(home, input, caller);
    if (standing.standing !== 'active') throw conflict(home.reservationId);
    return home;
  }

  return {
    async move(input, caller) {
      const { home, isJustThere } = await findHome(input, caller);
      // The same move, asked for again after it was cut short: asking has finished it.
      if (home.datacenter === input.toDatacenter && isJustThere) return home;
      assertMovable(home, input);
      if (home.datacenter === store.datacenter) return this.moveHere(input, caller);
      const peer = peers.get(home.datacenter);
      if (peer === undefined) throw conflict(home.reservationId);
      const moved = await peer.move(input, caller);
      // It knows the whole chain; the last pointer is learned when the old home is asked.
      return moved;
    },
    async moveHere(input, caller) {
      const { home } = await findHome(input, caller);
      assertMovable(home, input);
      if (home.datacenter !== store.datacenter) {
        throw new LeaseError('reservation.moved_meanwhile', undefined, {
          details: { datacenter: home.datacenter },
        });
      }
      const peer = peers.get(input.toDatacenter);
      if (peer === undefined) {
        throw new LeaseError('reservation.unknown_datacenter', undefined, {
          details: { datacenter: input.toDatacenter, known: [store.datacenter, ...peers.names] },
        });
      }
      const toId = reservationIdOf(input.toDatacenter, store.ids.uuid());
      // Nothing is sealed for a datacenter that is away. The new reservation is pending there.
      await peer.standing(toId, input.key);
      const pointer = await leave(home, input, { toId, caller });
      local.forget(home.reservationId);
      const named = keyNameOf(input.key);
      if (named !== undefined) store.hints.notify(keyTopic(named));
      return arrive(pointer, input, caller);
    },
  };
}

function movedMeanwhile({ toId }: ReservationPointer): LeaseError {
  return new LeaseError('reservation.moved_meanwhile', undefined, {
    details: { datacenter: datacenterOf(toId), reservationId: toId },
  });
}

function conflict(reservationId: string): LeaseError {
  return new LeaseError('reservation.conflict', undefined, { details: { reservationId } });
}
