import { describe, expect, test } from 'vitest';
import { setDraining } from '../fleet/sql/drones.ts';
import { connectAt, openDatacenters, type TestDatacenter } from '../testing/datacenters-fixture.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { keyNamed, openKeys } from '../testing/keys-fixture.ts';
import { createReservationService } from './index.ts';
import { createPostgresReservationStore } from './reservation-store.ts';

const SPECIAL = { program: 'special', args: [], env: {} };
const PLAIN = { name: 'special', allowArgs: false, allowEnv: [] };

/** A drone that offers `special`. */
const offering = ({ name, store }: TestDatacenter, program: object = {}) =>
  aDrone(store.general, { datacenter: name, programs: [{ ...PLAIN, ...program }] });

describe('a fresh key lives where its program is offered', () => {
  test.each(['dc1', 'dc2', 'dc3'])(
    'asked for in %s, a program that only dc2 offers starts there',
    async (at) => {
      const world = await openDatacenters();
      const drone = await offering(world.get('dc2'));

      const made = await connectAt(world.get(at), { spawn: SPECIAL });

      expect(made).toMatchObject({ datacenter: 'dc2', droneId: drone.droneId, spawned: true });
      for (const one of world.all) {
        const { backendId } = await connectAt(one, { spawn: SPECIAL });
        expect(backendId).toBe(made.backendId);
      }
    },
  );

  test('this datacenter comes before others, the one that is named before this one', async () => {
    const world = await openDatacenters();
    for (const one of world.all) await offering(one);
    const at = world.get('dc2');

    const here = await connectAt(at, { spawn: SPECIAL, key: keyNamed('here') });
    const named = await connectAt(at, { spawn: SPECIAL, key: keyNamed('named') }, 'dc3');

    expect([here.datacenter, named.datacenter]).toEqual(['dc2', 'dc3']);
  });

  test('in a datacenter whose drone takes its arguments', async () => {
    const world = await openDatacenters();
    await offering(world.get('dc1'));
    await offering(world.get('dc2'), { allowArgs: true });
    const spawn = { ...SPECIAL, args: ['--fast'] };

    expect(await connectAt(world.get('dc1'), { spawn })).toMatchObject({ datacenter: 'dc2' });
    await expect(
      connectAt(world.get('dc1'), { spawn: { ...spawn, env: { A: 'a' } }, key: keyNamed('no') }),
    ).rejects.toMatchObject({ code: 'spawn.not_allowed' });
    expect(await world.reservations.read(['', 'no'])).toBeUndefined();
  });

  test('not where all its drones are drained', async () => {
    const world = await openDatacenters();
    const leaving = await offering(world.get('dc1'));
    await offering(world.get('dc3'));
    await setDraining(world.get('dc1').store.general, leaving.droneId, true);

    expect(await connectAt(world.get('dc1'), { spawn: SPECIAL })).toMatchObject({
      datacenter: 'dc3',
    });
  });

  test('a datacenter that cannot be asked is passed over, and named in the refusal', async () => {
    const world = await openDatacenters();
    await offering(world.get('dc2'));
    world.cut('dc2');

    await expect(connectAt(world.get('dc1'), { spawn: SPECIAL })).rejects.toMatchObject({
      code: 'spawn.no_drone',
      message: expect.stringContaining('Not known: what is offered in dc2') as string,
      details: { program: 'special', unknown: ['dc2'] },
    });
    expect(await world.reservations.read(['', 'demo'])).toBeUndefined();
  });
});

describe('a program that is offered nowhere', () => {
  test.each([undefined, 'dc1', 'dc2'])(
    'reserves nothing, whether the connect names %s',
    async (named) => {
      const world = await openDatacenters();
      const connect = (change: object = {}) =>
        connectAt(world.get('dc1'), { spawn: SPECIAL, ...change }, named);

      const calls: string[] = [];
      world.outside = { before: ({ what }) => void calls.push(what), after: () => undefined };

      for (const key of [undefined, keyNamed('demo')]) {
        await expect(connect({ key })).rejects.toMatchObject({
          code: 'spawn.no_drone',
          retryable: true,
          message: expect.stringContaining('offers the program "special" now') as string,
          details: { program: 'special', offered: ['room'] },
        });
      }

      expect(calls).not.toContain('put');
      await offering(world.get(named ?? 'dc2'));
      expect(await connect()).toMatchObject({ datacenter: named ?? 'dc2', spawned: true });
    },
  );

  test('in the datacenter that is named is refused, and the refusal says where it is offered', async () => {
    const world = await openDatacenters();
    await offering(world.get('dc1'));
    await offering(world.get('dc3'));

    await expect(connectAt(world.get('dc1'), { spawn: SPECIAL }, 'dc2')).rejects.toMatchObject({
      code: 'spawn.no_drone',
      details: { program: 'special', datacenter: 'dc2', offeredIn: ['dc1', 'dc3'] },
    });
    expect(await world.reservations.read(['', 'demo'])).toBeUndefined();
  });

  test('reserves nothing where one datacenter is alone, and starts as soon as a drone offers it', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const service = createReservationService({
      ...on,
      reservations: createPostgresReservationStore(on.store),
      peers: { names: [], get: () => undefined },
    });

    await expect(connectAt({ service }, { spawn: SPECIAL })).rejects.toMatchObject({
      code: 'spawn.no_drone',
    });
    expect(await on.store.general.$queryRaw`select 1 from reservation_home`).toEqual([]);

    await aDrone(on.store.general, { programs: [PLAIN] });
    expect(await connectAt({ service }, { spawn: SPECIAL })).toMatchObject({ spawned: true });
  });
});

test('a key whose home has no such drone any more is refused everywhere, with its home and what moves it', async () => {
  const world = await openDatacenters();
  await offering(world.get('dc2'));
  await world.get('dc1').service.reserve({ key: ['', 'demo'] });

  for (const [at, named] of [['dc1'], ['dc2'], ['dc3', 'dc2']] as const) {
    await expect(connectAt(world.get(at), { spawn: SPECIAL }, named)).rejects.toMatchObject({
      code: 'spawn.no_drone',
      message: expect.stringMatching(
        /lives in "dc1".*reservations move .* --to-datacenter dc2/u,
      ) as string,
      details: { program: 'special', datacenter: 'dc1', offeredIn: ['dc2'] },
    });
  }
});

test.each([
  ['a key that has a home', undefined, 'lives in "dc1"'],
  ['a fresh key whose home is named', 'dc1', 'The key was given no home'],
])(
  'a datacenter that cannot read what it offers still says why %s is refused elsewhere',
  async (_what, named, said) => {
    const world = await openDatacenters();
    await offering(world.get('dc2'));
    if (named === undefined) await world.get('dc1').service.reserve({ key: ['', 'demo'] });
    const at = world.get('dc3');
    await at.store.general.$executeRaw`alter table drone rename to unreadable`;

    await expect(connectAt(at, { spawn: SPECIAL }, named)).rejects.toMatchObject({
      code: 'spawn.no_drone',
      message: expect.stringContaining(said) as string,
      details: { program: 'special', datacenter: 'dc1', offeredIn: ['dc2'] },
    });
  },
);
