import { describe, expect, test } from 'vitest';
import { LeaseError } from '../kernel/errors.ts';
import type { ConnectResult } from '../keys/key-types.ts';
import {
  connectAt,
  openDatacenters,
  type TestDatacenter,
  type TestDatacenters,
} from '../testing/datacenters-fixture.ts';
import { UNAUDITED } from '../testing/kernel-fixture.ts';
import { OPERATOR, reportOf } from '../testing/keys-fixture.ts';
import { move, visit } from '../testing/moving/moving-fixture.ts';
import { NONE_GIVEN_UP } from './given-up.ts';
import { createReservationService } from './index.ts';
import type { PendingMove } from './reservation-types.ts';

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
): Promise<PendingMove> {
  const move = { key: KEY, reservationId, toDatacenter, reason: 'nearer', waitsFor };
  return home.service.requestMove(move, OPERATOR);
}

/** Ends the backend, so that its key is free. */
async function end(home: TestDatacenter, { backendId }: ConnectResult): Promise<void> {
  await home.keys.report(reportOf(home.drone, backendId, 'terminated'));
}

/** Runs a round of the job. @returns what is left of the request. */
async function afterRound(
  { service }: TestDatacenter,
  reservationId: string,
): Promise<PendingMove | null> {
  await service.carryOutMoves(signal);
  return service.pendingMove({ key: KEY, reservationId });
}

/** What was done here, by the audit. */
async function auditedAt({ store }: TestDatacenter): Promise<string[]> {
  const rows = await store.general.$queryRaw<{ line: string }[]>`
    select concat_ws(' ', actor, action, resource, detail ->> 'toDatacenter', reason) as line
    from audit order by id`;
  return rows.map(({ line }) => line);
}

async function livesIn(world: TestDatacenters): Promise<string> {
  return (await homeOf(world.get('dc3'))).datacenter;
}

/** Requests for more keys like the one that is requested to move, each before it. */
async function copyRequest({ store }: TestDatacenter, count: number): Promise<void> {
  await store.general.$executeRaw`
    insert into lease
    select (jsonb_populate_record(l, jsonb_build_object(
      'name', 'copy' || i, 'lease_id', gen_random_uuid(), 'home_reservation', 'dc1.copy' || i))).*
    from lease l, generate_series(1, ${count}) i`;
  await store.general.$executeRaw`
    insert into reservation
    select (jsonb_populate_record(r, jsonb_build_object(
      'key', '["","copy' || i || '"]', 'name', 'copy' || i, 'reservation_id', 'dc1.copy' || i,
      'move_asked_at', r.move_asked_at - interval '1 minute',
      'move_waits_for', case when r.move_waits_for is not null then l.lease_id end))).*
    from reservation r, generate_series(1, ${count}) i, lease l
    where l.name = 'copy' || i`;
}

describe('a requested move', () => {
  test('waits for the grant of the key to end, and is then carried out', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await requestMove(home, reservationId, held.leaseId);

    expect(await afterRound(home, reservationId)).toMatchObject({
      toDatacenter: 'dc2',
      askedBy: OPERATOR.actor,
      reason: 'nearer',
      failure: null,
      heldBy: { leaseId: held.leaseId },
    });
    expect(await livesIn(world)).toBe('dc1');

    await end(home, held);
    expect(await afterRound(home, reservationId)).toBeNull();
    expect(await livesIn(world)).toBe('dc2');
  });

  test('is carried out by another controller when the one that got the request has ended', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await requestMove(home, reservationId, held.leaseId);
    await end(home, held);
    world.restart();

    await home.service.carryOutMoves(signal);

    expect(await livesIn(world)).toBe('dc2');
  });

  test.each(['the store', 'dc2'])(
    'that was cut short after the key had left, because %s did not answer, arrives in a later round',
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
      const left = await home.store.general.$queryRaw<{ state: string }[]>`
        select state from reservation where reservation_id = ${reservationId}`;
      expect(left).toEqual([{ state: 'moved' }]);
      world.heal(away);

      expect(await afterRound(home, reservationId)).toBeNull();
      const there = await world.get('dc2').store.general.$queryRaw<{ state: string }[]>`
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

  test('that was cancelled is not carried out when the key is free', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await requestMove(home, reservationId, held.leaseId);
    const ref = { key: KEY, reservationId };

    expect(await home.service.cancelMove(ref, OPERATOR)).toBe(true);
    expect(await home.service.cancelMove(ref, OPERATOR)).toBe(false);
    await end(home, held);

    expect(await afterRound(home, reservationId)).toMatchObject({ failure: 'cancelled' });
    expect(await livesIn(world)).toBe('dc1');
  });

  test('is answered with what was recorded, and in the audit once, also when it is carried out', async () => {
    const { home, held, reservationId } = await aHeldKey();

    expect(await requestMove(home, reservationId, held.leaseId)).toMatchObject({
      reservationId,
      toDatacenter: 'dc2',
      failure: null,
      heldBy: { leaseId: held.leaseId },
    });
    await end(home, held);

    expect(await afterRound(home, reservationId)).toBeNull();
    expect(await auditedAt(home)).toEqual(['operator reservations.move key:/demo dc2 nearer']);
  });

  test('that cannot be recorded is not asked for', async () => {
    const { home, held, reservationId } = await aHeldKey();
    const ref = { key: KEY, reservationId };
    const move = { ...ref, toDatacenter: 'dc2', reason: 'nearer', waitsFor: held.leaseId };

    const asked = home.service.requestMove(move, OPERATOR, UNAUDITED.source);

    await expect(asked).rejects.toThrow();
    expect(await home.service.pendingMove(ref)).toBeNull();
  });

  test('goes on while its cancellation cannot be recorded, and one that is cancelled has a line of that', async () => {
    const { home, held, reservationId } = await aHeldKey();
    const ref = { key: KEY, reservationId };
    await requestMove(home, reservationId, held.leaseId);

    await expect(home.service.cancelMove(ref, OPERATOR, UNAUDITED.source)).rejects.toThrow();
    expect(await home.service.pendingMove(ref)).toMatchObject({ failure: null });

    for (const isCancelled of [true, false]) {
      expect(await home.service.cancelMove(ref, OPERATOR)).toBe(isCancelled);
    }
    expect(await auditedAt(home)).toEqual([
      'operator reservations.move key:/demo dc2 nearer',
      'operator reservations.cancelMove key:/demo',
    ]);
  });

  test('is replaced by a later request for the same key', async () => {
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

  test.each(['held keys', 'a datacenter that does not answer'])(
    'is not delayed by a page of earlier ones that wait for %s',
    async (what) => {
      const { world, home, held, reservationId } = await aHeldKey();
      if (what === 'held keys') {
        await requestMove(home, reservationId, held.leaseId, 'dc3');
        await copyRequest(home, 1_000);
        await end(home, held);
      } else {
        await end(home, held);
        await requestMove(home, reservationId, null, 'dc3');
        await copyRequest(home, 1_000);
        await home.store.general.$executeRaw`
          update reservation set move_to = 'dc2' where name like 'copy%'`;
        world.cut('dc2');
      }

      expect(await afterRound(home, reservationId)).toBeNull();
      expect(await livesIn(world)).toBe('dc3');
    },
  );
});

/** Does something at one question to a datacenter, before it answers: 1 is whether it is there. */
function atQuestion(at: TestDatacenter, number: number, act: () => Promise<unknown>): void {
  const { service } = at;
  let asked = 0;
  at.service = {
    ...service,
    reservationStatus: async (...question) => {
      asked += 1;
      if (asked === number) await act();
      return service.reservationStatus(...question);
    },
  };
}

describe('a requested move that is being carried out', () => {
  test('leaves the key where it is when it is cancelled before the key has left', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await end(home, held);
    await requestMove(home, reservationId, null);
    const cancelled: boolean[] = [];
    atQuestion(world.get('dc2'), 1, async () => {
      cancelled.push(await home.service.cancelMove({ key: KEY, reservationId }, OPERATOR));
    });

    expect(await afterRound(home, reservationId)).toMatchObject({ failure: 'cancelled' });
    expect(cancelled).toEqual([true]);
    expect(await livesIn(world)).toBe('dc1');
  });

  test('goes on to where a later request wants it, which replaces it before the key has left', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await end(home, held);
    await requestMove(home, reservationId, null, 'dc2');
    atQuestion(world.get('dc2'), 1, () => requestMove(home, reservationId, null, 'dc3'));

    expect(await afterRound(home, reservationId)).toMatchObject({
      toDatacenter: 'dc3',
      failure: null,
    });
    expect(await livesIn(world)).toBe('dc1');
    expect(await afterRound(home, reservationId)).toBeNull();
    expect(await livesIn(world)).toBe('dc3');
  });

  test('can no longer be cancelled when the key has left', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await end(home, held);
    await requestMove(home, reservationId, null);
    const cancelled: boolean[] = [];
    atQuestion(world.get('dc2'), 2, async () => {
      cancelled.push(await home.service.cancelMove({ key: KEY, reservationId }, OPERATOR));
    });

    expect(await afterRound(home, reservationId)).toBeNull();
    expect(cancelled).toEqual([false]);
    expect(await livesIn(world)).toBe('dc2');
  });

  test('goes on after the key has left, whatever the new home answers at first', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await end(home, held);
    await requestMove(home, reservationId, null);
    atQuestion(world.get('dc2'), 2, () => Promise.reject(new LeaseError('reservation.conflict')));

    expect(await afterRound(home, reservationId)).toMatchObject({ failure: null });
    expect(await afterRound(home, reservationId)).toBeNull();
    expect(await livesIn(world)).toBe('dc2');
  });

  test('ends when the key has left otherwise, though it has come back', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await end(home, held);
    await requestMove(home, reservationId, null);
    await move(home, 'dc3');
    await move(home, 'dc1');

    expect(await afterRound(home, reservationId)).toMatchObject({
      failure: 'reservation.moved_meanwhile',
    });
    expect(await livesIn(world)).toBe('dc1');
  });

  test('has been carried out when the key has arrived, and has moved on before anybody noticed', async () => {
    const { world, home, held, reservationId } = await aHeldKey();
    await end(home, held);
    await requestMove(home, reservationId, null);
    const away = new LeaseError('reservation.datacenter_unreachable');
    atQuestion(world.get('dc2'), 2, () => Promise.reject(away));
    await home.service.carryOutMoves(signal);
    await visit(world, world.get('dc3'));
    await move(world.get('dc3'), 'dc3');

    expect(await afterRound(home, reservationId)).toBeNull();
    expect(await livesIn(world)).toBe('dc3');
  });
});

test.each([
  ['was given up', 'reservation.datacenter_given_up'],
  // Another controller may know it.
  ['this controller does not know', null],
] as const)('a requested move to a datacenter that %s ends with %s', async (what, failure) => {
  const { world, home, held, reservationId } = await aHeldKey();
  await end(home, held);
  await requestMove(home, reservationId, null);
  const givenUp = {
    datacenter: 'dc2',
    declaredAt: '2026-01-01T00:00:00.000Z',
    declaredBy: 'alice',
    declaredIn: 'dc1',
    reason: 'it burnt down',
    opened: null,
  };
  const isGivenUp = what === 'was given up';
  home.service = createReservationService({
    ...home,
    reservations: world.reservations,
    peers: { names: ['dc3'], get: () => undefined },
    givenUp: {
      ...NONE_GIVEN_UP,
      find: (datacenter) => (isGivenUp && datacenter === 'dc2' ? givenUp : undefined),
    },
  });

  expect(await afterRound(home, reservationId)).toMatchObject({ failure });
  expect(await livesIn(world)).toBe('dc1');
});
