/**
 * Keys and the datacenters that they live in: the reservations face.
 *
 * A connect finds the key's home, by memory, by the store, or by reserving it, and is carried out
 * there: here, or by one call to the other datacenter, which never sends it on. Who is told that the
 * key has moved learns the pointer and goes to where it leads; every step follows a chain that has no
 * loops, so that this ends.
 */
import { createHash } from 'node:crypto';
import { LeaseError } from '../../kernel/errors.ts';
import { LIMITS } from '../../kernel/limits.ts';
import {
  assertReservationKey,
  datacenterOf,
  reservationIdOf,
  reservationKeyOf,
  type ReservationKey,
} from '../../kernel/reservation.ts';
import type { Store } from '../../store/open-store.ts';
import type { Standing } from '../../store/reservations/activate.ts';
import { reservationPage } from './reservation-reads.ts';
import type { Caller } from '../face-types.ts';
import type { ConnectInput, ConnectResult, KeyService } from '../keys/key-types.ts';
import { NotAtHome, RANDOM_ID_LENGTH } from '../keys/start-backend.ts';
import { createLocalHome, type LocalHome } from './local-home.ts';
import { createMover, type Mover } from './mover.ts';
import type { Peer, PeerConnectInput, PeerConnectOutcome, Peers } from './peers.ts';
import type { ReservationStore } from './reservation-store.ts';
import type {
  ChainLink,
  Home,
  ReservationDetail,
  ReservationService,
  Reserved,
} from './reservation-types.ts';
import { createResolver, type Resolver, type ResolverOptions } from './resolver.ts';

export interface ReservationDeps {
  readonly store: Store;
  readonly reservations: ReservationStore;
  readonly keys: Pick<KeyService, 'connect'>;
  readonly peers: Peers;
  readonly cachedMax?: number | undefined;
  readonly onResolved?: ResolverOptions['onResolved'];
}

/** Plane's form of a generated key. */
const RANDOM_KEY_PREFIX = 'lk-';

/** A connect whose key has a name. */
type NamedConnect = ConnectInput & {
  readonly key: { readonly name: string; readonly namespace: string; readonly tag: string };
};

export function createReservationService(deps: ReservationDeps): ReservationService {
  const { store, reservations, peers } = deps;
  const local: LocalHome = createLocalHome(store, {
    store: reservations,
    standingThere: (id, key) => standingAt(id, key),
  });
  const resolver: Resolver = createResolver({
    store: reservations,
    cachedMax: deps.cachedMax,
    onResolved: deps.onResolved,
  });
  const mover: Mover = createMover({ store, reservations, resolver, local, peers });

  /** What a reservation is, by the word of its own datacenter, without activating one of this one. */
  function standingAt(reservationId: string, key: ReservationKey): Promise<Standing> {
    if (datacenterOf(reservationId) === store.datacenter) return local.look(reservationId);
    return peerOf(reservationId).standing(reservationId, key);
  }

  function peerOf(reservationId: string): Peer {
    const datacenter = datacenterOf(reservationId);
    const peer = peers.get(datacenter);
    if (peer !== undefined) return peer;
    // It was reserved there by somebody who knew it: it exists, and is not in this configuration.
    throw new LeaseError('reservation.datacenter_unreachable', undefined, {
      details: { datacenter },
    });
  }

  function assertKnown(datacenter: string): void {
    if (datacenter === store.datacenter || peers.get(datacenter) !== undefined) return;
    throw new LeaseError(
      'reservation.unknown_datacenter',
      `There is no datacenter "${datacenter}".`,
      {
        details: { datacenter, known: [store.datacenter, ...peers.names] },
      },
    );
  }

  async function reserve(key: ReservationKey, datacenter: string): Promise<Reserved> {
    const cached = resolver.peek(key);
    if (cached !== undefined) return { outcome: 'existing', ...cached };
    assertKnown(datacenter);
    // A key is not given to a datacenter that is known to be away: it would be stuck there for good.
    peers.get(datacenter)?.assertReachable();
    const { outcome, home } = await resolver.reserve(
      key,
      reservationIdOf(datacenter, store.ids.uuid()),
    );
    return { outcome, ...home };
  }

  async function connect(
    input: ConnectInput,
    caller: Caller,
    signal: AbortSignal,
    datacenter?: string,
  ): Promise<ConnectResult> {
    if (datacenter !== undefined) assertKnown(datacenter);
    const named = withName(store, input, caller);
    const key = reservationKeyOf(named.key);
    assertReservationKey(key);
    for (let steps = 0; steps <= LIMITS.reservationChainMax; steps += 1) {
      signal.throwIfAborted();
      const home =
        input.spawn === undefined
          ? await resolver.resolve(key)
          : await reserve(key, datacenter ?? store.datacenter);
      if (home === undefined) throw new LeaseError('key.unheld');
      const answer = await connectAt(home.reservationId, named, caller, signal);
      if (answer.outcome === 'connected') return answer.result;
      if (answer.standing.standing !== 'moved') {
        throw new LeaseError('reservation.conflict', undefined, {
          details: { reservationId: home.reservationId },
        });
      }
      resolver.learn(answer.standing.pointer);
    }
    throw new LeaseError('reservation.chain_too_long');
  }

  function connectAt(
    reservationId: string,
    input: NamedConnect,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<PeerConnectOutcome> {
    const sent = { ...input, homeReservation: reservationId };
    return datacenterOf(reservationId) === store.datacenter
      ? connectHere(sent, caller, signal)
      : peerOf(reservationId).connect(sent, caller, signal);
  }

  async function connectHere(
    input: PeerConnectInput,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<PeerConnectOutcome> {
    const { homeReservation } = input;
    assertHere(store, homeReservation);
    const key = reservationKeyOf(input.key);
    const standing = await local.standing(homeReservation, key, caller.actor);
    if (standing.standing !== 'active') return { outcome: 'elsewhere', standing };
    try {
      return { outcome: 'connected', result: await deps.keys.connect(input, caller, signal) };
    } catch (error) {
      if (!(error instanceof NotAtHome)) throw error;
      // It was active, and the key's row says that it has been left.
      local.forget(homeReservation);
      const now = await local.look(homeReservation);
      if (now.standing !== 'active') return { outcome: 'elsewhere', standing: now };
      throw new LeaseError('reservation.conflict', undefined, {
        details: { reservationId: homeReservation },
      });
    }
  }

  /** The home, followed as far as the datacenters themselves know. */
  async function freshHome(key: ReservationKey): Promise<Home | undefined> {
    for (;;) {
      const home = await resolver.resolve(key);
      if (home === undefined) return undefined;
      const standing = await standingAt(home.reservationId, key);
      if (standing.standing !== 'moved') return home;
      resolver.learn(standing.pointer);
    }
  }

  return {
    connect,
    connectHere,
    async reserve({ key, datacenter }) {
      assertReservationKey(key);
      return reserve(key, datacenter ?? store.datacenter);
    },
    async resolve({ key, isFresh }) {
      assertReservationKey(key);
      const home = isFresh === true ? await freshHome(key) : await resolver.resolve(key);
      return home === undefined ? { outcome: 'not_found' } : { outcome: 'found', ...home };
    },
    async standing(reservationId, key) {
      assertHere(store, reservationId);
      assertReservationKey(key);
      return local.standing(reservationId, key, 'leasehold');
    },
    async move(input, caller) {
      assertReservationKey(input.key);
      assertKnown(input.toDatacenter);
      return mover.move(input, caller);
    },
    moveHere: (input, caller) => {
      assertReservationKey(input.key);
      return mover.moveHere(input, caller);
    },
    async get({ key }) {
      assertReservationKey(key);
      const known = await resolver.resolve(key);
      if (known === undefined) return null;
      const home = await freshHome(key).catch(() => resolver.peek(key) ?? known);
      return detailOf(home ?? known, key, standingAt);
    },
    list: (input, caller) => reservationPage(store, input, caller),
  };
}

/** @throws {LeaseError} `reservation.conflict` for a reservation of another datacenter. */
function assertHere(store: Pick<Store, 'datacenter'>, reservationId: string): void {
  if (datacenterOf(reservationId) === store.datacenter) return;
  throw new LeaseError(
    'reservation.conflict',
    `This is the datacenter "${store.datacenter}", and the reservation is one of another.`,
    { details: { datacenter: store.datacenter, reservationId } },
  );
}

/**
 * A connect without a key gets its name here, by the first controller that it reaches. One that is
 * sent again, with its idempotency key, gets the same name: it may have been answered elsewhere.
 */
function withName(store: Pick<Store, 'ids'>, input: ConnectInput, caller: Caller): NamedConnect {
  const { key, idempotencyKey } = input;
  if (key !== undefined) return { ...input, key };
  const unique =
    idempotencyKey === undefined
      ? store.ids.alphanumeric(RANDOM_ID_LENGTH)
      : createHash('sha256')
          .update(JSON.stringify([caller.principal, idempotencyKey]))
          .digest('hex')
          .slice(0, 2 * RANDOM_ID_LENGTH);
  return { ...input, key: { name: `${RANDOM_KEY_PREFIX}${unique}`, namespace: '', tag: '' } };
}

async function detailOf(
  home: Home,
  key: ReservationKey,
  standingAt: (reservationId: string, key: ReservationKey) => Promise<Standing>,
): Promise<ReservationDetail> {
  const links = await Promise.all(
    home.chain.map(async (reservationId, index): Promise<ChainLink> => {
      const datacenter = datacenterOf(reservationId);
      // What has a successor was left, whether or not its datacenter can say so now.
      if (index < home.chain.length - 1) return { reservationId, datacenter, state: 'moved' };
      const standing = await standingAt(reservationId, key).catch(() => undefined);
      return { reservationId, datacenter, state: standing?.standing ?? 'unreachable' };
    }),
  );
  return { ...home, key, links };
}
