import { expect, test } from 'vitest';
import { type ErrorCode, LeaseError } from '../kernel/errors.ts';
import { LIMITS } from '../kernel/limits.ts';
import {
  connectAt,
  openDatacenters,
  type TestDatacenters,
} from '../testing/datacenters-fixture.ts';
import { UNAUDITED } from '../testing/kernel-fixture.ts';
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

/** The moves of the key in the audits of all datacenters, such as `dc1: operator to dc2`. */
async function auditedIn({ all }: TestDatacenters): Promise<string[]> {
  const lines = await Promise.all(
    all.map(async ({ name, store }) => {
      const rows = await store.general.$queryRaw<{ line: string }[]>`
        select concat_ws(' to ', actor, detail ->> 'toDatacenter') as line
        from audit where action = 'reservations.move' and resource = 'key:/demo' order by id`;
      return rows.map(({ line }) => `${name}: ${line}`);
    }),
  );
  return lines.flat();
}

/** From now on calls that ask for this fail, as when nobody answers. */
function breakCalls(world: TestDatacenters, what: string, code: ErrorCode): void {
  world.outside = {
    before: (call) => {
      if (call.what === what) throw new LeaseError(code);
    },
    after: () => undefined,
  };
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

test('a move is in the audit once where it was asked for, and once where the key has left', async () => {
  const world = await openDatacenters(['dc1', 'dc2', 'dc3']);
  await aFreeKey(world);

  await moveTo(world, 'dc3', 'dc2');
  await moveTo(world, 'dc2', 'dc1');

  expect(await auditedIn(world)).toEqual([
    'dc1: operator to dc2',
    'dc2: operator to dc1',
    'dc3: operator to dc2',
  ]);
});

test.each<[string, string, string[]]>([
  ['its home', 'dc1', ['dc1: operator to dc2']],
  ['another datacenter', 'dc3', ['dc1: operator to dc2', 'dc3: operator to dc2']],
])(
  'a move that is asked for in %s, and finished by a connect after it was cut short, is in the audit',
  async (_what, asked, lines) => {
    const world = await openDatacenters(['dc1', 'dc2', 'dc3']);
    await aFreeKey(world);
    breakCalls(world, 'putPointer', 'reservation.store_unreachable');

    await expect(moveTo(world, asked, 'dc2')).rejects.toMatchObject({
      code: 'reservation.move_unfinished',
    });
    world.outside = undefined;
    const connected = await connectAt(world.get('dc1'), { key: keyNamed('demo') });

    expect(connected.datacenter).toBe('dc2');
    expect(await auditedIn(world)).toEqual(lines);
  },
);

test.each([[['', 'demo']], [['tenant', 'shard', '7']]])(
  'a move of %j that the home of the key cannot record is not made',
  async (key) => {
    const world = await openDatacenters(['dc1', 'dc2']);
    const { service } = world.get('dc1');
    await service.reserve({ key });
    const input = { key, toDatacenter: 'dc2', reason: 'nearer' };

    await expect(service.move(input, OPERATOR, UNAUDITED.source)).rejects.toThrow();
    await expect(service.moveHere(input, OPERATOR, UNAUDITED.source)).rejects.toThrow();

    expect(await service.resolve({ key, isFresh: true })).toMatchObject({ datacenter: 'dc1' });
    expect(await service.move(input, OPERATOR)).toMatchObject({ datacenter: 'dc2' });
  },
);

test('a move that the datacenter which was asked cannot record is reported as one that may have been made', async () => {
  const world = await openDatacenters(['dc1', 'dc2', 'dc3']);
  await aFreeKey(world);
  const input = { key: ['', 'demo'], toDatacenter: 'dc2', reason: 'nearer' };

  const asked = world.get('dc3').service.move(input, OPERATOR, UNAUDITED.source);

  await expect(asked).rejects.toMatchObject({
    code: 'request.outcome_unknown',
    details: { datacenter: 'dc2' },
  });
  expect(await auditedIn(world)).toEqual(['dc1: operator to dc2']);
});

test.each(['answers', 'does not answer'])(
  'a move out of a datacenter that was given up is in the audit once, though its new home %s',
  async (what) => {
    const world = await openDatacenters(['dc1', 'dc2', 'dc3']);
    await aFreeKey(world);
    world.giveUp('dc1');
    if (what === 'does not answer') {
      breakCalls(world, 'reservationStatus', 'reservation.datacenter_unreachable');
    }

    const moved = await moveTo(world, 'dc2', 'dc3').catch((error: unknown) => error);

    expect(moved).toMatchObject(
      what === 'answers' ? { datacenter: 'dc3' } : { code: 'reservation.move_unfinished' },
    );
    expect(await auditedIn(world)).toEqual(['dc2: operator to dc3']);
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
