import { randomUUID } from 'node:crypto';
import { createEtcdReservationStore, type PeerProbes } from '@leasehold/keys-core/reservations';
import { startEtcd, type TestEtcd, waitUntil } from '@leasehold/testing';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { newDatabase, openDatabase, startReservations } from './reservations-for-test.ts';

const ACTOR = { actor: 'alice', role: 'admin', source: null } as const;
const NOBODY: PeerProbes = { names: [], get: () => undefined };
/** Long enough for a start that etcd does not answer, and so short that a test can wait for its end. */
const START_ALONE_MS = 8_000;

async function anEtcd(): Promise<TestEtcd> {
  const etcd = await startEtcd();
  onTestFinished(() => etcd.stop());
  return etcd;
}

/** dc1, which runs, and dc3, which is registered alone; and a pointer of a key that leaves dc3 for dc1. */
async function twoDatacenters(endpoints: readonly string[]) {
  const store = await openDatabase('dc1', await newDatabase());
  const lost = await openDatabase('dc3', await newDatabase());
  const before = await startReservations({ store, datacenter: 'dc1', endpoints });
  // Of a version that makes nothing known of itself.
  const raw = createEtcdReservationStore({ endpoints, clock: store.clock });
  onTestFinished(() => raw.close());
  await raw.register('dc3', randomUUID());
  const pointer = { fromId: `dc3.${randomUUID()}`, toId: `dc1.${randomUUID()}`, tokenFloor: '17' };
  return { store, lost, before, service: before.giveUpOf(NOBODY), raw, pointer };
}

test('an etcd that was lost and created again is told which datacenters were given up, and where their keys live', async () => {
  const { endpoints } = await anEtcd();
  const { store, lost, before, service, pointer } = await twoDatacenters(endpoints);
  const input = { datacenter: 'dc3', reason: 'it burnt down', abandon: false };

  const declared = await service.giveUp(input, ACTOR);
  const early = await service.giveUp(input, ACTOR).catch((error: unknown) => error);
  const opened = await service.giveUp({ ...input, abandon: true }, ACTOR);
  await before.store.put(['game', 'demo'], pointer.fromId);
  await before.store.putPointer(pointer);
  const other = await anEtcd();
  const after = await startReservations({ store, datacenter: 'dc1', endpoints: other.endpoints });
  const late = startReservations({ store: lost, datacenter: 'dc3', endpoints: other.endpoints });

  expect(declared).toMatchObject({ opened: null, remainingMs: null });
  expect(early).toMatchObject({
    code: 'reservation.give_up_early',
    details: { remainingMs: null },
  });
  expect(opened.opened).toMatchObject({ isAbandoned: true, by: 'alice' });
  expect(BigInt(opened.opened?.tokenFloor ?? 0)).toBeGreaterThan(BigInt(Date.now()));
  await expect(late).rejects.toMatchObject({ code: 'reservation.datacenter_given_up' });
  expect(await after.store.read(['game', 'demo'])).toBe(pointer.fromId);
  expect(await after.store.readPointer(pointer.fromId)).toEqual(pointer);
});

test.each([
  ['before it was declared', []],
  ['between its declaration and its opening', [{ abandon: false }]],
  ['before a key had its new home', [{ abandon: true }]],
])(
  'an etcd that was restored, with its id, to %s is told of a give-up again, and where its keys live',
  async (_when, earlier) => {
    const etcd = await anEtcd();
    const { endpoints } = etcd;
    const { store, lost, before, service, raw, pointer } = await twoDatacenters(endpoints);
    const { fromId } = pointer;
    const input = { datacenter: 'dc3', reason: 'it burnt down', abandon: true };
    for (const step of earlier) await service.giveUp({ ...input, ...step }, ACTOR);
    const restore = await etcd.backUp();
    await waitUntil(() => service.giveUp(input, ACTOR).catch(() => undefined));
    await before.store.putPointer(pointer);
    await before.close();

    await restore();
    expect(await raw.readPointer(fromId)).toBeUndefined();
    await startReservations({ store, datacenter: 'dc1', endpoints });
    const late = startReservations({ store: lost, datacenter: 'dc3', endpoints });

    await expect(late).rejects.toMatchObject({ code: 'reservation.datacenter_given_up' });
    expect(await raw.readPointer(fromId)).toEqual(pointer);
    expect(await raw.givenUp.list()).toMatchObject([{ opened: { by: 'alice' } }]);
  },
);

test('a controller that was started without etcd ends when its datacenter may have been given up since', async () => {
  const etcd = await anEtcd();
  const { endpoints } = etcd;
  const store = await openDatabase('dc1', await newDatabase());
  const start = { store, datacenter: 'dc1', endpoints, startAloneMs: START_ALONE_MS };
  const first = await startReservations(start);
  await first.close();
  await etcd.kill(0);
  const startedAtMs = store.clock.nowMs();

  const alone = await startReservations(start);

  await expect(alone.failed).rejects.toThrow(/it may have been given up since/u);
  expect(store.clock.nowMs() - startedAtMs).toBeLessThan(2 * START_ALONE_MS);
  await expect(startReservations(start)).rejects.toThrow(/it may have been given up since/u);
});

test.each([
  ['declared lost', false],
  ['given up finally', true],
])(
  'a controller whose datacenter was %s ends, although nothing can be written of it',
  async (_what, abandon) => {
    const { endpoints } = await anEtcd();
    const store = await openDatabase('dc1', await newDatabase());
    const url = await newDatabase();
    const lost = await openDatabase('dc3', url);
    const here = await startReservations({ store, datacenter: 'dc1', endpoints });
    const there = await startReservations({ store: lost, datacenter: 'dc3', endpoints });
    const locking = new pg.Client({ connectionString: url });
    await locking.connect();
    onTestFinished(() => locking.end());
    await locking.query('begin');
    await locking.query('lock table reservation_membership, reservation_given_up');

    const input = { datacenter: 'dc3', reason: 'it burnt down', abandon };
    await here.giveUpOf(NOBODY).giveUp(input, ACTOR);

    await expect(there.failed).rejects.toMatchObject({ code: 'reservation.datacenter_given_up' });
    await locking.query('rollback');
  },
);
