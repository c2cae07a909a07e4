import { randomUUID } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { invariant } from '@leasehold/keys-core';
import {
  createResolver,
  type Resolver,
  type ReservationStore,
} from '@leasehold/keys-core/reservations';
import type { Figure } from '../rig/figures.ts';
import { atLeast, bytes, perSecond } from '../rig/quantities.ts';
import type { Rig } from '../rig/rig.ts';
import { compare } from '../rig/rounds.ts';

const KEYS_COUNT = 10_000;
/** As many as a resolver keeps by default. */
const HOMES_COUNT = 200_000;

type Key = readonly [namespace: string, name: string];

/** Keys of a usual length, all reserved; nothing has moved. */
function keysOf(count: number): Key[] {
  return Array.from({ length: count }, (_, index) => ['rooms.europe', `room-${String(index)}`]);
}

/** A store that costs nothing, so that only the resolver is measured. */
function storeOf(home: () => string): ReservationStore {
  return {
    kind: 'etcd',
    put: (_key, reservationId) => Promise.resolve({ outcome: 'reserved', reservationId }),
    readNearby: () => Promise.resolve(home()),
    read: () => Promise.resolve(home()),
    putPointer: (pointer) => Promise.resolve(pointer),
    readPointerNearby: () => Promise.resolve(undefined),
    readPointer: () => Promise.resolve(undefined),
    close: () => Promise.resolve(),
  };
}

const freshId = (): string => `dc1.${randomUUID()}`;

/** How often keys that were resolved once can be resolved again, and how much memory they take. */
export async function measureCachedHomes(rig: Rig): Promise<Figure[]> {
  const keys = keysOf(KEYS_COUNT);
  const resolver = createResolver({ store: storeOf(freshId) });
  await fill(resolver, keys);
  const known = new Map(keys.map((key) => [JSON.stringify(key), freshId()]));
  const passCount = rig.isQuick ? 10 : 100;
  const { ours, theirs } = await compare(
    {
      name: 'resolver',
      round: () => rateOfPasses(keys, passCount, (key) => resolver.resolve(key)),
    },
    {
      name: 'map',
      round: () => rateOfPasses(keys, passCount, (key) => known.get(JSON.stringify(key))),
    },
    rig.isQuick ? 2 : 7,
  );
  return [
    {
      what: 'cached resolves in one process, against a Map of the same keys',
      result: perSecond(ours),
      required: atLeast(500_000),
      theirs: perSecond(theirs),
    },
    await memoryPerHome(rig.isQuick ? HOMES_COUNT / 10 : HOMES_COUNT),
  ];
}

/** One call after the other, each awaited, as a connect does. */
async function rateOfPasses(
  keys: readonly Key[],
  passCount: number,
  ask: (key: Key) => unknown,
): Promise<number> {
  const startedAtMs = performance.now();
  for (let pass = 0; pass < passCount; pass += 1) {
    for (const key of keys) await ask(key);
  }
  return (passCount * keys.length * 1_000) / (performance.now() - startedAtMs);
}

async function memoryPerHome(homesCount: number): Promise<Figure> {
  const resolver = createResolver({ store: storeOf(freshId), cachedMax: homesCount });
  const before = heapBytes();
  await fill(resolver, keysOf(homesCount));
  const eachBytes = (heapBytes() - before) / homesCount;
  // What is measured was not garbage-collected: the last home is still there.
  invariant(resolver.peek(keysOf(homesCount).at(-1) ?? []) !== undefined, 'the homes are kept');
  return {
    what: `memory of a cached home, of ${String(homesCount)}`,
    result: bytes(eachBytes),
  };
}

async function fill(resolver: Resolver, keys: readonly Key[]): Promise<void> {
  for (const key of keys) await resolver.resolve(key);
}

/** What is in use, garbage left out. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  return process.memoryUsage().heapUsed;
}
