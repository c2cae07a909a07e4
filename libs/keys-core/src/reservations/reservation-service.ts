/**
 * Keys and the datacenters that they live in: the reservations face (Epoxy).
 *
 * A key's home is found in memory, in the store, or by reserving it, and everything about the key is
 * done there: here, or by one call to the other datacenter, which never sends it on. A controller
 * that is told that a key has moved keeps the pointer and follows it.
 */
import { SYSTEM_ACTOR } from '../kernel/access.ts';
import type { Offered } from '../kernel/drones.ts';
import { assertReservationKey } from '../kernel/reservation.ts';
import type { KeyService } from '../keys/index.ts';
import type { Store } from '../postgres/open-store.ts';
import { createConnecting, createConnectingAlone } from './connecting.ts';
import { type GivenUpDatacenters, NONE_GIVEN_UP } from './given-up.ts';
import { createHomes, createLocalHome } from './homes.ts';
import { createMover, createPendingMoves } from './moving.ts';
import { createPlacing } from './placing.ts';
import type { ReservationStore } from './reservation-store.ts';
import type { Peers, ReservationService } from './reservation-types.ts';
import { createResolver, type ResolverOptions } from './resolver.ts';
import { countReservations, listReservations } from './sql/reservations.ts';

export interface ReservationDeps {
  readonly store: Store;
  readonly reservations: ReservationStore;
  readonly keys: Pick<KeyService, 'connect' | 'connectAgain' | 'refuse'>;
  readonly peers: Peers;
  /** By default none. */
  readonly givenUp?: GivenUpDatacenters | undefined;
  /** What the drones here offer; by default every program. */
  readonly offered?: (() => Promise<Offered>) | undefined;
  readonly cachedMax?: number | undefined;
  readonly onResolved?: ResolverOptions['onResolved'];
}

export function createReservationService(deps: ReservationDeps): ReservationService {
  const { store, reservations, peers, offered, cachedMax, onResolved } = deps;
  const { givenUp = NONE_GIVEN_UP } = deps;
  const resolver = createResolver({ store: reservations, cachedMax, onResolved });
  const local = createLocalHome(store, {
    store: reservations,
    statusThere: (id, key) => homes.statusAt(id, key),
  });
  const homes = createHomes({ store, resolver, local, peers, reservations, givenUp });
  const placing = createPlacing({ store, peers, homes, offered });
  const mover = createMover({ store, reservations, resolver, local, peers, homes });
  const pending = createPendingMoves({ store, local, mover });
  const connecting = createConnecting({
    store,
    keys: deps.keys,
    reservations,
    resolver,
    local,
    peers,
    homes,
    placing,
  });
  const isAlone = reservations.kind === 'postgres' && peers.names.length === 0;
  return {
    ...pending,
    requestMove: async (input, caller) => {
      assertReservationKey(input.key);
      homes.assertHere(input.reservationId);
      homes.assertKnown(input.toDatacenter);
      await pending.requestMove(input, caller);
    },
    ...connecting,
    connect: isAlone
      ? createConnectingAlone({ store, keys: deps.keys, reservations }, connecting.connect)
      : connecting.connect,
    reserve: async ({ key, datacenter }, use) => {
      assertReservationKey(key);
      return homes.reserve(key, { datacenter, use });
    },
    resolve: async ({ key, isFresh }) => {
      assertReservationKey(key);
      const home = isFresh === true ? await homes.fresh(key) : await resolver.resolve(key);
      return home === undefined ? { outcome: 'not_found' } : { outcome: 'found', ...home };
    },
    reservationStatus: async (reservationId, key) => {
      homes.assertHere(reservationId);
      assertReservationKey(key);
      return local.reservationStatus(reservationId, key, SYSTEM_ACTOR);
    },
    move: async (input, caller) => {
      assertReservationKey(input.key);
      homes.assertKnown(input.toDatacenter);
      return mover.move(input, caller);
    },
    moveHere: async (input, caller) => {
      assertReservationKey(input.key);
      homes.assertKnown(input.toDatacenter);
      return mover.moveHere(input, caller);
    },
    get: async ({ key }) => {
      assertReservationKey(key);
      return homes.detail(key);
    },
    list: (input, caller) => listReservations(store, input, caller.namespaces),
    count: (input, caller) => countReservations(store, input, caller.namespaces),
  };
}
