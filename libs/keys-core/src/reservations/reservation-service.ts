/**
 * Keys and the datacenters that they live in: the reservations face (Epoxy).
 *
 * A key's home is found by memory, by the store, or by reserving it, and everything about the key is
 * done there: here, or by one call to the other datacenter, which never sends it on. Who is told that a
 * key has moved learns the pointer and follows it.
 */
import { LeaseError } from '../kernel/errors/index.ts';
import {
  assertReservationKey,
  datacenterOf,
  reservationIdOf,
  type ReservationKey,
} from '../kernel/resource/reservation.ts';
import type { Store } from '../postgres/open-store.ts';
import type { ReservationStatus } from './sql/activate.ts';
import type { Caller } from '../kernel/face-types.ts';
import type { ConnectInput, KeyService } from '../keys/index.ts';
import { Connecting } from './connecting.ts';
import { createLocalHome, type LocalHome } from './local-home.ts';
import { Mover } from './mover.ts';
import { peerOf, type Peers } from './peers.ts';
import { reservationPage } from './reservation-reads.ts';
import type { ReservationStore } from './reservation-store.ts';
import type {
  ChainLink,
  FreshKey,
  Home,
  ReservationDetail,
  Reserved,
  ReservationService,
} from './reservation-types.ts';
import { createResolver, type Resolver, type ResolverOptions } from './resolver.ts';

export interface ReservationDeps {
  readonly store: Store;
  readonly reservations: ReservationStore;
  readonly keys: Pick<KeyService, 'connect' | 'connectAgain'>;
  readonly peers: Peers;
  readonly cachedMax?: number | undefined;
  readonly onResolved?: ResolverOptions['onResolved'];
}

export function createReservationService(deps: ReservationDeps): ReservationService {
  const { store, reservations, peers, cachedMax, onResolved } = deps;
  const resolver = createResolver({ store: reservations, cachedMax, onResolved });
  const local = createLocalHome(store, {
    store: reservations,
    statusThere: (id, key) => homes.statusAt(id, key),
  });
  const homes = new Homes(deps, resolver, local);
  const mover = new Mover({ store, reservations, resolver, local, peers });
  const connecting = new Connecting({ store, keys: deps.keys, resolver, local, peers });
  return {
    connect: async (input, caller, signal, fresh = {}) => {
      if (fresh.datacenter !== undefined) homes.assertKnown(fresh.datacenter);
      return connecting.connect(input, caller, {
        signal,
        findHome: homes.finderFor(input, fresh),
      });
    },
    connectHere: async (input, caller, signal) => {
      homes.assertHere(input.homeReservation);
      return connecting.connectHere(input, caller, signal);
    },
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
      return local.reservationStatus(reservationId, key, ACTOR);
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
    list: (input, caller: Caller) => reservationPage(store, input, caller),
  };
}

/** Who activates a reservation that another datacenter asks about. */
const ACTOR = 'leasehold';

/** Finds the homes of keys. */
class Homes {
  readonly #deps: ReservationDeps;
  readonly #resolver: Resolver;
  readonly #local: LocalHome;

  constructor(deps: ReservationDeps, resolver: Resolver, local: LocalHome) {
    this.#deps = deps;
    this.#resolver = resolver;
    this.#local = local;
  }

  /** What a reservation is, by the word of its own datacenter; one of this one is not activated. */
  async statusAt(reservationId: string, key: ReservationKey): Promise<ReservationStatus> {
    const datacenter = datacenterOf(reservationId);
    return datacenter === this.#deps.store.datacenter
      ? this.#local.look(reservationId, key)
      : peerOf(this.#deps.peers, datacenter).reservationStatus(reservationId, key);
  }

  /** @throws {LeaseError} `reservation.unknown_datacenter`. */
  assertKnown(datacenter: string): void {
    const { store, peers } = this.#deps;
    if (datacenter === store.datacenter || peers.get(datacenter) !== undefined) return;
    throw new LeaseError(
      'reservation.unknown_datacenter',
      `There is no datacenter "${datacenter}".`,
      { details: { datacenter, known: [store.datacenter, ...peers.names] } },
    );
  }

  /** @throws {LeaseError} `reservation.conflict` for a reservation of another datacenter. */
  assertHere(reservationId: string): void {
    const { datacenter } = this.#deps.store;
    if (datacenterOf(reservationId) === datacenter) return;
    throw new LeaseError(
      'reservation.conflict',
      `This is the datacenter "${datacenter}", and the reservation is one of another.`,
      { details: { datacenter, reservationId } },
    );
  }

  /** Who comes to start something reserves the key; who comes for what runs only asks. */
  finderFor(
    { spawn }: ConnectInput,
    fresh: FreshKey,
  ): (key: ReservationKey) => Promise<Home | undefined> {
    return spawn === undefined
      ? (key) => this.#resolver.resolve(key)
      : (key) => this.reserve(key, fresh);
  }

  async reserve(key: ReservationKey, fresh: FreshKey): Promise<Reserved> {
    const { store, peers } = this.#deps;
    const { datacenter = store.datacenter, use } = fresh;
    this.assertKnown(datacenter);
    const known = this.#resolver.peek(key);
    if (known !== undefined) return { outcome: 'existing', ...known };
    // A fresh key is not given to a datacenter that is known to be away: it would be stuck there.
    peers.get(datacenter)?.assertReachable();
    let takeBack: (() => void) | undefined;
    try {
      takeBack = use?.startReserving();
    } catch (refusal) {
      const existing = await this.#resolver.resolve(key);
      if (existing === undefined) throw refusal;
      return { outcome: 'existing', ...existing };
    }
    let isMade = false;
    try {
      const id = reservationIdOf(datacenter, store.ids.uuid());
      const { outcome, home } = await this.#resolver.reserve(key, id);
      isMade = outcome === 'reserved';
      return { outcome, ...home };
    } finally {
      if (!isMade) takeBack?.();
    }
  }

  /** The home, followed as far as the datacenters themselves know. */
  async fresh(key: ReservationKey): Promise<Home | undefined> {
    for (;;) {
      const home = await this.#resolver.resolve(key);
      if (home === undefined) return undefined;
      const status = await this.statusAt(home.reservationId, key);
      if (status.standing !== 'moved') return home;
      this.#resolver.learn(status.pointer);
    }
  }

  async detail(key: ReservationKey): Promise<ReservationDetail | null> {
    const known = await this.#resolver.resolve(key);
    if (known === undefined) return null;
    // When a datacenter on the way is away, the chain is shown as far as it is known.
    const home = (await this.fresh(key).catch(() => this.#resolver.peek(key))) ?? known;
    const links = await Promise.all(
      home.chain.map(async (reservationId, index): Promise<ChainLink> => {
        const datacenter = datacenterOf(reservationId);
        const status = await this.statusAt(reservationId, key).catch(() => undefined);
        const left = status?.standing === 'moved' ? (status.left ?? null) : null;
        // What has a successor was left, whether or not its datacenter can confirm it now.
        const isLast = index === home.chain.length - 1;
        const state = isLast ? (status?.standing ?? 'unreachable') : 'moved';
        return { reservationId, datacenter, state, left };
      }),
    );
    return { ...home, key, links };
  }
}
