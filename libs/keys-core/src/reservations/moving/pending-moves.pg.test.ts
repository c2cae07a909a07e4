import { describe, expect, test } from 'vitest';
import type { ConnectResult } from '../../keys/key-types.ts';
import {
  connectAt,
  openDatacenters,
  type TestDatacenter,
  type TestDatacenters,
} from '../../testing/datacenters-fixture.ts';
import { OPERATOR, reportOf } from '../../testing/keys-fixture.ts';
import type { PendingMove } from '../reservation-types.ts';

const KEY = ['', 'demo'];
const { signal } = new AbortController();

/** A key that somebody holds in dc1. */
async function aHeldKey() {
  const world = await openDatacenters();
  const home = world.get('dc1');
  const held = await connectAt(home);
  const { reservationId } = await homeOf(home);
  return { world, home, held, reservationId };
}

async function homeOf(at: TestDatacenter): Promise<{ reservationId: string; datacenter: string }> {
  const found = await at.service.resolve({ key: KEY, isFresh: true });
  if (found.outcome !== 'found') throw new Error('the test expected a home');
  return found;
}

function requestMove(
  home: TestDatacenter,
  reservationId: string,
  waitsFor: string | null,
  toDatacenter = 'dc2',
): Promise<void> {
  const move = { key: KEY, reservationId, toDatacenter, reason: 'nearer', waitsFor };
  return home.service.requestMove(move, OPERATOR);
}

/** The backend is gone, so that its key is free. */
async function end(home: TestDatacenter, { backendId }: ConnectResult): Promise<void> {
  await home.keys.report(reportOf(home.drone, backendId, 'terminated'));
}

/** What a round of the job leaves of the request. */
async function afterRound(
  { service }: TestDatacenter,
  reservationId: string,
): Promise<PendingMove | null> {
  await service.carryOutMoves(signal);
  return service.pendingMove({ key: KEY, reservationId });
}

async function livesIn(world: TestDatacenters): Promise<string> {
  return (await homeOf(world.get('dc3'))).datacenter;
}

describe('a move that was asked for', () => {
  test('waits for the holder of the key, and is made when that one has gone', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await requestMove(home, reservationId, held.leaseId);

    expect(await afterRound(home, reservationId)).toMatchObject({
      ...{ toDatacenter: 'dc2', askedBy: OPERATOR.actor, reason: 'nearer', failure: null },
      heldBy: { leaseId: held.leaseId },
    });
    expect(await livesIn(world)).toBe('dc1');

    await end(home, held);
    expect(await afterRound(home, reservationId)).toBeNull();
    expect(await livesIn(world)).toBe('dc2');
  });

  test('is carried out by another controller when the one that was asked has ended', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await requestMove(home, reservationId, held.leaseId);
    await end(home, held);
    world.restart();

    await home.service.carryOutMoves(signal);

    expect(await livesIn(world)).toBe('dc2');
  });

  test.each(['the store', 'dc2'])(
    'and was cut short after the key had left, because %s did not answer, arrives in a later round',
    async (away) => {
      const { world, home, held, reservationId } = await aHeldKey();
      await end(home, held);
      await requestMove(home, reservationId, null);
      world.outside = {
        before: () => undefined,
        // The target answers before the seal; what comes next is lost.
        after: ({ what, to }) => {
          if (what === 'reservationStatus' && to === 'dc2') world.cut(away);
        },
      };

      expect(await afterRound(home, reservationId)).toMatchObject({ failure: null });
      world.outside = undefined;
      const left = await home.store.prisma.$queryRaw<{ state: string }[]>`
        select state from reservation where reservation_id = ${reservationId}`;
      expect(left).toEqual([{ state: 'moved' }]);
      world.heal(away);

      expect(await afterRound(home, reservationId)).toBeNull();
      const there = await world.get('dc2').store.prisma.$queryRaw<{ state: string }[]>`
        select state from reservation where name = 'demo'`;
      expect(there).toEqual([{ state: 'active' }]);
    },
  );

  test('waits for a datacenter that does not answer, before the key has left', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await end(home, held);
    await requestMove(home, reservationId, null);
    world.cut('dc2');

    expect(await afterRound(home, reservationId)).toMatchObject({ failure: null });
    expect(await livesIn(world)).toBe('dc1');
    world.heal('dc2');
    expect(await afterRound(home, reservationId)).toBeNull();
  });

  test('ends when somebody else was granted the key first', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await requestMove(home, reservationId, held.leaseId);
    await end(home, held);
    await connectAt(home);

    expect(await afterRound(home, reservationId)).toMatchObject({
      failure: 'reservation.key_held',
    });
    expect(await livesIn(world)).toBe('dc1');
  });

  test('is cancelled, and is not made when the key is free', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await requestMove(home, reservationId, held.leaseId);
    const ref = { key: KEY, reservationId };

    expect(await home.service.cancelMove(ref)).toBe(true);
    expect(await home.service.cancelMove(ref)).toBe(false);
    await end(home, held);

    expect(await afterRound(home, reservationId)).toMatchObject({ failure: 'cancelled' });
    expect(await livesIn(world)).toBe('dc1');
  });

  test('gives way to a later one for the same key', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await requestMove(home, reservationId, held.leaseId, 'dc2');
    await requestMove(home, reservationId, held.leaseId, 'dc3');
    await end(home, held);

    expect(await afterRound(home, reservationId)).toBeNull();
    expect(await livesIn(world)).toBe('dc3');
  });

  test('is refused for a reservation that the key has left, and for its own datacenter', async () => {
    const { home, held, reservationId } = await aHeldKey();
    await expect(requestMove(home, reservationId, null, 'dc1')).rejects.toMatchObject({
      code: 'reservation.same_datacenter',
    });
    await end(home, held);
    await requestMove(home, reservationId, null);
    await home.service.carryOutMoves(signal);

    await expect(requestMove(home, reservationId, null)).rejects.toMatchObject({
      code: 'reservation.moved_meanwhile',
    });
  });
});
