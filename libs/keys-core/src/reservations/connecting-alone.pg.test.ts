import { describe, expect, type Mock, test, vi } from 'vitest';
import type { SessionRef } from '../fleet/sql/drone-sessions.ts';
import { checkEpoch } from '../postgres/witness/epoch.ts';
import { connectAt } from '../testing/datacenters-fixture.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { CLIENT, keyNamed, type Keys, openKeys, reportOf } from '../testing/keys-fixture.ts';
import { watchStatements } from '../testing/sent-statements.ts';
import { createReservationService } from './index.ts';
import { createPostgresReservationStore } from './reservation-store.ts';
import type { ReservationService } from './reservation-types.ts';

interface Alone extends Keys {
  readonly service: ReservationService;
  readonly drone: SessionRef;
  /** Lookups of homes. */
  readonly onResolved: Mock;
}

/** A controller of a datacenter that is alone, with a drone; on the database that is named, another one. */
async function openAlone(databaseUrl?: string): Promise<Alone> {
  const keys = await openKeys(databaseUrl === undefined ? {} : { databaseUrl });
  const drone = await aDrone(keys.store.general);
  const onResolved = vi.fn();
  const service = createReservationService({
    ...keys,
    onResolved,
    reservations: createPostgresReservationStore(keys.store),
    peers: { names: [], get: () => undefined },
  });
  return { ...keys, service, drone, onResolved };
}

/** The statements that a call sends, each of which is a round trip. */
async function tripsOf(call: () => Promise<unknown>): Promise<readonly string[]> {
  const sent = watchStatements();
  await sent.within(call);
  return sent.texts;
}

async function reservationsOf({ store }: Keys): Promise<object[]> {
  return store.general.$queryRaw`
    select r.key, r.state, r.chain, r.activated_by as "by", r.reservation_id = h.reservation_id as "isFirst"
    from reservation r join reservation_home h on h.key = r.key`;
}

describe('connecting where one datacenter is alone', () => {
  test('a fresh key is reserved and made active by one statement, for its caller', async () => {
    const on = await openAlone();
    await connectAt(on, { key: keyNamed('warms up') });

    const trips = await tripsOf(() => connectAt(on));

    // The key's state; a drone; reserving; the grant with its backend.
    expect(trips).toHaveLength(4);
    expect(await reservationsOf(on)).toContainEqual({
      key: '["","demo"]',
      state: 'active',
      chain: [],
      by: CLIENT.actor,
      isFirst: true,
    });
  });

  test('a key that has run here is found by one statement, also after a restart: nothing is looked up or remembered', async () => {
    const on = await openAlone();
    const made = await connectAt(on);
    const restarted = await openAlone(on.databaseUrl);
    await connectAt(restarted, { key: keyNamed('warms up') });

    const answers: unknown[] = [];
    const connect = async (): Promise<void> => void answers.push(await connectAt(restarted));
    const [first, second] = [await tripsOf(connect), await tripsOf(connect)];

    expect(first).toHaveLength(1);
    expect(second).toHaveLength(1);
    expect(restarted.onResolved).not.toHaveBeenCalled();
    for (const answer of answers) expect(answer).toEqual({ ...made, spawned: false });
  });

  test('a key that runs here is answered though a datacenter that does not exist is asked for; a fresh one is refused', async () => {
    const on = await openAlone();
    const made = await connectAt(on);

    expect(await connectAt(on, {}, 'dc9')).toEqual({ ...made, spawned: false });
    await expect(connectAt(on, { key: keyNamed('fresh') }, 'dc9')).rejects.toMatchObject({
      code: 'reservation.unknown_datacenter',
    });
    expect(await reservationsOf(on)).toHaveLength(1);
  });

  test('a key whose last holder released it is granted by one statement too', async () => {
    const on = await openAlone();
    const ended = await connectAt(on);
    await on.keys.report(reportOf(on.drone, ended.backendId, 'terminated'));

    // The key's state; a drone; the grant with its backend.
    expect(await tripsOf(() => connectAt(on))).toHaveLength(3);
  });

  test('C61 a restored database starts no backend until it knows which keys have left', async () => {
    const on = await openAlone();
    await checkEpoch(on.store.general, 1_000);
    await on.service.reserve({ key: ['', 'demo'] });
    await connectAt(on, { key: keyNamed('warms up') });
    await on.store.general.$executeRaw`
      update reservation_membership set store_id = 'an etcd', synced_epoch = 0`;

    await expect(connectAt(on)).rejects.toMatchObject({ code: 'reservation.store_unreachable' });
  });

  test('a key that was reserved before anybody used it becomes active with its first connect', async () => {
    const on = await openAlone();
    const { reservationId } = await on.service.reserve({ key: ['', 'demo'] });
    expect(await reservationsOf(on)).toEqual([]);

    const { spawned } = await connectAt(on);

    expect(spawned).toBe(true);
    expect(await on.service.resolve({ key: ['', 'demo'] })).toMatchObject({ reservationId });
    expect(await reservationsOf(on)).toHaveLength(1);
  });

  test('of two controllers that reserve a fresh key at once, one makes its home, and both use it', async () => {
    const one = await openAlone();
    const two = await openAlone(one.databaseUrl);

    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => connectAt(index % 2 === 0 ? one : two)),
    );

    expect(new Set(answers.map(({ backendId }) => backendId)).size).toBe(1);
    expect(await reservationsOf(one)).toHaveLength(1);
  });
});
