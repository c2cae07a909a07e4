import { startFaultProxy, waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { echoOf, LADDER, Rooms } from './testing/rooms.ts';

let rooms: Rooms;
beforeAll(async () => {
  rooms = await Rooms.open({ ladder: LADDER });
  await rooms.startDrone();
});
afterAll(() => rooms.close());

describe.concurrent('a gateway, its controller and a drone', () => {
  test('a key whose backends fail is refused at once, with when to try again', async () => {
    const impatient = await rooms.startGateway({
      gatewayId: 'impatient',
      env: { LEASEHOLD_GATEWAY_HOLD_MS: '1200' },
    });
    const { token } = await rooms.api().gateway.sign.mutate({
      key: { name: 'failing' },
      access: { user: 'anna', mayStart: true },
      spawn: { program: 'crash' },
    });
    const reply = await waitUntil(async () => {
      const one = await rooms.ask(impatient, token);
      return one.json.error.code === 'gateway.crash_loop' && one;
    });

    expect(reply.status).toBe(503);
    expect(reply.json.error.reason).toBe('backend.crash_loop');
    expect(Number(reply.headers['retry-after'])).toBeGreaterThanOrEqual(1);
  });

  test('cut off from its controller it passes requests until the grant may be over, and none after', async () => {
    const front = await startFaultProxy({ host: '127.0.0.1', port: rooms.controller().port });
    rooms.onClose(() => front.close());
    const cutOff = await rooms.startGateway({
      gatewayId: 'gateway-cut-off',
      controllerUrls: [front.url],
      env: { LEASEHOLD_GATEWAY_HOLD_MS: '500' },
    });
    const { token, fencingToken } = await rooms.connect('cut-off');
    const room = await rooms.openSocket(cutOff, token);
    expect(await echoOf(room, 'before')).toBe(`${fencingToken} before`);
    front.drop();
    expect(await echoOf(room, 'within')).toBe(`${fencingToken} within`);
    await waitUntil(room.isClosed, { what: 'the end of the validity' });
    const refused = await rooms.ask(cutOff, token);
    expect(refused.status).toBe(503);
    front.heal();
    await waitUntil(async () => (await rooms.ask(cutOff, token)).status === 200);
  });
});
