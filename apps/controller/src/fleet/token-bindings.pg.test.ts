import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { createControllerClient, leaseholdErrorOf } from '@leasehold/client';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { mutate, query } from '../testing/wire.ts';

/** Each test has drones and keys of its own. All drones offer `room`, and nothing besides. */
let on: TestController;

shareTestController((shared) => {
  on = shared;
});

/** The code that a call of a client fails with. */
async function codeOf(call: Promise<unknown>): Promise<string | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => leaseholdErrorOf(error)?.code,
  );
}

test.each([
  ['another program than its token allows', { programs: ['match'] }],
  ['more capacity than its token allows', { capacity: 99 }],
])('a drone that offers %s is refused its session', async (_what, bindings) => {
  const droneId = randomUUID();

  const drone = await startTestDrone(on, { droneId, bindings });

  expect(drone.endedWith()).toBe('drone.not_allowed');
  const { secret } = await on.token('viewer');
  expect(await query(on, 'drones.get', { secret, input: { droneId } })).toBe('drone.not_found');
});

test('a report of an address that the token does not allow is refused, and nobody is sent there', async () => {
  // Its drone is the only one that can get the backend.
  const alone = await startTestController();
  const bindings = { programs: ['room'], capacity: 100, addresses: ['10.1.0.0/16:21000-29999'] };
  const drone = await startTestDrone(alone, { bindings });
  const client = await alone.client('client');
  const connect = () =>
    client.keys.connect.mutate({ key: { name: 'k' }, spawn: { program: 'room' } });
  const { backendId } = await connect();

  const elsewhere = await codeOf(
    drone.report({ backendId, status: 'ready', address: '169.254.169.254:80' }),
  );
  const { address } = await connect();

  expect(elsewhere).toBe('drone.not_allowed');
  expect(address).toBeNull();
  await drone.report({ backendId, status: 'ready', address: '10.1.2.3:21000' });
  expect((await connect()).address).toBe('10.1.2.3:21000');
});

test('a client that is limited to programs starts no other program, but connects to a running backend', async () => {
  await startTestDrone(on, { droneId: randomUUID() });
  const { secret } = await on.token('client', { programs: ['match'] });
  const key = { name: randomUUID() };
  const connect = (spawn?: unknown) =>
    mutate(on, 'keys.connect', { secret, input: { key, spawn } });

  const refused = await connect({ program: 'room' });
  await (await on.client('client')).keys.connect.mutate({ key, spawn: { program: 'room' } });

  expect(refused).toBe('spawn.not_allowed');
  expect(await connect()).toMatchObject({ spawned: false });
});

test.each([
  ['no limit', {}, ['room']],
  ['a limit to other programs', { programs: ['romo'] }, undefined],
  ['a limit to namespaces', { namespaces: ['game'] }, undefined],
])(
  'a client with %s is told of the programs that are offered only what it may see',
  async (_what, limits, offered) => {
    await startTestDrone(on, { droneId: randomUUID() });
    const { secret } = await on.token('client', limits);
    const client = createControllerClient({ url: on.url, token: secret, transport: 'http' });
    onTestFinished(() => client.close());
    const key = { name: randomUUID(), namespace: 'game' };

    const refused: unknown = await client.api.keys.connect
      .mutate({ key, spawn: { program: 'romo' } })
      .catch((error: unknown) => leaseholdErrorOf(error));

    expect(refused).toMatchObject({ code: 'spawn.no_drone', details: { program: 'romo' } });
    expect((refused as { details: object }).details).toEqual({
      program: 'romo',
      ...(offered && { offered }),
    });
  },
);

test.each(['leasehold', ' Leasehold ', 'drone:drone-1', 'a:b', 'a@b.c'])(
  'a token may not be named %j, because somebody else acts under such a name',
  async (name) => {
    const { secret } = await on.token('admin');

    expect(await mutate(on, 'tokens.create', { secret, input: { name, role: 'viewer' } })).toBe(
      'request.invalid',
    );
  },
);

test('in the audit, an older token with such a name is told apart by its id', async () => {
  const droneId = randomUUID();
  const { tokenId, secret } = await on.token('operator', { name: 'drone:drone-1' });
  await startTestDrone(on, { droneId });

  await mutate(on, 'drones.drain', { secret, input: { droneId } });

  const resource = `drone:${droneId}`;
  const audit = await query(on, 'audit.list', { secret, input: { resource } });
  expect(audit).toMatchObject({ items: [{ actor: `drone:drone-1 (token ${tokenId})` }] });
});
