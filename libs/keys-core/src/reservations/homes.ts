import { LRUCache } from 'lru-cache';
import { LeaseError } from '../kernel/errors.ts';
import {
  datacenterOf,
  reservationIdOf,
  type ReservationKey,
  reservationKeyText,
} from '../kernel/reservation.ts';
import type { Store } from '../postgres/open-store.ts';
import { adopt } from './give-up-service.ts';
import { type GivenUpDatacenters, givenUpError } from './given-up.ts';
import { conflict } from './invalid.ts';
import { prove, type ProveDeps } from './publish.ts';
import type { ReservationStore } from './reservation-store.ts';
import {
  type ChainLink,
  type FreshKey,
  type Home,
  peerOf,
  type Peers,
  type ReservationDetail,
  type ReservationStatus,
  type Reserved,
} from './reservation-types.ts';
import { boundedTo, type Resolver } from './resolver.ts';
import { activate, readReservationStatus } from './sql/reservations.ts';

export interface HomesDeps {
  readonly store: Pick<Store, 'datacenter' | 'ids'>;
  readonly resolver: Resolver;
  readonly local: LocalHome;
  readonly peers: Peers;
  readonly reservations: ReservationStore;
  readonly givenUp: GivenUpDatacenters;
}

/** Finds the homes of keys. */
export interface Homes {
  /** The status of a reservation, as its own datacenter reports it; here it is not activated. */
  statusAt(reservationId: string, key: ReservationKey): Promise<ReservationStatus>;
  /** @throws {LeaseError} `reservation.unknown_datacenter`, `reservation.datacenter_given_up`. */
  assertKnown(datacenter: string): void;
  /** Whether there is such a datacenter, and it was not given up. */
  isKnown(datacenter: string): boolean;
  /** @throws {LeaseError} `reservation.conflict` for a reservation of another datacenter. */
  assertHere(reservationId: string): void;
  reserve(key: ReservationKey, wanted: FreshKey): Promise<Reserved>;
  /**
   * Gives a key whose datacenter was given up another home, which the resolver then knows.
   * @returns false when its datacenter was not, or its keys wait still.
   */
  adopt(home: Home, key: ReservationKey, toDatacenter: string): Promise<boolean>;
  /** Whether nobody lives there any more, and never will. */
  isGivenUp(datacenter: string): boolean;
  /** The home, followed as far as the datacenters themselves know. */
  fresh(key: ReservationKey): Promise<Home | undefined>;
  detail(key: ReservationKey): Promise<ReservationDetail | null>;
}

export function createHomes(deps: HomesDeps): Homes {
  return new KnownHomes(deps);
}

class KnownHomes implements Homes {
  readonly #deps: HomesDeps;

  constructor(deps: HomesDeps) {
    this.#deps = deps;
  }

  async statusAt(reservationId: string, key: ReservationKey): Promise<ReservationStatus> {
    const datacenter = datacenterOf(reservationId);
    // Nobody there can tell that the key has another home by now: the store can.
    if (this.isGivenUp(datacenter)) {
      const pointer = await this.#deps.reservations.readPointer(reservationId);
      return pointer === undefined ? { standing: 'pending' } : { standing: 'moved', pointer };
    }
    return datacenter === this.#deps.store.datacenter
      ? this.#deps.local.look(reservationId, key)
      : peerOf(this.#deps.peers, datacenter).reservationStatus(reservationId, key);
  }

  isKnown(datacenter: string): boolean {
    const { store, peers, givenUp } = this.#deps;
    if (givenUp.find(datacenter) !== undefined) return false;
    return datacenter === store.datacenter || peers.get(datacenter) !== undefined;
  }

  assertKnown(datacenter: string): void {
    if (this.isKnown(datacenter)) return;
    const { store, peers, givenUp } = this.#deps;
    const lost = givenUp.find(datacenter);
    if (lost !== undefined) throw givenUpError(lost);
    throw new LeaseError(
      'reservation.unknown_datacenter',
      `There is no datacenter "${datacenter}".`,
      { details: { datacenter, known: [store.datacenter, ...peers.names] } },
    );
  }

  isGivenUp(datacenter: string): boolean {
    return this.#deps.givenUp.find(datacenter)?.opened != null;
  }

  async adopt(home: Home, key: ReservationKey, toDatacenter: string): Promise<boolean> {
    const { store, resolver, reservations, givenUp, peers } = this.#deps;
    const opened = givenUp.find(home.datacenter)?.opened ?? null;
    if (opened === null) return false;
    this.assertKnown(toDatacenter);
    // The pointer is final: a key must not get a home where nobody can be asked.
    peers.get(toDatacenter)?.assertReachable();
    await adopt(
      {
        store: reservations,
        statusThere: (id, of) => this.statusAt(id, of),
        resolver,
        ids: store.ids,
      },
      home,
      { key, toDatacenter, opened },
    );
    return true;
  }

  assertHere(reservationId: string): void {
    const { datacenter } = this.#deps.store;
    if (datacenterOf(reservationId) === datacenter) return;
    throw new LeaseError(
      'reservation.conflict',
      `This is the datacenter "${datacenter}", and the reservation is one of another.`,
      { details: { datacenter, reservationId } },
    );
  }

  async reserve(key: ReservationKey, wanted: FreshKey): Promise<Reserved> {
    const { store, peers } = this.#deps;
    const { datacenter = store.datacenter, use } = wanted;
    this.assertKnown(datacenter);
    const known = this.#deps.resolver.peek(key);
    if (known !== undefined) return { outcome: 'existing', ...known };
    let takeBack: (() => void) | undefined;
    try {
      // A fresh key is not given to a datacenter that is known to be unreachable: it would be stuck.
      peers.get(datacenter)?.assertReachable();
      takeBack = use?.startReserving();
    } catch (refusal) {
      // A key that has a home already needs no other.
      const existing = await this.#deps.resolver.resolve(key);
      if (existing === undefined) throw refusal;
      return { outcome: 'existing', ...existing };
    }
    let isMade = false;
    try {
      const id = reservationIdOf(datacenter, store.ids.uuid());
      const { resolver, local } = this.#deps;
      const activateFor = datacenter === store.datacenter ? wanted.activateFor : undefined;
      const { outcome, home, isActive } = await resolver.reserve(key, id, activateFor);
      if (isActive) local.remember(home.reservationId, key);
      isMade = outcome === 'reserved';
      return { outcome, ...home };
    } finally {
      if (!isMade) takeBack?.();
    }
  }

  async fresh(key: ReservationKey): Promise<Home | undefined> {
    for (;;) {
      const home = await this.#deps.resolver.resolve(key);
      if (home === undefined) return undefined;
      const status = await this.statusAt(home.reservationId, key);
      if (status.standing !== 'moved') return home;
      this.#deps.resolver.learn(status.pointer);
    }
  }

  async detail(key: ReservationKey): Promise<ReservationDetail | null> {
    const known = await this.#deps.resolver.resolve(key);
    if (known === undefined) return null;
    // When a datacenter on the way is unreachable, the chain is shown as far as it is known.
    const home = (await this.fresh(key).catch(() => this.#deps.resolver.peek(key))) ?? known;
    const links = await Promise.all(
      home.chain.map(async (reservationId, index): Promise<ChainLink> => {
        const datacenter = datacenterOf(reservationId);
        const lost = this.#deps.givenUp.find(datacenter)?.opened ?? null;
        const status = await this.statusAt(reservationId, key).catch(() => undefined);
        const left = status?.standing === 'moved' ? (status.left ?? null) : null;
        // A reservation with a successor was left, whether or not its datacenter can confirm it now.
        const isLast = index === home.chain.length - 1;
        if (lost !== null) {
          const { at, by, reason } = lost;
          const state = isLast ? 'given_up' : 'moved';
          return { reservationId, datacenter, state, left: isLast ? null : { at, by, reason } };
        }
        const state = isLast ? (status?.standing ?? 'unreachable') : 'moved';
        return { reservationId, datacenter, state, left };
      }),
    );
    return { ...home, key, links };
  }
}

/** How many active reservations are remembered, so that a connect need not look them up. */
const ACTIVE_MAX = 200_000;

/** The reservations of this datacenter, and what they are. */
export interface LocalHome {
  /** The status of a reservation; one that is not active yet is activated if its chain leads to it. */
  reservationStatus(
    reservationId: string,
    key: ReservationKey,
    actor: string,
  ): Promise<ReservationStatus>;
  /** The status by this database alone; activates nothing. */
  look(reservationId: string, key: ReservationKey): Promise<ReservationStatus>;
  /** Remembers that a reservation is active, as the store has just said. */
  remember(reservationId: string, key: ReservationKey): void;
  /** Forgets that a reservation was active: the key's row shows otherwise. */
  forget(reservationId: string): void;
}

export function createLocalHome(store: Pick<Store, 'general'>, proving: ProveDeps): LocalHome {
  // A remembered reservation may no longer be active; then the lease row refuses, see `forget`.
  const active = new LRUCache<string, string>(boundedTo(ACTIVE_MAX));

  async function resolveStatus(
    reservationId: string,
    key: ReservationKey,
    actor: string,
  ): Promise<ReservationStatus> {
    const known = await readReservationStatus(store.general, reservationId, key);
    if (known.standing !== 'pending') return known;
    // A database that was restored may have forgotten that it has left; the store has not.
    const onward = await proving.store.readPointerNearby(reservationId);
    if (onward !== undefined) return { standing: 'moved', pointer: onward };
    const proof = await prove(proving, reservationId, key);
    if (proof === undefined) return known;
    const status = await activate(store, { ...proof, reservationId, key, actor });
    if (status.standing === 'pending') {
      // Proven and not activated: another reservation is the active home of this very key here.
      throw conflict(reservationId);
    }
    return status;
  }

  return {
    async reservationStatus(reservationId, key, actor) {
      const keyText = reservationKeyText(key);
      if (active.get(reservationId) === keyText) return { standing: 'active' };
      const status = await resolveStatus(reservationId, key, actor);
      if (status.standing === 'active') active.set(reservationId, keyText);
      return status;
    },
    look: (reservationId, key) => readReservationStatus(store.general, reservationId, key),
    remember: (reservationId, key) => {
      active.set(reservationId, reservationKeyText(key));
    },
    forget: (reservationId) => {
      active.delete(reservationId);
    },
  };
}
