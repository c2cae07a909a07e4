import { describe, expect, test } from 'vitest';
import {
  connectAt,
  openDatacenters,
  type OutsideCall,
  type TestDatacenters,
} from '../testing/datacenters-fixture.ts';
import { OPERATOR, rowCounts } from '../testing/keys-fixture.ts';
import { homesOf, move, sendHeartbeats, visit } from '../testing/moving/moving-fixture.ts';

describe('moving a key', () => {
  test('C61 the key lives in the new datacenter, with a greater token, and the old one no longer grants it', async () => {
    const world = await openDatacenters();
    const old = await visit(world, world.get('dc1'));

    const moved = await move(world.get('dc1'), 'dc2');
    const next = await visit(world, world.get('dc3'));

    expect(moved).toMatchObject({ datacenter: 'dc2' });
    expect(moved.chain).toHaveLength(2);
    expect(next.datacenter).toBe('dc2');
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(old.fencingToken));
    expect(await homesOf(world, 'demo')).toEqual(['dc2']);
    const lists = await Promise.all(
      world.all.map(({ keys }) => keys.list({ limit: 10 }, OPERATOR)),
    );
    expect(lists.map(({ items }) => items.length)).toEqual([0, 1, 0]);
  });

  test('C61 the token is greater though the clock of the new datacenter is far behind', async () => {
    const world = await openDatacenters();
    const dc1 = world.get('dc1');
    const old = await visit(world, dc1);
    const ahead = (BigInt(old.fencingToken) + 1_000_000_000n).toString();
    await dc1.store.general.$executeRaw`
      update lease set fencing_token = ${ahead}::bigint where face = 'key' and name = 'demo'`;

    await move(dc1, 'dc2');
    const next = await visit(world, world.get('dc2'));

    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(ahead));
  });

  test('works through any datacenter: the key’s own carries it out', async () => {
    const world = await openDatacenters();
    await visit(world, world.get('dc1'));

    const moved = await move(world.get('dc3'), 'dc2');

    expect(moved.chain.map((id) => id.split('.')[0])).toEqual(['dc1', 'dc2']);
    expect((await visit(world, world.get('dc3'))).datacenter).toBe('dc2');
  });

  test('a held key stays where it is, and the refusal says for how long', async () => {
    const world = await openDatacenters();
    const held = await connectAt(world.get('dc1'));

    await expect(move(world.get('dc1'), 'dc2')).rejects.toMatchObject({
      code: 'reservation.key_held',
      retryable: true,
      details: { holder: world.get('dc1').drone.droneId },
    });

    expect(await connectAt(world.get('dc2'))).toMatchObject({ backendId: held.backendId });
    expect(await world.reservations.readPointer(await firstOf(world))).toBeUndefined();
  });

  test('a key that ran out moves, and its backend is recorded as lost', async () => {
    const world = await openDatacenters();
    const dc1 = world.get('dc1');
    const old = await connectAt(dc1);
    await dc1.store.general.$executeRaw`
      update lease set expires_at = clock_timestamp() - interval '1 second' where face = 'key'`;

    await move(dc1, 'dc2');

    const [backend] = await dc1.store.general.$queryRaw<{ status: string; reason: string }[]>`
      select status, reason from backend where id = ${old.backendId}`;
    expect(backend).toEqual({ status: 'terminated', reason: 'drone_lost' });
    expect((await connectAt(dc1)).datacenter).toBe('dc2');
  });

  test.each([
    ['to where it lives', 'dc1', 'reservation.same_datacenter'],
    ['to a datacenter that nobody knows', 'dc9', 'reservation.unknown_datacenter'],
  ])('is refused %s', async (_what, toDatacenter, code) => {
    const world = await openDatacenters(['dc1', 'dc2']);
    await visit(world, world.get('dc1'));

    await expect(move(world.get('dc1'), toDatacenter)).rejects.toMatchObject({ code });
    await expect(move(world.get('dc2'), toDatacenter)).rejects.toMatchObject({ code });
  });

  test('is refused for a key that nobody reserved, and to an unreachable datacenter', async () => {
    const world = await openDatacenters();
    await visit(world, world.get('dc1'));

    await expect(move(world.get('dc1'), 'dc2', 'other')).rejects.toMatchObject({
      code: 'reservation.not_found',
    });
    world.cut('dc2');
    await expect(move(world.get('dc1'), 'dc2')).rejects.toMatchObject({
      code: 'reservation.datacenter_unreachable',
      details: { datacenter: 'dc2' },
    });
    expect(await homesOf(world, 'demo')).toEqual(['dc1']);
  });

  test('of two moves at once the first pointer wins, and the other move is refused', async () => {
    const world = await openDatacenters();
    for (let round = 0; round < 5; round += 1) {
      const name = `both-${String(round)}`;
      await visit(world, world.get('dc1'), name);

      const outcomes = await Promise.allSettled([
        move(world.get('dc1'), 'dc2', name),
        move(world.get('dc1'), 'dc3', name),
      ]);

      const won = outcomes.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
      const lost = outcomes.flatMap((one): unknown[] =>
        one.status === 'rejected' ? [one.reason] : [],
      );
      expect(won).toHaveLength(1);
      expect(lost).toMatchObject([{ code: 'reservation.moved_meanwhile' }]);
      expect(await homesOf(world, name)).toEqual([won[0]?.datacenter]);
    }
  });

  test('C43 1 -> 2 -> 1 -> 3: no loop, and a datacenter that knew only the first home finds the last', async () => {
    const world = await openDatacenters();
    const dc1 = world.get('dc1');
    await visit(world, dc1);
    // These two know of no move.
    await visit(world, world.get('dc2'));
    await visit(world, world.get('dc3'));
    const tokens = [];
    for (const to of ['dc2', 'dc1', 'dc3']) {
      await move(dc1, to);
      tokens.push((await visit(world, dc1)).fencingToken);
    }

    for (const at of world.all) expect((await visit(world, at)).datacenter).toBe('dc3');
    world.restart();
    for (const at of world.all) expect((await visit(world, at)).datacenter).toBe('dc3');

    const detail = await world.get('dc2').service.get({ key: ['', 'demo'] });
    expect(detail?.links.map(({ datacenter, state }) => `${datacenter} ${state}`)).toEqual([
      'dc1 moved',
      'dc2 moved',
      'dc1 moved',
      'dc3 active',
    ]);
    expect(tokens.map(BigInt)).toEqual(tokens.map(BigInt).toSorted((a, b) => (a < b ? -1 : 1)));
  });

  test('C43 pointers are remembered: the second connect goes straight to the new home', async () => {
    const world = await openDatacenters();
    await visit(world, world.get('dc1'));
    await visit(world, world.get('dc3'));
    await move(world.get('dc1'), 'dc2');
    const calls: OutsideCall[] = [];
    world.outside = { before: (call) => calls.push(call), after: () => undefined };

    await visit(world, world.get('dc3'));
    const first = calls.splice(0).filter(({ from }) => from === 'dc3');
    await visit(world, world.get('dc3'));
    const second = calls.filter(({ from }) => from === 'dc3');

    // Once to the old home, which answers with the pointer, and once to the new one.
    expect(first.map(({ what }) => what)).toEqual(['connect', 'connect']);
    expect(second.map(({ what }) => what)).toEqual(['connect']);
  });

  test('C43 a request with a reservation that was left gets its pointer, though the key is back', async () => {
    const world = await openDatacenters();
    const dc1 = world.get('dc1');
    await visit(world, dc1);
    const first = await firstOf(world);
    await move(dc1, 'dc2');
    await move(dc1, 'dc1');

    const status = await dc1.service.reservationStatus(first, ['', 'demo']);

    expect(status).toMatchObject({
      standing: 'moved',
      left: { by: 'operator', reason: 'nearer' },
    });
    expect(await homesOf(world, 'demo')).toEqual(['dc1']);
  });

  test('C61 a connect that read the key before the move and asks for a grant after it reaches the new home', async () => {
    const world = await openDatacenters();
    const dc1 = world.get('dc1');
    await visit(world, dc1);
    let movedCount = 0;
    world.beforeGrant = async () => {
      world.beforeGrant = undefined;
      await move(dc1, 'dc2');
      movedCount += 1;
    };

    const connected = await connectAt(dc1);

    expect(movedCount).toBe(1);
    expect(connected).toMatchObject({ datacenter: 'dc2', spawned: true });
    expect(await rowCounts(dc1)).toMatchObject({ backends: 1 });
  });

  test('a list of strings that names no key moves too', async () => {
    const world = await openDatacenters();
    const key = ['tenant', 'shard', '7'];
    await world.get('dc1').service.reserve({ key });

    const moved = await world
      .get('dc1')
      .service.move({ key, toDatacenter: 'dc3', reason: 'nearer' }, OPERATOR);

    const found = await world.get('dc2').service.resolve({ key, isFresh: true });
    expect(found).toEqual({ outcome: 'found', ...moved });
  });
});

describe('a second controller of the old home, which remembers that the key lives here', () => {
  test('answers others that it has moved', async () => {
    const { world, second, first } = await aSecondController();
    await move(world.get('dc1'), 'dc2');

    const status = await second.service.reservationStatus(first, ['', 'demo']);

    expect(status).toMatchObject({ standing: 'moved', pointer: { fromId: first } });
  });

  test('moves it back from where it is', async () => {
    const { world, second } = await aSecondController();
    await move(world.get('dc1'), 'dc2');

    expect(await move(second, 'dc1')).toMatchObject({ datacenter: 'dc1' });
    expect(await homesOf(world, 'demo')).toEqual(['dc1']);
  });

  test('has moved it too when both carry out the same move at once', async () => {
    const { world, second } = await aSecondController();
    const dc2 = world.get('dc2');
    const { service } = dc2;
    let askedCount = 0;
    let goOn = (): void => undefined;
    const bothAsk = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    dc2.service = {
      ...service,
      // Neither leaves before the other one has found the key here.
      reservationStatus: async (...question) => {
        askedCount += 1;
        if (askedCount === 2) goOn();
        await bothAsk;
        return service.reservationStatus(...question);
      },
    };

    const [one, other] = await Promise.all([move(world.get('dc1'), 'dc2'), move(second, 'dc2')]);

    expect(other).toEqual(one);
    expect(await homesOf(world, 'demo')).toEqual(['dc2']);
  });
});

describe('a chain', () => {
  test('is shown as far as it is known when one of its datacenters is unreachable or unknown', async () => {
    const world = await openDatacenters();
    await visit(world, world.get('dc1'));
    await move(world.get('dc1'), 'dc2');
    await visit(world, world.get('dc3'));
    world.cut('dc2');
    const elsewhere = `dc9.${world.get('dc1').store.ids.uuid()}`;
    await world.reservations.put(['', 'strange'], elsewhere);

    const known = await world.get('dc3').service.get({ key: ['', 'demo'] });
    const strange = await world.get('dc3').service.get({ key: ['', 'strange'] });

    expect(known?.links.map(({ datacenter, state }) => `${datacenter} ${state}`)).toEqual([
      'dc1 moved',
      'dc2 unreachable',
    ]);
    expect(strange?.links).toMatchObject([{ datacenter: 'dc9', state: 'unreachable' }]);
  });
});

describe('a move that is cut short', () => {
  test('at every call that leaves a controller, before it and after it: one home, found by all, and the move can be asked for again', async () => {
    const world = await openDatacenters();
    const calls: OutsideCall[] = [];
    await visit(world, world.get('dc1'), 'counted');
    world.outside = { before: (call) => calls.push(call), after: () => undefined };
    await move(world.get('dc1'), 'dc2', 'counted');
    world.outside = undefined;
    const places = new Set<string>();

    for (let step = 0; step < calls.length; step += 1) {
      for (const when of ['before', 'after'] as const) {
        const name = `${when}-${String(step)}`;
        await sendHeartbeats(world);
        const old = await visit(world, world.get('dc1'), name);
        crashAt(world, step, when);

        await expect(move(world.get('dc1'), 'dc2', name)).rejects.toThrow('crash');

        world.outside = undefined;
        world.restart();
        const homes = await homesOf(world, name);
        expect(homes.length, `${name}: ${JSON.stringify(calls[step])}`).toBeLessThanOrEqual(1);
        const next = await visit(world, world.get('dc3'), name);
        expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(old.fencingToken));
        expect(await homesOf(world, name)).toEqual([next.datacenter]);
        places.add(next.datacenter);
        await move(world.get('dc1'), 'dc2', name).catch((error: unknown) => {
          expect(error).toMatchObject({ code: 'reservation.same_datacenter' });
        });
        expect((await visit(world, world.get('dc1'), name)).datacenter).toBe('dc2');
      }
    }
    // Some crashes were before the key had left, and some after.
    expect([...places].toSorted()).toEqual(['dc1', 'dc2']);
  });
});

/** Ends the controllers at an outside call: nothing they do afterwards counts. */
function crashAt(world: TestDatacenters, step: number, when: 'before' | 'after'): void {
  let isOver = false;
  const dieAt = (moment: 'before' | 'after') => (call: OutsideCall) => {
    isOver ||= moment === when && call.number === step;
    if (isOver) throw new Error('crash');
  };
  world.outside = { before: dieAt('before'), after: dieAt('after') };
}

/** A key in dc1, which two controllers there remember. */
async function aSecondController() {
  const world = await openDatacenters();
  const dc1 = world.get('dc1');
  await visit(world, dc1);
  const first = await firstOf(world);
  const second = { ...dc1 };
  world.restart();
  for (const { service } of [dc1, second]) await service.reservationStatus(first, ['', 'demo']);
  return { world, second, first };
}

async function firstOf(world: TestDatacenters, name = 'demo'): Promise<string> {
  return (await world.reservations.read(['', name])) ?? '';
}
