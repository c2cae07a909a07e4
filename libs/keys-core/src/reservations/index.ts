/** The service of this slice, and what apps and other slices may use of it. */
import type { Logger } from '@leasehold/service-kit';
import { SYSTEM_ACTOR } from '../kernel/access.ts';
import type { Offered } from '../kernel/drones.ts';
import { invariant, LeaseError } from '../kernel/errors.ts';
import {
  assertReservationKey,
  datacenterOf,
  type ReservationPointer,
} from '../kernel/reservation.ts';
import type { KeyService } from '../keys/index.ts';
import type { Store } from '../postgres/open-store.ts';
import { createConnecting, createConnectingAlone } from './connecting.ts';
import { type GivenUpDatacenters, NONE_GIVEN_UP } from './given-up.ts';
import { createHomes, createLocalHome } from './homes.ts';
import { assertOwn } from './invalid.ts';
import { createMover, createPendingMoves } from './moving.ts';
import { createPlacing } from './placing.ts';
import { hasForgotten, publishAll, type Publishing } from './publish.ts';
import type { ReservationStore } from './reservation-store.ts';
import type { Peers, ReservationService } from './reservation-types.ts';
import { createResolver, type ResolverOptions } from './resolver.ts';
import {
  markPublishing,
  type Membership,
  noteMembership,
  readMembership,
  sealDeparted,
} from './sql/membership.ts';
import { countReservations, listReservations } from './sql/reservations.ts';

export type { EtcdOptions } from './etcd/etcd-calls.ts';
export { createEtcdReservationStore, type EtcdReservationStore } from './etcd/etcd-store.ts';
export { createGiveUpService, createNoGiveUpService } from './give-up-service.ts';
export {
  type GivenUp,
  type GivenUpDatacenters,
  type GivenUpView,
  type GiveUpService,
  NONE_GIVEN_UP,
} from './given-up.ts';
export type {
  Home,
  MoveInput,
  Peer,
  PeerConnectOutcome,
  PeerProbe,
  PeerProbes,
  Peers,
  PendingMove,
  ReservationDetail,
  ReservationListInput,
  ReservationService,
  ReservationStatus,
  ReservationUse,
  ReservationView,
  Resolved,
} from './reservation-types.ts';
export type { Offered } from '../kernel/drones.ts';
export {
  createPostgresReservationStore,
  createRememberingStore,
  type ReservationStore,
} from './reservation-store.ts';
export {
  createKnownGivenUp,
  createOwnStanding,
  type KnownGivenUp,
  type OwnStanding,
} from './standing.ts';
export { createResolver, type Resolver } from './resolver.ts';
export {
  type Membership,
  noteMembership,
  PUBLISHING,
  readMembership,
  registerHere,
} from './sql/membership.ts';
export { assertOwn, invalid } from './invalid.ts';
export { reserveOldKeysHere } from './publish.ts';

/**
 * What a datacenter owes etcd, its reservation store:
 *
 * 1. to register its name there, which another database may not have;
 * 2. to read from it which keys have left, when this database was restored or failed over since it
 *    last did: until then the grant statement refuses keys;
 * 3. to tell it what lives here, when it does not have all of it, because it is new or restored.
 *
 * A start carries them out before it is ready. A start while etcd is unreachable leaves them for the first
 * contact, and a failover under a running controller makes the second one due again.
 */

/** The database is one whose epoch has been checked. */
interface DutiesDeps extends Publishing {
  readonly log: Logger;
}

export interface Duties {
  /** Whether they have been carried out since this controller was started. */
  readonly isDone: () => boolean;
  /**
   * Carries all of them out. Doing it again changes nothing, also in several controllers at once.
   * @throws {LeaseError} `reservation.store_unreachable`: to be tried again; `config.invalid`.
   */
  carryOut(): Promise<void>;
  /**
   * Carries them out when there is something to do, and otherwise asks etcd whether it is there. After a
   * `config.invalid`, which it logs, it no longer tries: somebody must correct it and restart the controller.
   * @throws {LeaseError} `reservation.store_unreachable`.
   */
  catchUp(): Promise<void>;
}

export function createDuties(deps: DutiesDeps): Duties {
  const { datacenter, shared, store, log } = deps;
  const witness = `${datacenter}/${store.ids.uuid()}`;
  let isDone = false;
  let hasFatalConfigError = false;

  async function carryOut(): Promise<void> {
    const etcdId = await registerDatacenter(deps);
    const membership = await readMembership(store.general);
    // Before anything is published: a database that joins must not refuse its keys in the meantime.
    if (!isSynced(membership)) await importDepartures(deps, membership);
    if (membership.storeId !== etcdId || (await hasForgotten(deps))) {
      await markPublishing(store);
      await publishAll(deps);
      await noteMembership(store.general, { storeId: etcdId });
    }
    // Before anything new is reserved.
    await shared.beat(witness);
    isDone = true;
  }

  return {
    isDone: () => isDone,
    carryOut,
    async catchUp() {
      const hasNothingToDo = isDone && isSynced(await readMembership(store.general));
      if (hasNothingToDo || hasFatalConfigError) {
        await shared.beat(witness);
        return;
      }
      try {
        await carryOut();
      } catch (error) {
        if (!(error instanceof LeaseError && error.code === 'config.invalid')) throw error;
        [isDone, hasFatalConfigError] = [false, true];
        log.error(
          { err: error },
          'no new key gets a home here: correct this, and restart this controller',
        );
      }
    },
  };
}

/** Whether this database knows of every key that has left it. One that has just joined must ask. */
export function isSynced({ storeId, syncedEpoch, epoch }: Membership): boolean {
  return storeId !== null && syncedEpoch === epoch;
}

/** Registers this datacenter's name. @returns which etcd this is: answers of another do not count. */
async function registerDatacenter({ datacenter, shared, store }: DutiesDeps): Promise<string> {
  const etcdId = await shared.clusterId();
  const { clusterId } = await readMembership(store.general);
  assertOwn(datacenter, await shared.register(datacenter, clusterId), clusterId);
  shared.expectCluster(etcdId);
  await noteMembership(store.general, { datacenter });
  return etcdId;
}

/** Reads back what has left. The epoch is the one from before: after another restore it is done again. */
async function importDepartures(deps: DutiesDeps, { epoch }: Membership): Promise<void> {
  invariant(epoch !== null, 'the epoch of the database has been checked');
  const departed = await readBack(deps);
  await noteMembership(deps.store.general, { syncedEpoch: epoch });
  if (departed > 0) deps.log.info({ departed }, 'read back which keys have left this datacenter');
}

/**
 * Reads from the store which keys have left this datacenter, and seals them here: a database that was
 * restored to before a move would take itself for the key's home. A pointer does not say which key it
 * is of, so the chains of all keys are walked; that is once for each restore. All pointers are in
 * memory meanwhile, some 300 bytes each.
 * @returns how many times a key has left.
 */
async function readBack({
  datacenter,
  shared,
  store,
}: Pick<Publishing, 'datacenter' | 'shared' | 'store'>): Promise<number> {
  const pointers = new Map<string, ReservationPointer>();
  let departed = 0;
  for await (const page of shared.pointers()) {
    for (const pointer of page) {
      pointers.set(pointer.fromId, pointer);
      if (datacenterOf(pointer.fromId) === datacenter) departed += 1;
    }
  }
  if (departed === 0) return 0;
  for await (const page of shared.reservations()) {
    for (const { key, reservationId } of page) {
      for (const { pointer, chain } of departuresFrom(reservationId, pointers)) {
        if (datacenterOf(pointer.fromId) !== datacenter) continue;
        await sealDeparted(store, { key, pointer, chain });
      }
    }
  }
  return departed;
}

/** The pointers of a key's chain in their order, each with the reservations before it. */
function* departuresFrom(
  firstId: string,
  pointers: ReadonlyMap<string, ReservationPointer>,
): Generator<{ pointer: ReservationPointer; chain: string[] }> {
  const chain: string[] = [];
  let pointer = pointers.get(firstId);
  // Ids are unique and pointers are written once: each pointer is met once at most.
  while (pointer !== undefined && chain.length < pointers.size) {
    yield { pointer, chain: [...chain] };
    chain.push(pointer.fromId);
    pointer = pointers.get(pointer.toId);
  }
}

/**
 * Keys and the datacenters that they live in: the reservations face (Epoxy).
 *
 * A key's home is found in memory, in the store, or by reserving it, and everything about the key is
 * done there: here, or by one call to the other datacenter, which never sends it on. A controller
 * that is told that a key has moved keeps the pointer and follows it.
 */
interface ReservationDeps {
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
  const pending = createPendingMoves({ store, local, mover, homes });
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
    requestMove: async (input, caller, source) => {
      assertReservationKey(input.key);
      homes.assertHere(input.reservationId);
      homes.assertKnown(input.toDatacenter);
      return pending.requestMove(input, caller, source);
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
      // Another controller here may have moved it since, and the caller goes by the answer.
      local.forget(reservationId);
      return local.reservationStatus(reservationId, key, SYSTEM_ACTOR);
    },
    move: async (input, caller, source) => {
      assertReservationKey(input.key);
      homes.assertKnown(input.toDatacenter);
      return mover.move(input, caller, source);
    },
    moveHere: async (input, caller, source) => {
      assertReservationKey(input.key);
      homes.assertKnown(input.toDatacenter);
      return mover.moveHere(input, caller, source);
    },
    get: async ({ key }) => {
      assertReservationKey(key);
      return homes.detail(key);
    },
    list: (input, caller) => listReservations(store, input, caller.namespaces),
    count: (input, caller) => countReservations(store, input, caller.namespaces),
  };
}
