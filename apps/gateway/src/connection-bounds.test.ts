import { once } from 'node:events';
import net, { type AddressInfo, Socket } from 'node:net';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { StrangerBounds, UserShares } from './connection-bounds.ts';
import { openGatewayStage, startBackend, type GatewayStage } from './testing/gateway-stage.ts';

/** Connections of one address, as a server has accepted them. */
async function accepted(count: number): Promise<Socket[]> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sockets: Socket[] = [];
  for (let nth = 0; nth < count; nth += 1) {
    const client = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
    const [socket] = (await once(server, 'connection')) as [Socket];
    onTestFinished(() => {
      client.destroy();
      socket.destroy();
    });
    sockets.push(socket);
  }
  onTestFinished(() => void server.close());
  return sockets;
}

function boundsAt(time: { nowMs: number }): StrangerBounds {
  const never = (): void => undefined;
  const clock = { nowMs: () => time.nowMs, at: () => never, onTick: () => never };
  return new StrangerBounds(clock, () => true);
}

test('a connection has ten answers in a second, and one where its address has had sixty-four', async () => {
  const time = { nowMs: 0 };
  const bounds = boundsAt(time);
  const [first, other, last] = await accepted(3);
  if (first === undefined || other === undefined || last === undefined) throw new Error('three');

  for (let nth = 0; nth < 9; nth += 1) bounds.answered(first);
  expect(bounds.isSilenced(first)).toBe(false);
  bounds.answered(first);
  expect(bounds.isSilenced(first)).toBe(true);

  for (let nth = 0; nth < 54; nth += 1) bounds.answered(first);
  expect(bounds.isSilenced(other)).toBe(false);
  bounds.answered(other);
  expect(bounds.isSilenced(other)).toBe(true);

  time.nowMs = 1_000;
  bounds.answered(last);
  expect(bounds.isSilenced(last)).toBe(false);
});

const BUSY = { code: 'gateway.busy' };

function openSocket(): Socket {
  const socket = new Socket();
  onTestFinished(() => void socket.destroy());
  return socket;
}

test('a connection counts for the user whose token it has shown last, until it closes', async () => {
  const shares = new UserShares(16);
  const [one, two, three] = [openSocket(), openSocket(), openSocket()];
  for (const socket of [one, two, one, two]) shares.take(socket, 'anna');
  expect(() => shares.take(three, 'anna')).toThrow(expect.objectContaining(BUSY));
  shares.take(one, 'ben');
  shares.take(three, 'anna');
  expect(() => shares.take(one, 'anna')).toThrow(expect.objectContaining(BUSY));
  three.destroy();
  await once(three, 'close');
  shares.take(one, 'anna');
});

test('a connection that is over before its token was looked up counts for nobody', async () => {
  const shares = new UserShares(8);
  const gone = openSocket().destroy();
  await once(gone, 'close');
  shares.take(gone, 'anna');
  expect(() => shares.take(openSocket(), 'anna')).not.toThrow();
});

describe('a user with an eighth of all connections', () => {
  test.each([
    ['of its own', {}],
    ['of a trusted proxy', { LEASEHOLD_TRUSTED_PROXIES: '127.0.0.1' }],
  ])('%s is refused more, and others are served', async (_whose, variables) => {
    const stage = await openGatewayStage({
      LEASEHOLD_GATEWAY_CONNECTIONS_MAX: '16',
      ...variables,
    });
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    const [first] = [await openWebSocket(stage, token), await openWebSocket(stage, token)];

    const more = await stage.ask(`/t/${token}/`);
    expect([more.status, more.json.error]).toMatchObject([503, BUSY]);
    const ofBen = await stage.controller.sign({ sub: 'ben' });
    expect((await stage.ask(`/t/${ofBen}/`)).status).toBe(200);

    first.terminate();
    await waitUntil(async () => (await stage.ask(`/t/${token}/`)).status === 200);
  });
});

test('a user cannot take all connections to a backend, and what gets none is refused instead of waiting', async () => {
  const stage = await openGatewayStage();
  const backend = await startBackend();
  stage.controller.address = backend.address;
  // It answers nobody.
  backend.handler = () => undefined;
  const token = await stage.controller.sign();
  const many = `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(16);
  for (let nth = 0; nth < 33; nth += 1) {
    const socket = net.connect(stage.port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.write(many);
  }
  await waitUntil(async () => (await refusedAsBusy(stage)) === 16);
  await waitUntil(() => backend.requests.length === 512);

  backend.handler = undefined;
  const ofBen = await stage.controller.sign({ sub: 'ben' });
  expect((await stage.ask(`/t/${ofBen}/`)).status).toBe(200);
});

async function openWebSocket({ port }: GatewayStage, token: string): Promise<WebSocket> {
  const socket = new WebSocket(`ws://127.0.0.1:${String(port)}/t/${token}/`);
  onTestFinished(() => socket.terminate());
  await once(socket, 'open');
  return socket;
}

async function refusedAsBusy({ gateway }: GatewayStage): Promise<number> {
  const metrics = await (await fetch(`${gateway.metricsUrl}/metrics`)).text();
  return Number(/refusals_total\{code="gateway\.busy"\} (\d+)/u.exec(metrics)?.[1] ?? 0);
}
