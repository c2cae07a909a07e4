import { randomUUID } from 'node:crypto';
import { newTokenSecret } from '@leasehold/keys-core/access';
import { startEtcd, waitUntil, type TestEtcd } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { metric } from '../testing/metric.ts';
import {
  healAfterTest,
  lockTables,
  openTestDatacenters,
  openTwoDatacenters,
  stopForTest,
  type TwoDatacenters,
} from '../testing/test-datacenters.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { acquireLease, wanted } from '../testing/wire-leases.ts';
import { call, mutate, query, type WireAnswer } from '../testing/wire.ts';

let etcd: TestEtcd;
let two: TwoDatacenters;

beforeAll(async () => {
  etcd = await startEtcd();
  two = await openTwoDatacenters(etcd);
});

afterAll(async () => {
  try {
    await (two as TwoDatacenters | undefined)?.world.close();
  } finally {
    await etcd.stop();
  }
});

/** Two datacenters, which reach each other before and after each test. */
function both(): TwoDatacenters {
  healAfterTest(two);
  return two;
}

describe('a datacenter that is unreachable', () => {
  test('is named in every answer that needs it, and the others keep working', async () => {
    const { world, here, there, secret } = both();
    const on = world.of(here);
    const drone = await startTestDrone(on, { droneId: 'd1', datacenter: here });
    await startTestDrone(world.of(there), { droneId: 'd2', datacenter: there });
    const key = { name: randomUUID() };
    const input = { key, spawn: { program: 'room', datacenter: there } };
    expect(await mutate(on, 'keys.connect', { secret, input })).toMatchObject({ spawned: true });

    await stopForTest(two);
    await world.sees(here, there, false);

    const answer = await call(on, '/trpc/keys.connect', { body: JSON.stringify({ key }), secret });
    expect(answer).toMatchObject({
      status: 503,
      body: {
        error: {
          data: {
            leaseholdCode: 'reservation.datacenter_unreachable',
            retryable: true,
            details: { datacenter: there },
          },
        },
      },
    });
    const asked = { datacenter: there, ...key };
    expect(await query(on, 'keys.get', { secret, input: asked })).toBe(
      'reservation.datacenter_unreachable',
    );
    expect(
      await mutate(on, 'leases.acquire', { secret, input: wanted({ datacenter: there }) }),
    ).toBe('reservation.datacenter_unreachable');
    await drone.heartbeat();
    const ours = { key: { name: randomUUID() }, spawn: { program: 'room' } };
    expect(await mutate(on, 'keys.connect', { secret, input: ours })).toMatchObject({
      datacenter: here,
    });
    const fresh = { key: { name: randomUUID() }, spawn: input.spawn };
    expect(await mutate(on, 'keys.connect', { secret, input: fresh })).toBe(
      'reservation.datacenter_unreachable',
    );
    expect(await metric(on, `leasehold_peer_up{datacenter="${there}"}`)).toBe(0);
    expect(await metric(on, 'leasehold_reservation_store_up')).toBe(1);
  });

  test('is named in lists, is not waited for, and is asked again once it is back', async () => {
    const { world, here, there, secret } = both();
    const on = world.of(here);
    const namespace = randomUUID();
    const lease = await acquireLease(on, secret, { namespace: [namespace] });
    const listOf = (datacenter: string): Promise<unknown> =>
      query(on, 'leases.list', { secret, input: { datacenter, namespace } });
    const restart = await stopForTest(two);
    await listOf(there);
    await world.sees(here, there, false);
    const away = {
      datacenter: there,
      since: expect.any(String) as string,
      code: 'reservation.datacenter_unreachable',
    };

    expect(await listOf('all')).toMatchObject({
      items: [{ leaseId: lease.leaseId }],
      nextCursor: null,
      unreachable: [away],
    });
    expect(await listOf(there)).toMatchObject({ items: [], unreachable: [away] });
    expect(await listOf(here)).toMatchObject({ unreachable: [] });
    const paged = { datacenter: 'all', namespace, limit: 1 };
    expect(await query(on, 'leases.list', { secret, input: paged })).toMatchObject({
      items: [{ leaseId: lease.leaseId }],
      unreachable: [away],
    });
    expect(await query(on, 'leases.tree', { secret, input: { datacenter: 'all' } })).toMatchObject({
      unreachable: [away],
    });
    const exported = await call(on, '/export/leases?datacenter=all', { secret });
    expect(exported.body.error?.data.leaseholdCode).toBe('reservation.datacenter_unreachable');

    await restart();
    await world.sees(here, there, true);

    expect(await listOf('all')).toMatchObject({ unreachable: [] });
  });

  test('but not yet known to be so ends a connect that would wait for minutes', async () => {
    const { world, here, there, secret } = both();
    const spawn = { program: 'room', datacenter: there };
    const input = { key: { name: randomUUID() }, spawn, waitFor: 'ready', waitMs: 120_000 };

    world.lineTo(there).drop();
    const { body } = await call(world.of(here), '/trpc/keys.connect', {
      body: JSON.stringify(input),
      secret,
    });

    expect(body.error?.data).toMatchObject({
      leaseholdCode: 'request.outcome_unknown',
      details: { datacenter: there },
    });
  });

  test('after it was asked to act leaves the outcome unknown, and the same request learns it later', async () => {
    const { world, here, there, secret } = both();
    const on = world.of(here);
    const idempotencyKey = randomUUID();
    const input = wanted({ datacenter: there, idempotencyKey });
    const line = world.lineTo(there);

    line.hold();
    const acquiring = call(on, '/trpc/leases.acquire', { body: JSON.stringify(input), secret });
    const { general } = world.of(there).controller.store;
    await waitUntil(
      async () =>
        (
          await general.$queryRaw<
            unknown[]
          >`select 1 from lease where name = ${String(input['key'])}`
        ).length > 0,
      { what: 'the grant to be written there' },
    );
    line.cut();

    const { error } = (await acquiring).body;
    expect(error?.data).toMatchObject({
      leaseholdCode: 'request.outcome_unknown',
      details: { datacenter: there },
    });
    line.heal();
    await world.reaches(here, there);
    expect(await mutate(on, 'leases.acquire', { secret, input })).toMatchObject({
      outcome: 'granted',
    });
  });
});

describe('a datacenter that is slow at one thing', () => {
  test('stays reachable for everything else, and its answer is waited for', async () => {
    const { world, here, there, secret } = both();
    const on = world.of(here);
    const input = { datacenter: there };

    const unlock = await lockTables(world, there);
    const listing = query(on, 'leases.list', { secret, input });
    expect(await query(on, 'events.list', { secret, input })).toMatchObject({ unreachable: [] });
    expect(await query(on, 'datacenters.list', { secret })).toMatchObject({
      items: [{ name: here }, { name: there, isReachable: true, since: null }],
    });
    await unlock();

    expect(await listing).toMatchObject({ unreachable: [] });
  });
});

test('reads that wait for a slow datacenter keep nobody from the reads of this one', async () => {
  const { world, here, there, secret } = both();
  const on = world.of(here);
  const others = await Promise.all([1, 2, 3].map(() => on.token('viewer')));
  const unlock = await lockTables(world, there);
  const waiting = others.flatMap((other) =>
    [1, 2, 3].map(() =>
      query(on, 'leases.list', { secret: other.secret, input: { datacenter: there } }),
    ),
  );
  const { general } = world.of(there).controller.store;
  await waitUntil(
    async () => {
      const rows = await general.$queryRaw<unknown[]>`
        select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      return rows.length >= 3;
    },
    { what: 'reads to wait there' },
  );

  const listed = await query(on, 'leases.list', { secret, input: { datacenter: here } });
  await unlock();

  expect(listed).toMatchObject({ unreachable: [] });
  await Promise.all(waiting);
});

test('a datacenter that a third one refuses stays reachable, and the error names the third one', async () => {
  const [a, b, c] = ['third-a', 'third-b', 'third-c'];
  const world = await openTestDatacenters({
    names: [a, b, c],
    etcd,
    // b and c have different secrets for their pair.
    secretOf: (name, other) => ([name, other].includes(a) ? undefined : newTokenSecret()),
  });
  onTestFinished(() => world.close());
  await world.reaches(a, b);
  await world.reaches(a, c);
  const on = world.of(a);
  const { secret } = await on.token('operator');
  const key = ['', randomUUID()];
  await mutate(on, 'reservations.reserve', { secret, input: { key, datacenter: b } });
  const move = JSON.stringify({ key, toDatacenter: c, reason: 'test' });

  // Between its own attempts b reports only that c is unreachable.
  let error: WireAnswer['body']['error'];
  await waitUntil(
    async () => {
      error = (await call(on, '/trpc/reservations.move', { body: move, secret })).body.error;
      return error?.message.includes('credentials') === true;
    },
    { what: 'b to be refused by c' },
  );

  expect(error?.data).toMatchObject({
    leaseholdCode: 'reservation.datacenter_unreachable',
    details: { datacenter: c },
  });
  expect(await query(on, 'datacenters.list', { secret })).toMatchObject({
    items: [{ name: a }, { name: b, isReachable: true }, { name: c, isReachable: true }],
  });
});

test('a datacenter that refuses the secret is unreachable, with the reason, and cannot be given up', async () => {
  const secrets = new Map([['a', newTokenSecret()]]);
  const { world, here, there, secret } = await openTwoDatacenters(
    etcd,
    (name) => secrets.get(name.slice(0, 1)) ?? newTokenSecret(),
  );
  onTestFinished(() => world.close());
  await world.sees(here, there, false);
  const input = wanted({ datacenter: there });

  await waitUntil(
    async () =>
      (await mutate(world.of(here), 'leases.acquire', { secret, input })) === 'peer.refused',
    { what: 'a call that is refused' },
  );
  const { secret: admin } = await world.of(here).token('admin');
  const lost = { datacenter: there, reason: 'test' };
  expect(await query(world.of(here), 'datacenters.list', { secret })).toMatchObject({
    items: [
      { name: here, isLocal: true, isReachable: true },
      { name: there, isLocal: false, isReachable: false, code: 'peer.refused' },
    ],
    store: { kind: 'etcd', isReachable: true, since: null },
  });
  // It answers: it is not lost.
  expect(await mutate(world.of(here), 'datacenters.giveUp', { secret: admin, input: lost })).toBe(
    'reservation.datacenter_reachable',
  );
});
