/**
 * Where keys live, answered from memory: what was resolved once is never asked for again, because a
 * reservation never changes and a pointer never does (Epoxy's `kv_get_optimistic`, without its
 * defects: a "nothing" is never kept, and is believed only after a linearizable read).
 *
 * A chain is the key's first reservation and the pointers from there on, as far as they are known. A
 * move that nobody here knows of does no harm: the datacenter that was left answers with the
 * pointer, and {@link Resolver.learn} keeps it.
 */
import { LRUCache } from 'lru-cache';
import { LeaseError } from '../kernel/errors.ts';
import { LIMITS } from '../kernel/limits.ts';
import { RequestsInProgress } from '../kernel/requests.ts';
import {
  datacenterOf,
  type ReservationKey,
  reservationKeyText,
  type ReservationPointer,
} from '../kernel/reservation.ts';
import type { ReservationStore } from './reservation-store.ts';
import type { Home } from './reservation-types.ts';

export interface ResolverOptions {
  readonly store: ReservationStore;
  /** How many homes, and how many pointers, are kept in memory; the least used go first. */
  readonly cachedMax?: number | undefined;
  /** Called for every answer with its source. */
  readonly onResolved?: ((from: 'cache' | 'store' | 'nowhere') => void) | undefined;
}

/** One step of a chain: what memory needs of a pointer. */
export type Step = Pick<ReservationPointer, 'fromId' | 'toId'>;

export interface Resolver {
  /** What is in memory, without waiting. */
  peek(key: ReservationKey): Home | undefined;
  /** @throws {LeaseError} `reservation.store_unreachable`, `reservation.chain_too_long`. */
  resolve(key: ReservationKey): Promise<Home | undefined>;
  /**
   * Resolves the key, or reserves it under this id; for `activateFor` see {@link ReservationStore.put}.
   * @throws {LeaseError} as `resolve`.
   */
  reserve(key: ReservationKey, reservationId: string, activateFor?: string): Promise<ReservedHome>;
  /** Keeps a step, and follows it from now on. */
  learn(step: Step): void;
  /** Forgets what led to a home that is wrong: the next lookup goes to the store. */
  forget(home: Home, key: ReservationKey): void;
}

export interface ReservedHome {
  /** `existing`: somebody else's reservation, whatever the caller came with. */
  readonly outcome: 'reserved' | 'existing';
  readonly home: Home;
  /** Whether the store has just said that it is the active home here. */
  readonly isActive: boolean;
}

/** About 50 MB: see docs/scaling.md. */
const CACHED_MAX = 200_000;

export function createResolver(options: ResolverOptions): Resolver {
  return new CachingResolver(options);
}

class CachingResolver implements Resolver {
  readonly #store: ReservationStore;
  readonly #told: (from: 'cache' | 'store' | 'nowhere') => void;
  readonly #homes: LRUCache<string, Home>;
  /** Where reservations that were left lead to. */
  readonly #steps: LRUCache<string, string>;
  /** Lookups under way, by key: callers that come meanwhile share the answer. */
  readonly #lookups = new RequestsInProgress<Home | undefined>();

  constructor({ store, cachedMax, onResolved }: ResolverOptions) {
    const max = cachedMax ?? CACHED_MAX;
    this.#store = store;
    this.#told = onResolved ?? ((): void => undefined);
    this.#homes = new LRUCache(boundedTo(max));
    this.#steps = new LRUCache(boundedTo(max));
  }

  peek(key: ReservationKey): Home | undefined {
    return this.#kept(reservationKeyText(key));
  }

  async resolve(key: ReservationKey): Promise<Home | undefined> {
    const text = reservationKeyText(key);
    const cached = this.#kept(text);
    if (cached !== undefined) {
      this.#told('cache');
      return cached;
    }
    const home = await this.#lookups.share(text, async () => {
      const firstId = (await this.#store.readNearby(key)) ?? (await this.#store.read(key));
      return firstId === undefined ? undefined : this.#keep(text, firstId);
    });
    this.#told(home === undefined ? 'nowhere' : 'store');
    return home;
  }

  async reserve(
    key: ReservationKey,
    reservationId: string,
    activateFor?: string,
  ): Promise<ReservedHome> {
    const text = reservationKeyText(key);
    const put = { isOwn: false, isActive: false };
    for (;;) {
      const cached = this.#kept(text);
      if (cached !== undefined) return { outcome: 'existing', home: cached, isActive: false };
      const home = await this.#lookups.share(text, () =>
        this.#put({ key, text, reservationId, activateFor }, put),
      );
      // Undefined when it joined a plain lookup that found nothing: now it puts by itself.
      if (home === undefined) continue;
      return { outcome: put.isOwn ? 'reserved' : 'existing', home, isActive: put.isActive };
    }
  }

  learn({ fromId, toId }: Step): void {
    this.#steps.set(fromId, toId);
  }

  forget(home: Home, key: ReservationKey): void {
    this.#homes.delete(reservationKeyText(key));
    for (const reservationId of home.chain) this.#steps.delete(reservationId);
  }

  #kept(text: string): Home | undefined {
    const home = this.#homes.get(text);
    if (home === undefined || !this.#steps.has(home.reservationId)) return home;
    const longer = longerBy(home, (fromId) => this.#steps.get(fromId));
    this.#homes.set(text, longer);
    return longer;
  }

  async #put(
    { key, text, reservationId, activateFor }: Putting,
    put: { isOwn: boolean; isActive: boolean },
  ): Promise<Home> {
    // Where the store is this database, its one statement reads before it writes.
    const nearby = this.#store.kind === 'etcd' ? await this.#store.readNearby(key) : undefined;
    if (nearby !== undefined) return this.#keep(text, nearby);
    const answer = await this.#store.put(key, reservationId, activateFor);
    put.isOwn = answer.outcome === 'reserved';
    put.isActive = answer.isActive === true;
    if (!put.isActive) return this.#keep(text, answer.reservationId);
    const home = startOf(answer.reservationId);
    this.#homes.set(text, home);
    return home;
  }

  /**
   * Where a reservation leads, as far as is known nearby. An unreachable store counts as one
   * without a pointer: the home is asked next, and answers with the pointer if it was left. So what
   * this datacenter has recorded itself is found while the store is cut off.
   */
  async #pointedTo(fromId: string): Promise<string | undefined> {
    try {
      return (await this.#store.readPointerNearby(fromId))?.toId;
    } catch (error) {
      const isAway = error instanceof LeaseError && error.code === 'reservation.store_unreachable';
      if (isAway) return undefined;
      throw error;
    }
  }

  /** Follows the pointers that are known nearby, and keeps the chain. */
  async #keep(text: string, firstId: string): Promise<Home> {
    let home = startOf(firstId);
    for (;;) {
      const fromId = home.reservationId;
      const toId = this.#steps.get(fromId) ?? (await this.#pointedTo(fromId));
      if (toId === undefined) break;
      this.#steps.set(fromId, toId);
      home = longerBy(home, (id) => (id === fromId ? toId : undefined));
    }
    this.#homes.set(text, home);
    return home;
  }
}

interface Putting {
  readonly key: ReservationKey;
  readonly text: string;
  readonly reservationId: string;
  readonly activateFor: string | undefined;
}

/** The home of a key that has not moved. */
function startOf(firstId: string): Home {
  return { reservationId: firstId, datacenter: datacenterOf(firstId), chain: [firstId] };
}

/** The chain, prolonged by every step that is known. @throws {LeaseError} `reservation.chain_too_long`. */
function longerBy(home: Home, stepFrom: (fromId: string) => string | undefined): Home {
  const chain = [...home.chain];
  let reservationId = home.reservationId;
  let toId = stepFrom(reservationId);
  while (toId !== undefined) {
    chain.push(toId);
    if (chain.length > LIMITS.reservationChainMax + 1) {
      throw new LeaseError('reservation.chain_too_long');
    }
    reservationId = toId;
    toId = stepFrom(reservationId);
  }
  return { reservationId, datacenter: datacenterOf(reservationId), chain };
}

/** A cache that grows up to this many entries; with `max` instead, it allocates room for all of them at once. */
export function boundedTo(count: number): { maxSize: number; sizeCalculation: () => number } {
  return { maxSize: count, sizeCalculation: () => 1 };
}
