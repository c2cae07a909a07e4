import { describe, expect, test } from 'vitest';
import { LIMITS } from '../kernel/limits.ts';
import { connectAt, openDatacenters } from '../testing/datacenters-fixture.ts';
import { keyNamed, OPERATOR, reportOf, rowCounts } from '../testing/keys-fixture.ts';

describe('connecting across datacenters', () => {
  test('C39 I14 twenty at once for a fresh key, from three datacenters: one home, one backend, the same for all', async () => {
    const world = await openDatacenters();
    for (let round = 0; round < 5; round += 1) {
      const key = keyNamed(`fresh-${String(round)}`);

      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) => {
          const at = world.all[index % world.all.length];
          if (at === undefined) throw new Error('no datacenter');
          return connectAt(at, { key });
        }),
      );

      expect(new Set(answers.map(({ backendId }) => backendId)).size).toBe(1);
      expect(new Set(answers.map(({ datacenter }) => datacenter)).size).toBe(1);
      expect(answers.filter(({ spawned }) => spawned)).toHaveLength(1);
    }
    const counts = await Promise.all(world.all.map(rowCounts));
    expect(counts.reduce((sum, one) => sum + (one['backends'] ?? 0), 0)).toBe(5);
  });

  test('a fresh key lives where it is asked for first, or where the caller says', async () => {
    const world = await openDatacenters();

    const here = await connectAt(world.get('dc2'), { key: keyNamed('here') });
    const there = await connectAt(world.get('dc2'), { key: keyNamed('there') }, 'dc3');

    expect(here.datacenter).toBe('dc2');
    expect(there).toMatchObject({ datacenter: 'dc3', spawned: true });
    expect(there.droneId).toBe(world.get('dc3').drone.droneId);
  });

  test('a key that has a home goes home, whatever datacenter is asked for later', async () => {
    const world = await openDatacenters();
    const first = await connectAt(world.get('dc1'));

    const again = await connectAt(world.get('dc2'), {}, 'dc3');

    expect(again).toMatchObject({ backendId: first.backendId, datacenter: 'dc1', spawned: false });
  });

  test('a key that has a home is answered though the datacenter that is asked for does not exist, also after a restart', async () => {
    const world = await openDatacenters(['dc1', 'dc2']);
    const first = await connectAt(world.get('dc1'));
    world.restart();

    const again = await connectAt(world.get('dc2'), {}, 'dc9');

    expect(again).toMatchObject({ backendId: first.backendId, datacenter: 'dc1', spawned: false });
  });

  test('a key that has a home is answered though the datacenter that is asked for is unreachable', async () => {
    const world = await openDatacenters();
    const first = await connectAt(world.get('dc1'));
    // What dc3 offers is known from now on.
    await connectAt(world.get('dc2'), { key: keyNamed('other') }, 'dc3');
    world.cut('dc3');

    const again = await connectAt(world.get('dc2'), {}, 'dc3');

    expect(again).toMatchObject({ backendId: first.backendId, datacenter: 'dc1', spawned: false });
  });

  test('a key of a datacenter that was given up gets a new home though callers name that datacenter, and keeps it', async () => {
    const world = await openDatacenters();
    const lost = await connectAt(world.get('dc2'), {}, 'dc3');
    world.giveUp('dc3');

    const next = await connectAt(world.get('dc2'), {}, 'dc3');
    world.restart();
    const again = await connectAt(world.get('dc1'), {}, 'dc3');

    expect(lost.datacenter).toBe('dc3');
    expect(next).toMatchObject({ datacenter: 'dc2', spawned: true });
    expect(again).toEqual({ ...next, spawned: false });
  });

  test('a fresh key is refused where the datacenter that is asked for was given up', async () => {
    const world = await openDatacenters();
    world.giveUp('dc3');

    await expect(connectAt(world.get('dc2'), {}, 'dc3')).rejects.toMatchObject({
      code: 'reservation.datacenter_given_up',
    });
    expect(await world.reservations.read(['', 'demo'])).toBeUndefined();
  });

  test('an unknown datacenter is refused, with the known ones in the error', async () => {
    const world = await openDatacenters(['dc1', 'dc2']);

    await expect(connectAt(world.get('dc1'), {}, 'dc9')).rejects.toMatchObject({
      code: 'reservation.unknown_datacenter',
      details: { datacenter: 'dc9', known: ['dc1', 'dc2'] },
    });
    expect(await world.reservations.read(['', 'demo'])).toBeUndefined();
  });

  test('a connect without a program reserves nothing, and is told that nobody holds the key', async () => {
    const world = await openDatacenters();

    await expect(connectAt(world.get('dc1'), { spawn: undefined })).rejects.toMatchObject({
      code: 'key.unheld',
    });

    expect(await world.reservations.read(['', 'demo'])).toBeUndefined();
  });

  test('a connect without a program reaches a backend in another datacenter', async () => {
    const world = await openDatacenters();
    const { backendId } = await connectAt(world.get('dc1'));

    expect(await connectAt(world.get('dc3'), { spawn: undefined })).toMatchObject({
      backendId,
      datacenter: 'dc1',
    });
  });

  test('C42 a key whose backend has ended keeps its home, with a new grant and a greater token', async () => {
    const world = await openDatacenters();
    const dc1 = world.get('dc1');
    const old = await connectAt(dc1);
    const home = await world.reservations.read(['', 'demo']);
    await dc1.keys.report(reportOf(dc1.drone, old.backendId, 'terminated'));

    const next = await connectAt(world.get('dc2'));

    expect(next).toMatchObject({ datacenter: 'dc1', spawned: true });
    expect(next.leaseId).not.toBe(old.leaseId);
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(old.fencingToken));
    expect(await world.reservations.read(['', 'demo'])).toBe(home);
  });

  test('an unreachable datacenter serves its own keys, as the others do; elsewhere its keys are refused', async () => {
    const world = await openDatacenters();
    await connectAt(world.get('dc1'), { key: keyNamed('of-dc1') });
    await connectAt(world.get('dc2'), { key: keyNamed('of-dc2') });
    await connectAt(world.get('dc2'), { key: keyNamed('of-dc1'), spawn: undefined });
    world.cut('dc1');

    await expect(connectAt(world.get('dc2'), { key: keyNamed('of-dc1') })).rejects.toMatchObject({
      code: 'reservation.datacenter_unreachable',
      details: { datacenter: 'dc1' },
      retryable: true,
    });
    const own = await connectAt(world.get('dc2'), { key: keyNamed('of-dc2') });
    const cutOff = await connectAt(world.get('dc1'), { key: keyNamed('of-dc1') });

    expect(own.datacenter).toBe('dc2');
    expect(cutOff).toMatchObject({ datacenter: 'dc1', spawned: false });
    await expect(connectAt(world.get('dc1'), { key: keyNamed('new') })).rejects.toMatchObject({
      code: 'reservation.store_unreachable',
      retryable: true,
    });
  });

  test('C8 without a key a random one is generated and returned, another one each time', async () => {
    const dc1 = (await openDatacenters(['dc1'])).get('dc1');

    const [one, two] = await Promise.all([
      connectAt(dc1, { key: undefined }),
      connectAt(dc1, { key: undefined }),
    ]);

    expect(one.key).toEqual({
      name: expect.stringMatching(/^lk-[a-z0-9]{14}$/u) as string,
      namespace: '',
      tag: '',
    });
    expect(two.key.name).not.toBe(one.key.name);
    expect((await connectAt(dc1, { key: one.key })).backendId).toBe(one.backendId);
  });

  test('a request without a key that is sent again, to another controller, gets the same backend', async () => {
    const world = await openDatacenters();
    const again = { key: undefined, idempotencyKey: 'once' };
    const first = await connectAt(world.get('dc1'), again, 'dc2');
    world.restart();

    const second = await connectAt(world.get('dc1'), again, 'dc2');

    expect(first.key.name).toMatch(/^lk-[a-z0-9]{14}$/u);
    expect(second).toEqual(first);
    expect(await rowCounts(world.get('dc2'))).toMatchObject({ backends: 1 });
  });

  test('a request that is sent again gets its first answer though the home cannot be looked up', async () => {
    const world = await openDatacenters(['dc1', 'dc2']);
    const dc1 = world.get('dc1');
    const once = { idempotencyKey: 'once' };
    const first = await connectAt(dc1, once);
    world.restart();
    world.cut('dc1');

    expect(await connectAt(dc1, once)).toEqual(first);
    await expect(connectAt(dc1, { idempotencyKey: 'another' })).rejects.toMatchObject({
      code: 'reservation.store_unreachable',
    });
  });

  test('forwards a connect only once: a datacenter refuses a reservation of another one', async () => {
    const world = await openDatacenters();
    await connectAt(world.get('dc1'));
    const id = (await world.reservations.read(['', 'demo'])) ?? '';

    await expect(
      world.get('dc2').service.connectHere(
        {
          key: keyNamed('demo'),
          waitMs: 0,
          waitFor: 'granted',
          homeReservation: id,
        },
        OPERATOR,
        new AbortController().signal,
      ),
    ).rejects.toMatchObject({ code: 'reservation.conflict' });
  });

  test('a home that its database has forgotten, as after a failover, is proven again without a restart', async () => {
    const world = await openDatacenters();
    const dc1 = world.get('dc1');
    await connectAt(dc1);
    await dc1.store.general.$executeRaw`delete from backend`;
    await dc1.store.general.$executeRaw`delete from lease`;
    await dc1.store.general.$executeRaw`delete from reservation`;

    expect(await connectAt(dc1)).toMatchObject({ datacenter: 'dc1', spawned: true });
  });

  test('a grant whose home was just forgotten is refused at once, not after waitMs, and the home proven again', async () => {
    const world = await openDatacenters(['dc1']);
    const dc1 = world.get('dc1');
    const { backendId } = await connectAt(dc1);
    await dc1.keys.report(reportOf(dc1.drone, backendId, 'terminated'));
    let choices = 0;
    // As after a failover that lost the newest commits, between the read of the key and its grant.
    world.beforeGrant = async () => {
      choices += 1;
      if (choices === 1) await dc1.store.general.$executeRaw`delete from reservation`;
    };

    expect(await connectAt(dc1, { waitMs: LIMITS.waitMsMax })).toMatchObject({ spawned: true });

    expect(choices).toBe(2);
  });

  test('another datacenter cannot start a key under the home of a different key', async () => {
    const world = await openDatacenters();
    await connectAt(world.get('dc1'));
    const id = (await world.reservations.read(['', 'demo'])) ?? '';

    const answer = await world.get('dc1').service.connectHere(
      {
        key: keyNamed('other'),
        spawn: { program: 'room', args: [], env: {} },
        waitMs: 0,
        waitFor: 'granted',
        homeReservation: id,
      },
      OPERATOR,
      new AbortController().signal,
    );

    expect(answer).toEqual({ outcome: 'elsewhere', standing: { standing: 'pending' } });
  });

  test('nothing is granted under a reservation that the store does not know', async () => {
    const world = await openDatacenters();
    const made = `dc2.${world.get('dc2').store.ids.uuid()}`;

    const answer = await world.get('dc2').service.connectHere(
      {
        key: keyNamed('demo'),
        spawn: { program: 'room', args: [], env: {} },
        waitMs: 0,
        waitFor: 'granted',
        homeReservation: made,
      },
      OPERATOR,
      new AbortController().signal,
    );

    expect(answer).toEqual({ outcome: 'elsewhere', standing: { standing: 'pending' } });
    expect(await rowCounts(world.get('dc2'))).toMatchObject({ leases: 0, backends: 0 });
  });
});
