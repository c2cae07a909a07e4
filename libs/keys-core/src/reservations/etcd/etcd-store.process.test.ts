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

describe('an etcd that was restored from a backup', () => {
  let own: TestEtcd;
  /** Of processes that have written since the backup: a reservation, a beat. */
  let putter: EtcdReservationStore;
  let beater: EtcdReservationStore;
  let fresh: EtcdReservationStore;
  const opened: EtcdReservationStore[] = [];
  const open = (): EtcdReservationStore => {
    const store = createEtcdReservationStore({ endpoints: own.endpoints, clock: MACHINE_CLOCK });
    opened.push(store);
    return store;
  };

  beforeAll(async () => {
    own = await startEtcd();
    [putter, beater] = [open(), open()];
    await Promise.all([putter.read(aKey()), beater.read(aKey())]);
    const restore = await own.backUp();
    await waitUntil(() => putter.put(aKey(), anId()));
    await waitUntil(() => beater.beat('a beat').then(() => true));
    await restore();
    fresh = open();
    // It is further than it was: its revision does not show that it was restored.
    for (let times = 0; times < 5; times += 1) await waitUntil(() => fresh.put(aKey(), anId()));
  });
  afterAll(async () => {
    await Promise.all(opened.map((store) => store.close()));
    await own.stop();
  });

  test.each([
    ['a reservation', () => putter],
    ['a beat', () => beater],
  ] as const)(
    'C40 nothing is written to an etcd that was restored to before %s of this process, so that nobody reads it there',
    async (_what, writer) => {
      const store = writer();
      const [key, { fromId, ...to }] = [aKey(), aPointer()];
      const unbelieved = { code: 'reservation.store_unreachable' };
      await expect(store.put(key, anId())).rejects.toMatchObject(unbelieved);
      await expect(store.putPointer({ fromId, ...to })).rejects.toMatchObject(unbelieved);
      await expect(store.read(key)).rejects.toMatchObject(unbelieved);

      expect(await fresh.read(key)).toBeUndefined();
      expect(await fresh.readPointer(fromId)).toBeUndefined();
    },
  );
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
