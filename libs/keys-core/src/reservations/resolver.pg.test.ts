import { describe, expect, test } from 'vitest';
import { LeaseError } from '../kernel/errors.ts';
import { reservationIdOf } from '../kernel/reservation.ts';
import { MACHINE_IDS, openKernel } from '../testing/kernel-fixture.ts';
import { createPostgresReservationStore, type ReservationStore } from './reservation-store.ts';
import { createResolver } from './resolver.ts';

const KEY = ['', 'demo'];

function anId(datacenter: string): string {
  return reservationIdOf(datacenter, MACHINE_IDS.uuid());
}

/** A store that counts, and whose nearby replica is as far behind as the test says. */
async function watchedStore(): Promise<{
  store: ReservationStore;
  asked: string[];
  lag: { isBehind: boolean };
  away: { isAway: boolean };
}> {
  const { store: kernel } = await openKernel();
  const real = createPostgresReservationStore(kernel);
  const asked: string[] = [];
  const lag = { isBehind: false };
  const away = { isAway: false };
  const ask = async <T>(what: string, answer: () => Promise<T>): Promise<T> => {
    asked.push(what);
    if (away.isAway) throw new Error('the store is unreachable');
    return answer();
  };
  const nearby = async <T>(what: string, answer: () => Promise<T>): Promise<T | undefined> =>
    ask(what, async () => (lag.isBehind ? undefined : answer()));
  const store: ReservationStore = {
    ...real,
    put: (key, id) => ask('put', () => real.put(key, id)),
    read: (key) => ask('read', () => real.read(key)),
    readNearby: (key) => nearby('readNearby', () => real.readNearby(key)),
    readPointerNearby: (id) => nearby('readPointerNearby', () => real.readPointerNearby(id)),
  };
  return { store, asked, lag, away };
}

describe('resolving', () => {
  test('C41 a key that was resolved once needs no store any more, nor does any reservation of its chain', async () => {
    const { store, asked, away } = await watchedStore();
    const [first, second] = [anId('dc1'), anId('dc2')];
    await store.put(KEY, first);
    await store.putPointer({ fromId: first, toId: second, tokenFloor: '7' });
    const resolver = createResolver({ store });
    await resolver.resolve(KEY);
    asked.length = 0;
    away.isAway = true;

    const home = await resolver.resolve(KEY);

    expect(home).toEqual({ reservationId: second, datacenter: 'dc2', chain: [first, second] });
    expect(asked).toEqual([]);
  });

  test('C40 a "nothing" of a replica that is behind is not believed', async () => {
    const { store, asked, lag } = await watchedStore();
    const id = anId('dc1');
    await store.put(KEY, id);
    lag.isBehind = true;
    asked.length = 0;

    const home = await createResolver({ store }).resolve(KEY);

    expect(home?.reservationId).toBe(id);
    expect(asked).toEqual(['readNearby', 'read', 'readPointerNearby']);
  });

  test('"nothing" is not cached: a later reservation is found', async () => {
    const { store } = await watchedStore();
    const resolver = createResolver({ store });
    expect(await resolver.resolve(KEY)).toBeUndefined();
    const id = anId('dc2');
    await store.put(KEY, id);

    expect((await resolver.resolve(KEY))?.reservationId).toBe(id);
  });

  test('a failure is not cached either, and is an error, never "nothing"', async () => {
    const { store, away } = await watchedStore();
    const id = anId('dc2');
    await store.put(KEY, id);
    const resolver = createResolver({ store });
    away.isAway = true;
    await expect(resolver.resolve(KEY)).rejects.toThrow('the store is unreachable');
    away.isAway = false;

    expect((await resolver.resolve(KEY))?.reservationId).toBe(id);
  });

  test('C41 a home that is known nearby is found even if the store cannot say whether it moved', async () => {
    const { store } = await watchedStore();
    const id = anId('dc1');
    await store.put(KEY, id);
    const cutOff: ReservationStore = {
      ...store,
      readPointerNearby: () => Promise.reject(new LeaseError('reservation.store_unreachable')),
    };

    expect((await createResolver({ store: cutOff }).resolve(KEY))?.reservationId).toBe(id);
  });

  test('many calls for one key at once share one lookup', async () => {
    const { store, asked } = await watchedStore();
    const id = anId('dc1');
    await store.put(KEY, id);
    asked.length = 0;
    const resolver = createResolver({ store });

    const homes = await Promise.all(Array.from({ length: 50 }, () => resolver.resolve(KEY)));

    expect(new Set(homes.map((home) => home?.reservationId))).toEqual(new Set([id]));
    expect(asked).toEqual(['readNearby', 'readPointerNearby']);
  });

  test('C38 only one of many callers that reserve one key at once has reserved it, with its own id', async () => {
    const { store } = await watchedStore();
    const resolvers = [createResolver({ store }), createResolver({ store })];
    const ids = Array.from({ length: 20 }, (_, index) => anId(`dc${String(index % 3)}`));

    const answers = await Promise.all(
      ids.map(async (id, index) => ({ id, answer: await resolvers[index % 2]?.reserve(KEY, id) })),
    );

    const homes = new Set(answers.map(({ answer }) => answer?.home.reservationId));
    const winners = answers.filter(({ answer }) => answer?.outcome === 'reserved');
    expect(homes.size).toBe(1);
    expect(winners).toHaveLength(1);
    expect(winners[0]?.id).toBe(winners[0]?.answer?.home.reservationId);
  });

  test('a reservation succeeds while a lookup that finds nothing is under way', async () => {
    const { store } = await watchedStore();
    const resolver = createResolver({ store });
    const id = anId('dc1');

    const [found, reserved] = await Promise.all([resolver.resolve(KEY), resolver.reserve(KEY, id)]);

    expect(found).toBeUndefined();
    expect(reserved).toMatchObject({ outcome: 'reserved', home: { reservationId: id } });
  });

  test('a pointer that was learned is followed at once, also for homes that were in memory before', async () => {
    const { store, asked } = await watchedStore();
    const [first, second, third] = [anId('dc1'), anId('dc2'), anId('dc1')];
    await store.put(KEY, first);
    const resolver = createResolver({ store });
    await resolver.resolve(KEY);
    asked.length = 0;

    resolver.learn({ fromId: first, toId: second });
    resolver.learn({ fromId: second, toId: third });

    expect(resolver.peek(KEY)?.chain).toEqual([first, second, third]);
    expect(asked).toEqual([]);
  });

  test('keys are lists, and no two lists are taken for one another', async () => {
    const { store } = await watchedStore();
    const resolver = createResolver({ store });
    const lists = [
      ['a/b'],
      ['a', 'b'],
      ['a","b'],
      ['', 'a'],
      ['a', ''],
      ['a'],
      ['[]'],
      ['\\', 'a'],
    ];
    for (const key of lists) await resolver.reserve(key, anId('dc1'));

    const fresh = createResolver({ store });
    const found = await Promise.all(lists.map((key) => fresh.resolve(key)));

    expect(new Set(found.map((home) => home?.reservationId)).size).toBe(lists.length);
  });

  test('memory is bounded: the least recently used key is looked up again', async () => {
    const { store, asked } = await watchedStore();
    const resolver = createResolver({ store, cachedMax: 2 });
    for (const name of ['a', 'b', 'c']) await resolver.reserve(['', name], anId('dc1'));
    asked.length = 0;

    await resolver.resolve(['', 'c']);
    await resolver.resolve(['', 'a']);

    expect(asked).toEqual(['readNearby', 'readPointerNearby']);
  });

  test('a chain that is longer than the bound is an error, and not followed forever', async () => {
    const { store } = await watchedStore();
    const first = anId('dc1');
    await store.put(KEY, first);
    const resolver = createResolver({ store });
    await resolver.resolve(KEY);
    let fromId = first;
    for (let moves = 0; moves < 65; moves += 1) {
      const toId = anId(`dc${String(moves % 3)}`);
      resolver.learn({ fromId, toId });
      fromId = toId;
    }

    await expect(resolver.resolve(KEY)).rejects.toMatchObject({
      code: 'reservation.chain_too_long',
    });
  });
});
