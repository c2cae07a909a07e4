import { expect, test } from 'vitest';
import { LeaseError } from '../kernel/errors.ts';
import { LIMITS } from '../kernel/limits.ts';
import {
  connectAt,
  openDatacenters,
  type TestDatacenters,
} from '../testing/datacenters-fixture.ts';
import { keyNamed, OPERATOR, reportOf } from '../testing/keys-fixture.ts';
import type { Moved } from './reservation-types.ts';

function moveTo(world: TestDatacenters, from: string, toDatacenter: string): Promise<Moved> {
  const input = { key: ['', 'demo'], toDatacenter, reason: 'nearer' };
  return world.get(from).service.move(input, OPERATOR);
}

/** A key with a home in dc1, which nobody holds. */
async function aFreeKey(world: TestDatacenters): Promise<void> {
  const dc1 = world.get('dc1');
  const { backendId } = await connectAt(dc1, { key: keyNamed('demo') });
  await dc1.keys.report(reportOf(dc1.drone, backendId, 'terminated'));
}

test('a key does not move while its restored home holds off grants, and moves afterwards', async () => {
  const world = await openDatacenters(['dc1', 'dc2']);
  await aFreeKey(world);
  const { store } = world.get('dc1');
  await store.general.$executeRaw`
    update database_epoch set hold_off_until = clock_timestamp() + interval '50 seconds'`;

  await expect(moveTo(world, 'dc1', 'dc2')).rejects.toMatchObject({ code: 'grant.hold_off' });
  await store.general.$executeRaw`update database_epoch set hold_off_until = null`;

  await expect(moveTo(world, 'dc1', 'dc2')).resolves.toMatchObject({ datacenter: 'dc2' });
});

test.each([
  ['the reservation store', 'putPointer', 'reservation.store_unreachable'],
  ['the new home', 'reservationStatus', 'reservation.datacenter_unreachable'],
] as const)(
  'a move that loses %s after the key has left is refused as unfinished, and so is the same move again, until it completes',
  async (_what, what, reason) => {
    const world = await openDatacenters(['dc1', 'dc2', 'dc3']);
    await aFreeKey(world);
    const isLeft = (): Promise<object[]> => world.get('dc1').store.general.$queryRaw`
      select 1 from reservation where state = 'moved'`;
    let askedCount = 0;
    world.outside = {
      before: (call) => {
        if (call.what !== what || call.from !== 'dc1') return;
        askedCount += 1;
        // The first question to the new home is whether it is there.
        if (what === 'putPointer' || askedCount > 1) throw new LeaseError(reason);
      },
      after: () => undefined,
    };
    const unfinished = {
      code: 'reservation.move_unfinished',
      retryable: true,
      details: { datacenter: 'dc2' },
    };

    await expect(moveTo(world, 'dc3', 'dc2')).rejects.toMatchObject({
      ...unfinished,
      details: { datacenter: 'dc2', reason },
    });
    expect(await isLeft()).toHaveLength(1);
    world.outside = undefined;
    world.cut('dc2');
    await expect(moveTo(world, 'dc1', 'dc2')).rejects.toMatchObject(unfinished);

    world.heal('dc2');
    expect(await moveTo(world, 'dc1', 'dc2')).toMatchObject({ datacenter: 'dc2' });
  },
);

/** Each move is a dozen statements: a few seconds, and far longer on a machine that has other work. */
const MANY_MOVES_MS_MAX = 300_000;

test(
  'a key moves 64 times, is found by its first reservation, and moves no further',
  async () => {
    const world = await openDatacenters(['dc1', 'dc2']);
    await aFreeKey(world);

    for (let moves = 0; moves < LIMITS.reservationChainMax; moves += 1) {
      await (moves % 2 === 0 ? moveTo(world, 'dc1', 'dc2') : moveTo(world, 'dc2', 'dc1'));
    }

    await expect(moveTo(world, 'dc1', 'dc2')).rejects.toMatchObject({
      code: 'reservation.chain_too_long',
    });
    // No drone of a test goes on sending heartbeats, and so many moves may have taken longer than one lasts.
    await world.get('dc1').store.general.$executeRaw`
      update drone set heartbeat_at = clock_timestamp()`;
    expect(await connectAt(world.get('dc2'), { key: keyNamed('demo') })).toMatchObject({
      datacenter: 'dc1',
      spawned: true,
    });
  },
  MANY_MOVES_MS_MAX,
);
