import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startEtcd, startFaultProxy, type TestEtcd, waitUntil } from '@leasehold/testing';
import { MACHINE_CLOCK, openKernel } from '../../testing/kernel-fixture.ts';
import { aKey, anId, describeReservationStore } from '../reservation-store.contract-for-test.ts';
import { createRememberingStore } from '../reservation-store.ts';
import { createEtcdReservationStore, type EtcdReservationStore } from './etcd-store.ts';

let etcd: TestEtcd;

beforeAll(async () => {
  etcd = await startEtcd();
});

afterAll(() => etcd.stop());

function storeOf(
  endpoints: readonly string[] = etcd.endpoints,
  change: { readonly nearbyMs?: number } = {},
): EtcdReservationStore {
  const store = createEtcdReservationStore({ endpoints, clock: MACHINE_CLOCK, ...change });
  onTestFinished(() => store.close());
  return store;
}

describeReservationStore('etcd, remembered in PostgreSQL', async () => {
  const { store } = await openKernel();
  return createRememberingStore(storeOf(), {
    store,
    onForgotten: (error) => {
      throw error;
    },
  });
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
  const store = storeOf([firstUrl ?? '', ...etcd.endpoints], { nearbyMs: 30_000 });

  for (let times = 0; times < 20; times += 1) expect(await store.readNearby(key)).toBe(here);
  await first.kill(0);

  expect(await waitUntil(() => store.readNearby(key))).toBe(there);
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
