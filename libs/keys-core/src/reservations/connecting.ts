import { createHash } from 'node:crypto';
import { LeaseError } from '../kernel/errors.ts';
import type { Caller } from '../kernel/face-types.ts';
import { LIMITS } from '../kernel/limits.ts';
import {
  assertReservationKey,
  reservationIdOf,
  type ReservationKey,
  reservationKeyOf,
} from '../kernel/reservation.ts';
import {
  type ConnectInput,
  type ConnectResult,
  type KeyService,
  type NamedConnect,
  NotAtHome,
  RANDOM_ID_LENGTH,
} from '../keys/index.ts';
import type { Store } from '../postgres/open-store.ts';
import type { Homes, HomesDeps } from './homes.ts';
import { conflict } from './invalid.ts';
import type { Placing } from './placing.ts';
import { type FreshKey, type Home, peerOf, type ReservationService } from './reservation-types.ts';

interface ConnectingDeps extends Pick<HomesDeps, 'resolver' | 'local' | 'peers' | 'reservations'> {
  readonly store: Pick<Store, 'datacenter' | 'ids' | 'observer'>;
  readonly keys: Pick<KeyService, 'connect' | 'connectAgain' | 'refuse'>;
  readonly homes: Homes;
  readonly placing: Placing;
}

/** A connect, with whom it is for and when it is given up. */
interface Request {
  readonly input: NamedConnect;
  readonly caller: Caller;
  readonly signal: AbortSignal;
}

/** How many tries a connect has if the database has forgotten its home; the second proves it again. */
const TRIES_MAX = 2;
/** Plane's form of a generated key. */
const RANDOM_KEY_PREFIX = 'lk-';

/** Carries connects out where their keys live. */
export function createConnecting(
  deps: ConnectingDeps,
): Pick<ReservationService, 'connect' | 'refuse' | 'connectHere'> {
  const { store, resolver, homes, placing } = deps;
  const connectHere = createConnectHere(deps);

  /** @returns whether a key of a datacenter that was given up has another home now. */
  async function leaveGivenUp(
    home: Home,
    key: ReservationKey,
    { spawn }: ConnectInput,
    named: string | undefined,
  ): Promise<boolean> {
    if (spawn !== undefined) {
      // A caller that has always named the datacenter that is lost gets another home too.
      const wish = named === undefined || homes.isGivenUp(named) ? undefined : named;
      await homes.adopt(home, key, await placing.find(spawn, wish));
      return true;
    }
    const status = await homes.statusAt(home.reservationId, key);
    if (status.standing === 'moved') resolver.learn(status.pointer);
    return status.standing === 'moved';
  }

  function connectorAt({ datacenter }: Home): ReservationService['connectHere'] {
    if (datacenter === store.datacenter) return connectHere;
    const peer = peerOf(deps.peers, datacenter);
    return (input, caller, signal) => peer.connect(input, caller, signal);
  }

  return {
    /**
     * Goes to the key's home, and from there to where it is told that the key has moved. Chains have no
     * loops and are bounded, so this ends.
     */
    async connect(input, caller, signal, fresh = {}) {
      const named = withName(store, input, caller);
      const key = reservationKeyOf(named.key);
      assertReservationKey(key);
      let isLookedUpAgain = false;
      for (let steps = 0; steps <= LIMITS.reservationChainMax; steps += 1) {
        signal.throwIfAborted();
        const { home, again } = await lookUp(deps, key, { input: named, caller, signal }, fresh);
        if (again !== undefined) return again;
        const isLost = home !== undefined && homes.isGivenUp(home.datacenter);
        if (isLost && (await leaveGivenUp(home, key, input, fresh.datacenter))) continue;
        if (home === undefined || isLost) {
          store.observer.grant('key', 'denied', 'free');
          throw new LeaseError('key.unheld');
        }
        const sent = { ...named, homeReservation: home.reservationId };
        const answer = await connectorAt(home)(sent, caller, signal).catch(
          async (error: unknown) => {
            throw await placing.explain(error, { key, home, wanted: named.spawn });
          },
        );
        if (answer.outcome === 'connected') return answer.result;
        if (answer.standing.standing === 'moved') {
          resolver.learn(answer.standing.pointer);
          continue;
        }
        // What was remembered leads nowhere, as after a restore: ask the store, once.
        if (isLookedUpAgain) throw conflict(home.reservationId);
        isLookedUpAgain = true;
        resolver.forget(home, key);
      }
      throw new LeaseError('reservation.chain_too_long');
    },

    refuse: (input, caller, error) =>
      deps.keys.refuse(withName(store, input, caller), caller, error),

    connectHere,
  };
}

/**
 * Carries connects out where this datacenter is the only one: a key lives here, under the reservation of its row, or
 * under the one that its first backend makes. Nothing is looked up, and nothing is remembered. What does not fit,
 * `elsewhere` carries out: a key whose reservation is not active, or a datacenter that does not exist.
 */
export function createConnectingAlone(
  deps: Pick<ConnectingDeps, 'store' | 'keys' | 'reservations'>,
  elsewhere: ReservationService['connect'],
): ReservationService['connect'] {
  const { store, keys } = deps;
  return async (input, caller, signal, fresh = {}) => {
    const { datacenter = store.datacenter, use } = fresh;
    const named = withName(store, input, caller);
    if (datacenter !== store.datacenter) return elsewhere(named, caller, signal, fresh);
    assertReservationKey(reservationKeyOf(named.key));
    try {
      return await keys.connect(named, caller, signal, (key) =>
        reserveAlone(deps, reservationKeyOf(key), { activateFor: caller.actor, use }),
      );
    } catch (error) {
      if (error instanceof NotAtHome) return elsewhere(named, caller, signal, fresh);
      throw error;
    }
  };
}

/** @throws {NotAtHome} when the key was reserved and never used. */
async function reserveAlone(
  { store, reservations }: Pick<ConnectingDeps, 'store' | 'reservations'>,
  key: ReservationKey,
  { activateFor, use }: FreshKey,
): Promise<string> {
  let takeBack: (() => void) | undefined;
  try {
    takeBack = use?.startReserving();
  } catch (refusal) {
    // A key that has a home already needs no other.
    if ((await reservations.read(key)) === undefined) throw refusal;
  }
  let isMade = false;
  try {
    const id = reservationIdOf(store.datacenter, store.ids.uuid());
    const { outcome, reservationId, isActive } = await reservations.put(key, id, activateFor);
    isMade = outcome === 'reserved';
    if (isActive !== true) throw new NotAtHome();
    return reservationId;
  } finally {
    if (!isMade) takeBack?.();
  }
}

/**
 * A connect that may start a backend reserves the key, where its program is offered; one without a program only
 * finds it.
 */
async function homeOf(
  { homes, resolver, placing }: ConnectingDeps,
  key: ReservationKey,
  { spawn }: ConnectInput,
  fresh: FreshKey,
): Promise<Home | undefined> {
  if (spawn === undefined) return resolver.resolve(key);
  const remembered = resolver.peek(key);
  if (remembered !== undefined) return remembered;
  const near = placing.remembered(spawn, fresh.datacenter);
  // A datacenter that is asked what it offers may be far away, and one that was named may not exist any more: the
  // key may have a home, which counts whatever was named.
  const home = near === undefined ? await resolver.resolve(key) : undefined;
  if (home !== undefined) return home;
  const datacenter = near ?? (await placing.find(spawn, fresh.datacenter));
  return homes.reserve(key, { ...fresh, datacenter });
}

/**
 * The key's home, and what the request got here before, unless the home is here. Its idempotency key may have been
 * used by another request, or before the key moved.
 */
async function lookUp(
  deps: ConnectingDeps,
  key: ReservationKey,
  { input, caller, signal }: Request,
  fresh: FreshKey,
): Promise<{ readonly home?: Home | undefined; readonly again?: ConnectResult | undefined }> {
  const connectAgain = () => deps.keys.connectAgain(input, caller, signal);
  let home: Home | undefined;
  try {
    home = await homeOf(deps, key, input, { ...fresh, activateFor: caller.actor });
  } catch (error) {
    const again = await connectAgain();
    if (again === undefined) throw error;
    return { again };
  }
  const isHere = home?.datacenter === deps.store.datacenter;
  return isHere ? { home } : { home, again: await connectAgain() };
}

/** Connects to a key that lives here, unless it has moved. */
function createConnectHere({
  keys,
  local,
  homes,
}: ConnectingDeps): ReservationService['connectHere'] {
  return async (input, caller, signal) => {
    const { homeReservation } = input;
    homes.assertHere(homeReservation);
    const key = reservationKeyOf(input.key);
    for (let tries = 1; ; tries += 1) {
      const status = await local.reservationStatus(homeReservation, key, caller.actor);
      if (status.standing !== 'active') {
        const again = await keys.connectAgain(input, caller, signal);
        return again === undefined
          ? { outcome: 'elsewhere', standing: status }
          : { outcome: 'connected', result: again };
      }
      try {
        return { outcome: 'connected', result: await keys.connect(input, caller, signal) };
      } catch (error) {
        if (!(error instanceof NotAtHome)) throw error;
        // It was remembered as active, and the key's row, or the grant, says otherwise.
        local.forget(homeReservation);
        const now = await local.look(homeReservation, key);
        if (now.standing === 'moved') return { outcome: 'elsewhere', standing: now };
        if (tries === TRIES_MAX) throw conflict(homeReservation);
      }
    }
  };
}

/**
 * A connect without a key gets its name here, by the first controller that it reaches. One that is
 * sent again, with its idempotency key, gets the same name: it may have been answered elsewhere.
 */
function withName(
  { ids }: Pick<Store, 'ids'>,
  input: ConnectInput,
  { principal }: Caller,
): NamedConnect {
  const { key, idempotencyKey } = input;
  if (key !== undefined) return { ...input, key };
  const unique =
    idempotencyKey === undefined
      ? ids.alphanumeric(RANDOM_ID_LENGTH)
      : alphanumericOf(JSON.stringify([principal, idempotencyKey]));
  return { ...input, key: { name: `${RANDOM_KEY_PREFIX}${unique}`, namespace: '', tag: '' } };
}

/** A hash of a text: {@link RANDOM_ID_LENGTH} characters of a-z and 0-9. */
function alphanumericOf(text: string): string {
  const digest = createHash('sha256').update(text).digest('hex');
  return BigInt(`0x${digest}`).toString(36).slice(-RANDOM_ID_LENGTH);
}
