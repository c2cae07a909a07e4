/**
 * Where keys live, answered from memory: what was resolved once is never asked for again, because a
 * reservation never changes and a pointer never does (Epoxy's `kv_get_optimistic`, with its defects
 * left out: a "nothing" is never kept, and is believed only after a linearizable read).
 *
 * A chain is the key's first reservation and the pointers from there on, as far as they are known. A
 * move that nobody here has heard of does no harm: the datacenter that was left answers with the
 * pointer, and {@link Resolver.learn} keeps it.
 */
import { LRUCache } from 'lru-cache';
import { LeaseError } from '../../kernel/errors.ts';
import { LIMITS } from '../../kernel/limits.ts';
import {
  datacenterOf,
  reservationKeyText,
  type ReservationKey,
  type ReservationPointer,
} from '../../kernel/reservation.ts';
import type { ReservationStore } from './reservation-store.ts';
import type { Home } from './reservation-types.ts';

export interface ResolverOptions {
  readonly store: ReservationStore;
  /** How many homes, and how many pointers, are kept in memory; the least used go first. */
  readonly cachedMax?: number | undefined;
  /** Told of every answer: where it came from. */
  readonly onResolved?: ((from: 'cache' | 'store' | 'nowhere') => void) | undefined;
}

export interface Resolver {
  /** What memory has, at once. */
  peek(key: ReservationKey): Home | undefined;
  /** @throws {LeaseError} `reservation.store_unreachable`, `reservation.chain_too_long`. */
  resolve(key: ReservationKey): Promise<Home | undefined>;
  /** Resolves the key, or reserves it under this id. @throws {LeaseError} as `resolve`. */
  reserve(
    key: ReservationKey,
    reservationId: string,
  ): Promise<{ readonly outcome: 'reserved' | 'existing'; readonly home: Home }>;
  /** Keeps a pointer, and follows it from now on. */
  learn(pointer: ReservationPointer): void;
  /** How many homes are in memory. */
  readonly size: number;
}

/** About 50 MB: see docs/scaling.md. */
const CACHED_MAX = 200_000;

export function createResolver({ store, cachedMax, onResolved }: ResolverOptions): Resolver {
  const max = cachedMax ?? CACHED_MAX;
  const homes = new LRUCache<string, Home>({ max });
  const pointers = new LRUCache<string, ReservationPointer>({ max });
  /** Lookups under way, by key: who asks meanwhile gets their answer. */
  const lookups = new Map<string, Promise<Home | undefined>>();
  const told = onResolved ?? ((): void => undefined);

  function kept(text: string): Home | undefined {
    const home = homes.get(text);
    if (home === undefined) return undefined;
    const pointer = pointers.get(home.reservationId);
    if (pointer === undefined) return home;
    const longer = follow(home, (fromId) => pointers.get(fromId));
    homes.set(text, longer);
    return longer;
  }

  async function lookUp(key: ReservationKey, text: string): Promise<Home | undefined> {
    const firstId = (await store.readNearby(key)) ?? (await store.read(key));
    if (firstId === undefined) return undefined;
    return keep(text, firstId);
  }

  /** Follows the pointers that are known nearby, and keeps the chain. */
  async function keep(text: string, firstId: string): Promise<Home> {
    let home = homeOf([firstId]);
    for (;;) {
      const { reservationId } = home;
      const pointer = pointers.get(reservationId) ?? (await store.readPointerNearby(reservationId));
      if (pointer === undefined) break;
      pointers.set(pointer.fromId, pointer);
      home = follow(home, (fromId) => (fromId === pointer.fromId ? pointer : undefined));
    }
    homes.set(text, home);
    return home;
  }

  function joined(
    text: string,
    lookUpOnce: () => Promise<Home | undefined>,
  ): Promise<Home | undefined> {
    const before = lookups.get(text);
    if (before !== undefined) return before;
    const lookup = lookUpOnce().finally(() => lookups.delete(text));
    lookups.set(text, lookup);
    return lookup;
  }

  return {
    peek: (key) => kept(reservationKeyText(key)),
    async resolve(key) {
      const text = reservationKeyText(key);
      const cached = kept(text);
      if (cached !== undefined) {
        told('cache');
        return cached;
      }
      const home = await joined(text, () => lookUp(key, text));
      told(home === undefined ? 'nowhere' : 'store');
      return home;
    },
    async reserve(key, reservationId) {
      const text = reservationKeyText(key);
      const cached = kept(text);
      if (cached !== undefined) {
        told('cache');
        return { outcome: 'existing', home: cached };
      }
      let isOwn = false;
      const home = await joined(text, async () => {
        const nearby = await store.readNearby(key);
        if (nearby !== undefined) return keep(text, nearby);
        const put = await store.put(key, reservationId);
        isOwn = put.outcome === 'reserved';
        return keep(text, put.reservationId);
      });
      // It joined a plain lookup, which found nothing: now it is its turn.
      if (home === undefined) return this.reserve(key, reservationId);
      told('store');
      return { outcome: isOwn ? 'reserved' : 'existing', home };
    },
    learn(pointer) {
      pointers.set(pointer.fromId, pointer);
    },
    get size() {
      return homes.size;
    },
  };
}

/** A chain as a home. */
export function homeOf(chain: readonly [string, ...string[]]): Home {
  const reservationId = chain.at(-1) ?? chain[0];
  return { reservationId, datacenter: datacenterOf(reservationId), chain };
}

/** The chain, prolonged by every pointer that is known. @throws {LeaseError} `reservation.chain_too_long`. */
function follow(home: Home, pointerFrom: (fromId: string) => ReservationPointer | undefined): Home {
  const chain = [...home.chain];
  for (;;) {
    const pointer = pointerFrom(chain.at(-1) ?? '');
    if (pointer === undefined) break;
    chain.push(pointer.toId);
    if (chain.length > LIMITS.reservationChainMax + 1) {
      throw new LeaseError('reservation.chain_too_long');
    }
  }
  const reservationId = chain.at(-1) ?? home.reservationId;
  return { reservationId, datacenter: datacenterOf(reservationId), chain };
}
