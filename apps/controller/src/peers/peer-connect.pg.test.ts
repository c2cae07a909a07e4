import { randomUUID } from 'node:crypto';
import { KEY_LADDERS } from '@leasehold/keys-core';
import { startEtcd, waitUntil, type TestEtcd } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestDatacenters, type TestDatacenters } from '../testing/test-datacenters.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { mutate } from '../testing/wire.ts';
import { acquireLease } from '../testing/wire-leases.ts';

let etcd: TestEtcd;
let world: TestDatacenters;
let client1: string;

beforeAll(async () => {
  etcd = await startEtcd();
  world = await openTestDatacenters({
    names: ['dc1', 'dc2', 'dc3'],
    etcd,
    ladder: KEY_LADDERS.standard,
  });
  await world.allSee();
  client1 = (await world.of('dc1').token('client')).secret;
});

afterAll(async () => {
  await world.close();
  await etcd.stop();
});

interface Connected {
  readonly backendId: string;
  readonly datacenter: string;
  readonly spawned: boolean;
  readonly key: { readonly name: string };
}

const connectAt = (name: string, secret: string, input: object): Promise<Connected> =>
  mutate(world.of(name), 'keys.connect', { secret, input }) as Promise<Connected>;

describe('a connect', () => {
  test('at one datacenter starts its backend in the one that it names, and finds it there', async () => {
    await startTestDrone(world.of('dc2'), { droneId: 'd2', datacenter: 'dc2' });
    const key = { name: randomUUID() };
    const spawn = { program: 'room', datacenter: 'dc2' };

    const first = await connectAt('dc1', client1, { key, spawn });
    const again = await connectAt('dc1', client1, { key, spawn: { program: 'room' } });
    const there = await connectAt('dc2', (await world.of('dc2').token('client')).secret, { key });
    const third = await connectAt('dc3', (await world.of('dc3').token('client')).secret, { key });

    expect(first).toMatchObject({ datacenter: 'dc2', spawned: true, droneId: 'd2' });
    for (const one of [again, there, third]) {
      expect(one).toMatchObject({ backendId: first.backendId, spawned: false, datacenter: 'dc2' });
    }
  });

  test('that is sent twice with one idempotency key is carried out once, across datacenters', async () => {
    await startTestDrone(world.of('dc2'), { droneId: 'd2', datacenter: 'dc2' });
    const input = {
      spawn: { program: 'room', datacenter: 'dc2' },
      idempotencyKey: randomUUID(),
    };

    const answers = [
      await connectAt('dc1', client1, input),
      await connectAt('dc1', client1, input),
    ];

    expect(answers[0]).toMatchObject({ datacenter: 'dc2', spawned: true });
    expect(answers[1]).toEqual(answers[0]);
  });

  test('H-key-across-faces with an idempotency key of another request, here or at the home, is refused', async () => {
    await startTestDrone(world.of('dc2'), { droneId: 'd2', datacenter: 'dc2' });
    const [here, there] = [randomUUID(), randomUUID()];
    const wanted = { key: { name: randomUUID() }, spawn: { program: 'room', datacenter: 'dc2' } };
    await acquireLease(world.of('dc1'), client1, { idempotencyKey: here });
    const first = await connectAt('dc1', client1, { ...wanted, idempotencyKey: there });
    const other = { ...wanted, key: { name: randomUUID() } };

    const used = await connectAt('dc1', client1, { ...wanted, idempotencyKey: here });
    const usedThere = await connectAt('dc1', client1, { ...other, idempotencyKey: there });
    const again = await connectAt('dc1', client1, { ...wanted, idempotencyKey: there });

    expect(used).toBe('request.idempotency_reused');
    expect(usedThere).toBe('request.idempotency_reused');
    expect(again).toEqual(first);
  });

  test('I7 that was carried out before its key moved is answered again, and starts nothing', async () => {
    const drone = await startTestDrone(world.of('dc1'), { droneId: 'd1', datacenter: 'dc1' });
    await startTestDrone(world.of('dc3'), { droneId: 'd3', datacenter: 'dc3' });
    const name = randomUUID();
    const input = { key: { name }, spawn: { program: 'room' }, idempotencyKey: randomUUID() };
    const first = await connectAt('dc1', client1, input);
    await drone.report({ backendId: first.backendId, status: 'terminated' });
    const { secret } = await world.of('dc1').token('operator');
    const move = { key: ['', name], toDatacenter: 'dc3', reason: 'nearer' };
    await mutate(world.of('dc1'), 'reservations.move', { secret, input: move });

    const again = await connectAt('dc1', client1, input);

    expect(again).toEqual({ ...first, status: 'terminated' });
    expect(await connectAt('dc1', client1, { key: { name } })).toBe('key.unheld');
  });

  test('of a limited token is limited in the other datacenter too', async () => {
    await startTestDrone(world.of('dc2'), { droneId: 'd2', datacenter: 'dc2' });
    const { secret } = await world.of('dc1').token('client', { namespaces: ['team'] });
    const name = randomUUID();
    const spawn = { program: 'room', datacenter: 'dc2' };

    expect(await connectAt('dc1', secret, { key: { name, namespace: 'other' }, spawn })).toBe(
      'auth.forbidden',
    );
    expect(
      await connectAt('dc1', secret, { key: { name, namespace: 'team' }, spawn }),
    ).toMatchObject({ datacenter: 'dc2' });
  });

  test('whose caller has gone stops waiting in the other datacenter', async () => {
    const drone = await startTestDrone(world.of('dc2'), { droneId: 'd2', datacenter: 'dc2' });
    const key = { name: randomUUID() };
    const spawn = { program: 'room', datacenter: 'dc2' };
    const { backendId } = await connectAt('dc1', client1, { key, spawn });
    await drone.report({ backendId, status: 'terminating' });
    const general = world.of('dc2').controller.store.general;
    const waiting = async (): Promise<number> =>
      (
        await general.$queryRaw<unknown[]>`
          select 1 from lease_waiter where name = ${key.name} and valid_until > clock_timestamp()`
      ).length;
    const caller = new AbortController();

    const call = fetch(`${world.of('dc1').url}/trpc/keys.connect`, {
      method: 'POST',
      signal: caller.signal,
      headers: { authorization: `Bearer ${client1}`, 'content-type': 'application/json' },
      body: JSON.stringify({ key, spawn, waitMs: 60_000 }),
    }).catch(() => undefined);
    await waitUntil(async () => (await waiting()) > 0, { what: 'it to wait in dc2' });
    caller.abort();
    await call;

    await waitUntil(async () => (await waiting()) === 0, { what: 'it to wait no longer' });
    expect(await waiting()).toBe(0);
  });

  test('for a program that only another datacenter offers starts there, as soon as it is offered', async () => {
    const key = { name: randomUUID() };
    const spawn = { program: 'stairs' };
    const drone = { droneId: 'd3-stairs', datacenter: 'dc3', programs: ['stairs'] };

    const early = await connectAt('dc1', client1, { key, spawn });
    await startTestDrone(world.of('dc3'), drone);
    const first = await connectAt('dc1', client1, { key, spawn });
    const { secret } = await world.of('dc2').token('client');
    const second = await connectAt('dc2', secret, { key: { name: randomUUID() }, spawn });

    expect(early).toBe('spawn.no_drone');
    for (const one of [first, second]) {
      expect(one).toMatchObject({ datacenter: 'dc3', droneId: 'd3-stairs', spawned: true });
    }
  });

  test('for a program that the other datacenter does not have is refused with a code of its own', async () => {
    const spawn = { program: 'nothing', datacenter: 'dc3' };

    expect(await connectAt('dc1', client1, { key: { name: randomUUID() }, spawn })).toBe(
      'spawn.no_drone',
    );
  });
});
