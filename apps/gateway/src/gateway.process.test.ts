import http from 'node:http';
import { waitUntil, type GatewayProcess } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { echoOf, LADDER, portOf, Rooms } from './testing/rooms.ts';

let rooms: Rooms;
let gateway: GatewayProcess;
beforeAll(async () => {
  rooms = await Rooms.open({ ladder: LADDER });
  await rooms.startDrone();
  gateway = await rooms.startGateway();
});
afterAll(() => rooms.close());

/** What a room sends without an end, and what of it has come. */
function streamOf(
  token: string,
  through: GatewayProcess,
): { read: () => string; isOver: () => boolean } {
  let text = '';
  let isOver = false;
  const request = http.get({ port: portOf(through), path: `/t/${token}/stream`, agent: false });
  rooms.onClose(() => request.destroy());
  const end = (): void => void (isOver = true);
  request.on('error', end).on('response', (response) => {
    response.on('data', (piece: Buffer) => (text += piece.toString()));
    response.on('error', end).on('close', end);
  });
  return { read: () => text, isOver: () => isOver };
}

describe.concurrent('a gateway, its controller and a drone', () => {
  test('the address that connect answers is that of the room, and tells it who comes', async () => {
    const connected = await rooms.connect('addressed');
    expect(connected.url).toBe(`${gateway.url}/t/${connected.token}/`);
    const reply = await rooms.ask(gateway, connected.token, {
      path: '/a?b=c',
      method: 'POST',
      body: 'abc',
    });
    expect(reply.json).toMatchObject({ backendId: connected.backendId, url: '/a?b=c', bytes: 3 });
    expect(reply.json.headers).toMatchObject({
      'x-leasehold-user': 'anna',
      'x-leasehold-key': 'addressed',
      'x-leasehold-fencing-token': connected.fencingToken,
    });
    expect(reply.token).toBe(connected.fencingToken);
    const room = await rooms.openSocket(gateway, connected.token);
    expect(await echoOf(room, 'hello')).toBe(`${connected.fencingToken} hello`);
  });

  test('after a revocation of the key what is open ends, and the next request wakes the next backend', async () => {
    const first = await rooms.connect('revoked');
    const room = await rooms.openSocket(gateway, first.token);
    await echoOf(room, 'hello');
    await rooms
      .api()
      .keys.revoke.mutate({ leaseId: first.leaseId, mode: 'force', reason: 'a test' });
    await waitUntil(room.isClosed);
    const reply = await rooms.ask(gateway, first.token);
    expect(reply.status).toBe(200);
    expect(BigInt(reply.token)).toBeGreaterThan(BigInt(first.fencingToken));
  });

  test('a token that may start nothing is refused when the key has no backend', async () => {
    const first = await rooms.connect('asleep', { access: { mayStart: false } });
    const only = await rooms.connect('asleep', { access: { grantOnly: true } });
    await rooms.api().backends.terminate.mutate({ backendId: first.backendId, mode: 'soft' });
    await waitUntil(async () => (await rooms.ask(gateway, first.token)).status === 404);
    const reply = await rooms.ask(gateway, first.token);
    expect(reply.json.error).toMatchObject({ code: 'gateway.not_running', reason: 'key.unheld' });
    const starting = await rooms.connect('asleep');
    expect((await rooms.ask(gateway, starting.token)).status).toBe(200);
    const over = await rooms.ask(gateway, only.token);
    expect(over.json.error).toMatchObject({ code: 'gateway.grant_ended' });
  });

  test('after a revocation of the user nothing is passed for them, and for others it is', async () => {
    const anna = await rooms.connect('shared');
    const ben = await rooms.connect('shared', { access: { user: 'ben' } });
    const ofAnna = await rooms.openSocket(gateway, anna.token);
    const ofBen = await rooms.openSocket(gateway, ben.token);
    await echoOf(ofAnna, 'hello');
    await rooms
      .api()
      .gateway.revoke.mutate({ user: 'anna', reason: 'a test', namespace: '', name: 'shared' });
    await waitUntil(ofAnna.isClosed);
    expect((await rooms.ask(gateway, anna.token)).json.error.code).toBe('gateway.token_revoked');
    expect(await echoOf(ofBen, 'still here')).toContain('still here');
  });
});

test('a gateway that was frozen while the key was given away passes nothing of the former backend', async () => {
  const frozen = await rooms.startGateway({ gatewayId: 'gateway-frozen' });
  const { token, fencingToken, droneId } = await rooms.connect('frozen');
  const stream = streamOf(token, frozen);
  const room = await rooms.openSocket(frozen, token);
  await waitUntil(() => stream.read().includes(fencingToken));
  await echoOf(room, 'before');
  await rooms.startDrone({ droneId: 'drone-2' });

  frozen.signal('SIGSTOP');
  room.socket.send('during');
  // Its machine loses its power: the key is free when it has expired.
  await rooms.drone(droneId).stop();
  const next = await waitUntil(
    async () => {
      const connected = await rooms.connect('frozen');
      return connected.droneId === droneId ? undefined : connected;
    },
    { what: 'the next grant', timeoutMs: 5 * LADDER.ttlMs, pollMs: 200 },
  );
  // What it had passed before was read long ago.
  const before = stream.read().length;
  frozen.signal('SIGCONT');

  await waitUntil(() => stream.isOver() && room.isClosed());
  expect(stream.read()).toHaveLength(before);
  expect(room.messages).toHaveLength(1);
  const reply = await rooms.ask(frozen, token);
  expect(reply.token).toBe(next.fencingToken);
});
