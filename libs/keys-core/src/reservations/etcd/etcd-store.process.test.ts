import { Etcd3 } from 'etcd3';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startEtcd, startFaultProxy, type TestEtcd, waitUntil } from '@leasehold/testing';
import { MACHINE_CLOCK, openKernel } from '../../testing/kernel-fixture.ts';
import {
  aKey,
  anId,
  aPointer,
  describeReservationStore,
} from '../reservation-store.contract-for-test.ts';
import { createRememberingStore } from '../reservation-store.ts';
import { createEtcdReservationStore, type EtcdReservationStore } from './etcd-store.ts';

let etcd: TestEtcd;

beforeAll(async () => {
  etcd = await startEtcd({ membersCount: 3 });
});

afterAll(() => etcd.stop());

/** As long as a busy machine needs: what a test reads of a living member is that member's answer. */
const PATIENT = { nearbyMs: 30_000 } as const;

function storeOf(
  endpoints: readonly string[] = etcd.endpoints,
  change: { readonly nearbyMs?: number } = {},
): EtcdReservationStore {
  const store = createEtcdReservationStore({ endpoints, clock: MACHINE_CLOCK, ...change });
  onTestFinished(() => store.close());
  return store;
}

describeReservationStore('etcd', () => Promise.resolve(storeOf()));

describeReservationStore('etcd, remembered in PostgreSQL', async () => {
  const { store } = await openKernel();
  return createRememberingStore(storeOf(), {
    store,
    onForgotten: (error) => {
      throw error;
    },
  });
});

/** Stops these members from answering for the time of a test. */
async function freeze(cluster: TestEtcd, indexes: readonly number[]): Promise<void> {
  onTestFinished(async () => {
    for (const index of indexes) cluster.thaw(index);
    await cluster.waitUntilHealthy();
  });
  await Promise.all(indexes.map((index) => cluster.freeze(index)));
}

/** What a call that must fail was refused with. */
async function refusalOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    (value) => ({ answered: value }),
    (error: unknown) => error,
  );
}

describe('etcd under faults', () => {
  test('C40 without a majority known values are read nearby, and all else is an error, never "nothing"', async () => {
    // The member that goes on is the nearest, so none of the silent ones is waited for.
    const store = storeOf(etcd.endpoints, PATIENT);
    const key = aKey();
    const id = anId();
    await store.put(key, id);
    await waitUntil(async () => (await store.readNearby(key)) === id);
    await freeze(etcd, [1, 2]);

    const [fresh, known, absent] = await Promise.all([
      refusalOf(store.put(aKey(), anId())),
      store.readNearby(key),
      refusalOf(store.read(aKey())),
    ]);

    expect(known).toBe(id);
    for (const error of [fresh, absent]) {
      expect(error).toMatchObject({ code: 'reservation.store_unreachable' });
    }
    // Failed linearizable calls do not keep the nearest member from being asked either.
    expect(await store.readNearby(key)).toBe(id);
  });

  test('every call ends in bounded time while all members are silent, and works again afterwards', async () => {
    const store = storeOf();
    const pointer = aPointer();
    await store.putPointer(pointer);
    const indexes = [0, 1, 2];
    await freeze(etcd, indexes);

    const all = await Promise.all([
      refusalOf(store.put(aKey(), anId())),
      refusalOf(store.read(aKey())),
      refusalOf(store.readNearby(aKey())),
      refusalOf(store.putPointer(aPointer())),
      refusalOf(store.readPointer(pointer.fromId)),
      refusalOf(store.readPointerNearby(pointer.fromId)),
    ]);
    for (const index of indexes) etcd.thaw(index);

    for (const error of all) {
      expect(error).toMatchObject({ code: 'reservation.store_unreachable' });
    }
    expect(await waitUntil(() => store.readPointer(pointer.fromId))).toEqual(pointer);
  });

  test('C38 a put whose answer was lost fails as unreachable, and is reported as its own when it is repeated', async () => {
    const [url = '', ...others] = etcd.endpoints;
    const { hostname, port } = new URL(url);
    const proxy = await startFaultProxy({ host: hostname, port: Number(port) });
    onTestFinished(() => proxy.close());
    const behind = `http://${proxy.host}:${String(proxy.port)}`;
    const [cutOff, store] = [storeOf([behind]), storeOf([behind, ...others])];
    const [key, id, otherKey, otherId] = [aKey(), anId(), aKey(), anId()];
    await Promise.all([cutOff.read(key), store.read(key)]);
    proxy.drop('down');

    const [lost, put] = await Promise.all([
      refusalOf(cutOff.put(key, id)),
      store.put(otherKey, otherId),
    ]);

    expect(lost).toMatchObject({ code: 'reservation.store_unreachable' });
    // Both were carried out by the member whose answers were lost.
    expect(await storeOf(others).read(key)).toBe(id);
    expect(put).toEqual({ outcome: 'reserved', reservationId: otherId });
    expect(await storeOf().put(key, id)).toEqual({ outcome: 'reserved', reservationId: id });
    expect(await storeOf().put(otherKey, anId())).toMatchObject({ outcome: 'existing' });
  });

  test('nearby reads go to the first member while it answers, and to the next when it does not', async () => {
    const first = await startEtcd();
    onTestFinished(() => first.stop());
    const [firstUrl] = first.endpoints;
    const key = aKey();
    const [here, there] = [anId(), anId('dc2')];
    // Two etcds that know different things: what is read says which was asked.
    await storeOf(first.endpoints).put(key, here);
    await storeOf().put(key, there);
    const store = storeOf([firstUrl ?? '', ...etcd.endpoints], PATIENT);

    for (let times = 0; times < 20; times += 1) expect(await store.readNearby(key)).toBe(here);
    await first.kill(0);

    expect(await waitUntil(() => store.readNearby(key))).toBe(there);
  });

  test('answers of an etcd that is not the one from before are not believed', async () => {
    const store = storeOf();
    const key = aKey();
    await store.put(key, anId());
    store.expectCluster('12345');

    await expect(store.read(aKey())).rejects.toMatchObject({
      code: 'reservation.store_unreachable',
    });
    await expect(store.put(aKey(), anId())).rejects.toMatchObject({
      code: 'reservation.store_unreachable',
    });

    store.expectCluster(await storeOf().clusterId());
    expect(await store.read(key)).toBeDefined();
  });

  test('answers of an etcd that was restored from a backup are not believed, though it kept its id', async () => {
    const own = await startEtcd();
    onTestFinished(() => own.stop());
    const restore = await own.backUp();
    const [reader, writer] = [storeOf(own.endpoints), storeOf(own.endpoints)];
    const key = aKey();
    await writer.put(key, anId());
    await reader.read(key);

    await restore();

    expect(await storeOf(own.endpoints).read(key)).toBeUndefined();
    const unbelieved = { code: 'reservation.store_unreachable' };
    await expect(reader.read(key)).rejects.toMatchObject(unbelieved);
    // Its own write brings etcd to the revision of the lost write.
    await expect(writer.put(aKey(), anId())).rejects.toMatchObject(unbelieved);
    await storeOf(own.endpoints).put(aKey(), anId());
    await expect(reader.read(key)).rejects.toMatchObject(unbelieved);
    await expect(writer.read(key)).rejects.toMatchObject(unbelieved);
  });

  test.each(['a reservation', 'a beat'] as const)(
    'C40 nothing is written to an etcd that was restored to before %s of this process, so that nobody reads it there',
    async (what) => {
      const own = await startEtcd();
      onTestFinished(() => own.stop());
      const store = storeOf(own.endpoints);
      await store.read(aKey());
      const restore = await own.backUp();
      if (what === 'a beat') await waitUntil(() => store.beat(what).then(() => true));
      else await waitUntil(() => store.put(aKey(), anId()));
      await restore();
      const fresh = storeOf(own.endpoints);
      // It is further than it was: its revision does not show that it was restored.
      for (let times = 0; times < 5; times += 1) await waitUntil(() => fresh.put(aKey(), anId()));

      const [key, { fromId, ...to }] = [aKey(), aPointer()];
      const unbelieved = { code: 'reservation.store_unreachable' };
      await expect(store.put(key, anId())).rejects.toMatchObject(unbelieved);
      await expect(store.putPointer({ fromId, ...to })).rejects.toMatchObject(unbelieved);
      await expect(store.read(key)).rejects.toMatchObject(unbelieved);

      expect(await fresh.read(key)).toBeUndefined();
      expect(await fresh.readPointer(fromId)).toBeUndefined();
    },
  );

  test('C40 beats of many processes, and writes whose answer is lost, are taken for no restore', async () => {
    const proxy = await startFaultProxy({
      host: '127.0.0.1',
      port: Number(new URL(etcd.endpoints[0] ?? '').port),
    });
    onTestFinished(() => proxy.close());
    const stores = Array.from({ length: 3 }, () =>
      storeOf([`http://127.0.0.1:${String(proxy.port)}`]),
    );
    await Promise.all(stores.map((store, index) => store.beat(`dc1/${String(index)}`)));

    for (const direction of ['down', 'up'] as const) {
      const lostBefore = proxy.lostBytesCount;
      proxy.drop(direction);
      const puts = stores.map((store) => store.put(aKey(), anId()).catch(() => undefined));
      await waitUntil(() => proxy.lostBytesCount > lostBefore);
      await Promise.all(puts);
      proxy.heal();
      const key = aKey();
      await Promise.all(stores.map((store) => waitUntil(() => store.put(key, anId()))));
    }

    const ids = await Promise.all(stores.map((store) => store.read(aKey())));
    expect(ids).toEqual([undefined, undefined, undefined]);
  });

  test('what Leasehold did not write is not taken for a reservation', async () => {
    const raw = new Etcd3({ hosts: [...etcd.endpoints] });
    onTestFinished(() => {
      raw.close();
    });
    const { fromId } = aPointer();
    await raw.put('/leasehold/v1/reservation/["test","odd"]').value('nonsense');
    await raw.put(`/leasehold/v1/pointer/${fromId}`).value('{"toId":7}');

    await expect(storeOf().read(['test', 'odd'])).rejects.toMatchObject({ code: 'internal.error' });
    await expect(storeOf().readPointer(fromId)).rejects.toMatchObject({ code: 'internal.error' });
  });
});

test('C41 what was resolved once is resolved by a new controller while etcd is unreachable', async () => {
  const own = await startEtcd();
  onTestFinished(() => own.stop());
  const { store } = await openKernel();
  const [key, pointer, id] = [aKey(), aPointer(), anId('dc2')];
  const elsewhere = storeOf(own.endpoints);
  await elsewhere.put(key, id);
  await elsewhere.putPointer(pointer);
  const controller = (): ReturnType<typeof createRememberingStore> =>
    createRememberingStore(storeOf(own.endpoints), { store, onForgotten: () => undefined });
  await controller().readNearby(key);
  await controller().readPointerNearby(pointer.fromId);

  await own.kill(0);
  const restarted = controller();

  expect(await restarted.readNearby(key)).toBe(id);
  expect(await restarted.readPointerNearby(pointer.fromId)).toEqual(pointer);
  await expect(restarted.readNearby(aKey())).rejects.toMatchObject({
    code: 'reservation.store_unreachable',
  });
});
