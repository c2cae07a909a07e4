import { randomUUID } from 'node:crypto';
import {
  createEtcdReservationStore,
  type EtcdReservationStore,
} from '@leasehold/keys-core/reservations';
import type { Store } from '@leasehold/keys-core/postgres';
import { startEtcd, waitUntil, type TestEtcd } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  isGrantedUnder,
  markRestored,
  newDatabase,
  openDatabase,
  serviceOn,
  startReservations,
} from './reservations-for-test.ts';

async function anEtcd(): Promise<TestEtcd> {
  const etcd = await startEtcd();
  onTestFinished(() => etcd.stop());
  return etcd;
}

async function aDatabase(datacenter = 'dc1'): Promise<Store> {
  return openDatabase(datacenter, await newDatabase());
}

/** Writes a key's row from before there were reservations. */
async function grantOld(store: Store, name: string): Promise<void> {
  await store.general.$executeRaw`
    insert into lease (
      face, namespace, name, lease_id, fencing_token, holder, principal,
      ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at
    )
    select 'key', 'game', ${name}, gen_random_uuid(), 7, 'a', 'a', 4, 1, 2, 3, at, at, at
    from (select clock_timestamp() as at) r`;
}

/** A client of etcd alone, which has no duties. */
function etcdClient({ clock }: Store, endpoints: readonly string[]): EtcdReservationStore {
  const client = createEtcdReservationStore({ endpoints, clock });
  onTestFinished(() => client.close());
  return client;
}

async function hasLockWaiter({ general }: Store): Promise<boolean> {
  const waiting = await general.$queryRaw<unknown[]>`
    select 1 as one from pg_locks l
    join pg_database d on d.oid = l.database and d.datname = current_database()
    where not l.granted and l.relation = 'reservation_home'::regclass`;
  return waiting.length > 0;
}

function nobody(): never {
  throw new Error('there is no other datacenter in this test');
}

describe('a datacenter without etcd', () => {
  test('C62 does not start when it has peers', async () => {
    const store = await aDatabase();

    const start = startReservations({ store, datacenter: 'dc1', peers: ['dc2'], endpoints: null });

    await expect(start).rejects.toMatchObject({ code: 'config.invalid' });
    await expect(start).rejects.toThrow(/LEASEHOLD_PEERS names dc2/);
  });

  test('keeps its name: a database registered under one name is not started under another', async () => {
    const store = await aDatabase();
    const alone = { store, peers: [], endpoints: null };
    await startReservations({ ...alone, datacenter: 'dc1' });
    await startReservations({ ...alone, datacenter: 'dc1' });

    const start = startReservations({ ...alone, datacenter: 'dc2' });

    await expect(start).rejects.toMatchObject({ code: 'config.invalid' });
    await expect(start).rejects.toThrow(/registered as "dc1"/);
  });

  test('does not start on a database whose reservations are in etcd', async () => {
    const { endpoints } = await anEtcd();
    const store = await aDatabase();
    await startReservations({ store, datacenter: 'dc1', endpoints });

    const start = startReservations({ store, datacenter: 'dc1', peers: [], endpoints: null });

    await expect(start).rejects.toThrow(/LEASEHOLD_ETCD is not set/);
  });
});

describe('a datacenter with etcd', () => {
  test('does not start under the name of another database, and names that database', async () => {
    const { endpoints } = await anEtcd();
    await startReservations({ store: await aDatabase(), datacenter: 'dc1', endpoints });

    const start = startReservations({ store: await aDatabase(), datacenter: 'dc1', endpoints });

    await expect(start).rejects.toMatchObject({ code: 'config.invalid' });
    await expect(start).rejects.toThrow(/"dc1" is the name of the database/);
  });

  test('reserves, before it uses etcd, the keys from before there were reservations, so that they are found', async () => {
    const store = await aDatabase();
    for (let count = 0; count < 1_200; count += 1) await grantOld(store, `old-${String(count)}`);

    const { store: here } = await startReservations({
      store,
      datacenter: 'dc1',
      peers: [],
      endpoints: null,
    });

    for (const name of ['old-0', 'old-999', 'old-1199']) {
      expect(await here.read(['game', name])).toMatch(/^dc1\./);
    }
  });

  test('tells a new store which keys live here, also those from before there were reservations', async () => {
    const { endpoints } = await anEtcd();
    const store = await aDatabase();
    const alone = await startReservations({ store, datacenter: 'dc1', peers: [], endpoints: null });
    const ids = new Map<string, string>();
    // More than are put at once.
    for (let count = 0; count < 150; count += 1) {
      const [name, id] = [`key-${String(count)}`, `dc1.${randomUUID()}`];
      await alone.store.put(['game', name], id);
      ids.set(name, id);
    }
    await grantOld(store, 'old');

    const { store: shared } = await startReservations({ store, datacenter: 'dc1', endpoints });

    for (const [name, id] of ids) expect(await shared.read(['game', name])).toBe(id);
    const old = await shared.read(['game', 'old']);
    expect(old).toMatch(/^dc1\./);
    const service = serviceOn(
      store,
      await startReservations({ store, datacenter: 'dc1', endpoints }),
      nobody,
    );
    await service.reservationStatus(old ?? '', ['game', 'old']);
    expect(await isGrantedUnder(store, ['game', 'old'], old ?? '')).toBe(true);
  });

  test('does not start when some of its keys live elsewhere, and names a few of them', async () => {
    const { endpoints } = await anEtcd();
    const other = await aDatabase('dc2');
    const elsewhere = await startReservations({ store: other, datacenter: 'dc2', endpoints });
    const store = await aDatabase();
    for (let count = 0; count < 7; count += 1) {
      await elsewhere.store.put(['game', `key-${String(count)}`], `dc2.${randomUUID()}`);
      await grantOld(store, `key-${String(count)}`);
    }

    const start = startReservations({ store, datacenter: 'dc1', endpoints });

    await expect(start).rejects.toMatchObject({ code: 'config.invalid' });
    await expect(start).rejects.toThrow(/, 7 keys .*\["game","key-0"\].*\["game","key-4"\]\./);
  });

  test('writes everything, also the pointers, to an etcd that was lost and created again', async () => {
    const store = await aDatabase();
    const before = await startReservations({
      store,
      datacenter: 'dc1',
      endpoints: (await anEtcd()).endpoints,
    });
    const [id, movedTo] = [`dc1.${randomUUID()}`, `dc2.${randomUUID()}`];
    const pointer = { fromId: id, toId: movedTo, tokenFloor: '17' };
    await before.store.put(['game', 'demo'], id);
    await before.store.putPointer(pointer);

    const { endpoints } = await anEtcd();
    const after = await startReservations({ store, datacenter: 'dc1', endpoints });

    expect(await after.store.read(['game', 'demo'])).toBe(id);
    expect(await after.store.readPointer(id)).toEqual(pointer);
  });
});

/** An etcd that can go back to before `dc1` reserved its last key and left a pointer. */
async function anEtcdWithBackup() {
  const etcd = await anEtcd();
  const { endpoints } = etcd;
  const store = await aDatabase();
  const before = await startReservations({ store, datacenter: 'dc1', endpoints });
  const [old, id] = [`dc1.${randomUUID()}`, `dc1.${randomUUID()}`];
  const pointer = { fromId: old, toId: `dc2.${randomUUID()}`, tokenFloor: '17' };
  await before.store.put(['game', 'old'], old);
  const restoreEarlier = await etcd.backUp();
  await waitUntil(() => before.store.put(['game', 'demo'], id));
  await before.store.putPointer(pointer);
  return { etcd, endpoints, store, before, id, pointer, restoreEarlier };
}

test('a store that was restored from a backup, and kept its id, is told again which keys live here', async () => {
  const { etcd, endpoints, store, id, pointer, restoreEarlier } = await anEtcdWithBackup();
  await restoreEarlier();

  const after = await startReservations({ store, datacenter: 'dc1', endpoints });

  expect(await after.store.read(['game', 'demo'])).toBe(id);
  expect(await after.store.readPointer(pointer.fromId)).toEqual(pointer);
  const restoreLater = await etcd.backUp();
  const later = { fromId: id, toId: `dc3.${randomUUID()}`, tokenFloor: '18' };
  await waitUntil(() => after.store.putPointer(later));
  await restoreLater();
  const last = await startReservations({ store, datacenter: 'dc1', endpoints });
  expect(await last.store.readPointer(id)).toEqual(later);
});

describe('a controller without etcd beside one that is started with it', () => {
  test('C62 no longer reserves anything, and reports why; what it has reserved is in etcd', async () => {
    const { endpoints } = await anEtcd();
    const store = await aDatabase();
    const alone = await startReservations({ store, datacenter: 'dc1', peers: [], endpoints: null });
    const acknowledged = new Map<string, string>();
    let refused: unknown;
    const reserving = (async () => {
      while (refused === undefined) {
        const [name, id] = [randomUUID(), `dc1.${randomUUID()}`];
        await alone.store.put(['game', name], id).then(
          () => acknowledged.set(name, id),
          (error: unknown) => (refused = error),
        );
      }
    })();
    await waitUntil(() => acknowledged.size > 10);

    const { store: shared } = await startReservations({ store, datacenter: 'dc1', endpoints });

    await alone.store.put(['game', 'late'], `dc1.${randomUUID()}`).catch(() => undefined);
    expect(await shared.read(['game', 'late'])).toBeUndefined();
    expect((await shared.put(['game', 'late'], `dc1.${randomUUID()}`)).outcome).toBe('reserved');
    await reserving;
    expect(refused).toMatchObject({ code: 'reservation.store_unreachable' });
    expect(String(refused)).toMatch(/without LEASEHOLD_ETCD/);
    for (const [name, id] of acknowledged) expect(await shared.read(['game', name])).toBe(id);
  });

  test('makes the other one wait for its reservation under way', async () => {
    const { endpoints } = await anEtcd();
    const store = await aDatabase();
    const id = `dc1.${randomUUID()}`;
    let hasReserved = false;
    let mayCommit = false;
    const reserving = store.general.$transaction(async (tx) => {
      await tx.$executeRaw`
        insert into reservation_home (key, reservation_id) values ('["game","slow"]', ${id})`;
      hasReserved = true;
      await waitUntil(() => mayCommit);
    });
    await waitUntil(() => hasReserved);

    const starting = startReservations({ store, datacenter: 'dc1', endpoints });
    let hasStarted = false;
    void starting.then(() => (hasStarted = true));
    await waitUntil(async () => hasStarted || (await hasLockWaiter(store)));
    mayCommit = true;
    await reserving;

    expect(await (await starting).store.read(['game', 'slow'])).toBe(id);
  });
});

describe('a start while etcd is unreachable', () => {
  test('succeeds when etcd need not be told or asked anything, and etcd is found when it is back', async () => {
    const etcd = await anEtcd();
    const { endpoints } = etcd;
    const store = await aDatabase();
    const before = await startReservations({ store, datacenter: 'dc1', endpoints });
    const id = `dc1.${randomUUID()}`;
    await before.store.put(['game', 'demo'], id);
    await etcd.kill(0);

    const { store: reservations, storeStatus } = await startReservations({
      store,
      datacenter: 'dc1',
      endpoints,
    });

    expect(await reservations.readNearby(['game', 'demo'])).toBe(id);
    expect(storeStatus()).toMatchObject({ kind: 'etcd', isReachable: false });
    expect(storeStatus().since).toMatch(/^\d{4}-.*Z$/);
    await etcd.restart(0);
    await waitUntil(() => storeStatus().isReachable, { timeoutMs: 30_000 });
    expect(storeStatus()).toEqual({ kind: 'etcd', isReachable: true, since: null });
  });

  test('reserves nothing until it has told an etcd that was restored meanwhile which keys live here', async () => {
    const { etcd, endpoints, store, before, id, pointer, restoreEarlier } =
      await anEtcdWithBackup();
    await before.close();
    await etcd.kill(0);
    const opened = await startReservations({ store, datacenter: 'dc1', endpoints });
    const raw = etcdClient(store, endpoints);

    await restoreEarlier();
    expect(await raw.read(['game', 'demo'])).toBeUndefined();
    await waitUntil(() => opened.store.put(['game', 'fresh'], `dc1.${randomUUID()}`), {
      timeoutMs: 30_000,
    });

    expect(await raw.read(['game', 'demo'])).toBe(id);
    expect(await raw.readPointer(pointer.fromId)).toEqual(pointer);
    expect(opened.storeStatus()).toMatchObject({ isReachable: true });
  });

  test('fails when the datacenter is a new one, or its database was restored', async () => {
    const etcd = await anEtcd();
    const { endpoints } = etcd;
    const [fresh, restored] = [await aDatabase(), await aDatabase('dc2')];
    await startReservations({ store: restored, datacenter: 'dc2', endpoints });
    await markRestored(restored);
    await etcd.kill(0);

    const first = startReservations({ store: fresh, datacenter: 'dc1', endpoints });
    await expect(first).rejects.toMatchObject({ code: 'reservation.store_unreachable' });
    await expect(first).rejects.toThrow(/has not copied its reservations to it yet/);
    const second = startReservations({ store: restored, datacenter: 'dc2', endpoints });
    await expect(second).rejects.toThrow(/was restored/);
  });
});
