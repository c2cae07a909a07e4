import type { ReservationKey } from '@leasehold/keys-core';
import { readMembership, type ReservationService } from '@leasehold/keys-core/reservations';
import type { Store } from '@leasehold/keys-core/postgres';
import { startEtcd, waitUntil, type TestEtcd } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  copyDatabase,
  isGrantedUnder,
  markRestored,
  newDatabase,
  openDatabase,
  serviceOn,
  startReservations,
} from './reservations-for-test.ts';

const KEY: ReservationKey = ['game', 'demo'];
const CALLER = { principal: 'p', actor: 'alice', role: 'operator', namespaces: null };

let etcd: TestEtcd;

beforeAll(async () => {
  etcd = await startEtcd();
});

afterAll(() => etcd.stop());

interface Datacenter {
  readonly name: string;
  readonly store: Store;
  service: ReservationService;
  close(): Promise<void>;
}

/** A datacenter on a database, and how it reaches the other one. */
async function start(name: string, url: string, other: () => Datacenter): Promise<Datacenter> {
  const store = await openDatabase(name, url);
  return startOn(name, store, other);
}

async function startOn(name: string, store: Store, other: () => Datacenter): Promise<Datacenter> {
  const { endpoints } = etcd;
  const opened = await startReservations({ store, datacenter: name, endpoints });
  return {
    name,
    store,
    service: serviceOn(store, opened, other),
    async close() {
      await opened.close();
      await store.close();
    },
  };
}

function move(from: Datacenter, key: ReservationKey, to: Datacenter): Promise<string> {
  return from.service
    .move({ key, toDatacenter: to.name, reason: 'a test' }, CALLER)
    .then(({ reservationId }) => reservationId);
}

/** Reserves a key, activates it, and has it granted once. */
async function live(at: Datacenter, key: ReservationKey): Promise<string> {
  const { reservationId } = await at.service.reserve({ key });
  await at.service.reservationStatus(reservationId, key);
  expect(await isGrantedUnder(at.store, key, reservationId)).toBe(true);
  return reservationId;
}

test('C61 a database copied before a move and restored after it does not accept the key again', async () => {
  const url = await newDatabase();
  let [here, there] = [undefined, undefined] as unknown as [Datacenter, Datacenter];
  here = await start('dc1', url, () => there);
  there = await start('dc2', await newDatabase(), () => here);
  const first = await live(here, KEY);
  await here.close();
  const [backup, unguarded] = [await copyDatabase(url), await copyDatabase(url)];
  here = await start('dc1', url, () => there);
  const unknownToBackup: ReservationKey = ['game', 'made later'];
  const later = await live(here, unknownToBackup);
  const second = await move(here, KEY, there);
  await move(here, unknownToBackup, there);
  expect(await isGrantedUnder(there.store, KEY, second)).toBe(true);
  await here.close();

  const restored = await openDatabase('dc1', backup);
  await markRestored(restored);
  here = await startOn('dc1', restored, () => there);

  // By itself, the restored database takes itself for the key's home.
  const alone = await openDatabase('dc1', unguarded);
  expect(await isGrantedUnder(alone, KEY, first)).toBe(true);
  // After the read-back it knows better, of the key that it knew and of the one that it never saw.
  expect(await isGrantedUnder(restored, KEY, first)).toBe(false);
  expect(await isGrantedUnder(restored, unknownToBackup, later)).toBe(false);
  expect(await here.service.reservationStatus(first, KEY)).toMatchObject({
    standing: 'moved',
    pointer: { fromId: first, toId: second },
  });
  expect(await here.service.resolve({ key: KEY })).toMatchObject({ reservationId: second });
  expect(await isGrantedUnder(there.store, KEY, second)).toBe(true);
});

test('C61 C43 a key that moved away and back is at home in its newest reservation alone', async () => {
  const key: ReservationKey = ['game', 'returned'];
  const url = await newDatabase();
  let [here, there] = [undefined, undefined] as unknown as [Datacenter, Datacenter];
  here = await start('dc3', url, () => there);
  there = await start('dc4', await newDatabase(), () => here);
  const first = await live(here, key);
  await here.close();
  const backup = await copyDatabase(url);
  here = await start('dc3', url, () => there);
  await move(here, key, there);
  const third = await move(there, key, here);
  await here.close();

  const restored = await openDatabase('dc3', backup);
  await markRestored(restored);
  here = await startOn('dc3', restored, () => there);

  expect(await isGrantedUnder(restored, key, first)).toBe(false);
  expect(await isGrantedUnder(restored, key, third)).toBe(false);
  expect(await here.service.reservationStatus(third, key)).toMatchObject({ standing: 'active' });
  expect(await isGrantedUnder(restored, key, third)).toBe(true);
  expect(await isGrantedUnder(restored, key, first)).toBe(false);
});

test('C61 after a failover that loses a move, running controllers read it back, and retry until they have', async () => {
  const key: ReservationKey = ['game', 'lost'];
  let [here, there] = [undefined, undefined] as unknown as [Datacenter, Datacenter];
  here = await start('dc5', await newDatabase(), () => there);
  there = await start('dc6', await newDatabase(), () => here);
  const first = await live(here, key);
  const second = await move(here, key, there);
  await etcd.kill(0);
  await loseMove(here.store, first, second);

  await markRestored(here.store);
  // Nothing is granted before etcd has been asked which keys have left.
  expect(await isGrantedUnder(here.store, key, first)).toBe(false);
  await etcd.restart(0);

  await waitUntil(() => isSyncedNow(here.store), { timeoutMs: 30_000 });
  expect(await isGrantedUnder(here.store, key, first)).toBe(false);
  expect(await here.service.reservationStatus(first, key)).toMatchObject({
    standing: 'moved',
    pointer: { fromId: first, toId: second },
  });
  expect(await isGrantedUnder(there.store, key, second)).toBe(true);
  await live(here, ['game', 'fresh']);
});

/** What a failover does to a database that loses the commit of a move. */
async function loseMove({ general }: Store, fromId: string, toId: string): Promise<void> {
  await general.$transaction(async (tx) => {
    await tx.$executeRaw`delete from reservation_pointer where from_id = ${fromId}`;
    await tx.$executeRaw`
      update reservation set state = 'active', moved_at = null, moved_by = null, move_reason = null
      where reservation_id = ${fromId}`;
    await tx.$executeRaw`
      update lease set home_reservation = ${fromId} where home_reservation = ${toId}`;
  });
}

async function isSyncedNow({ general }: Store): Promise<boolean> {
  const { syncedEpoch, epoch } = await readMembership(general);
  return syncedEpoch === epoch;
}
