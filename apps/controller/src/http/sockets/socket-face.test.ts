import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import type { FairUseOverrides } from '@leasehold/keys-core';
import { expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { openUse } from '../../testing/test-fair-use.ts';
import { pongsOneByOne, SocketFace } from './socket-face.ts';

interface Opened {
  readonly face: SocketFace;
  readonly socket: WebSocket;
  readonly network: Socket;
  readonly client: WebSocket;
}

async function openFace(limits: FairUseOverrides = {}): Promise<Opened> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
  onTestFinished(() => {
    server.close();
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = new WebSocket(`ws://127.0.0.1:${String(port)}`);
  const [[socket, request]] = await Promise.all([
    once(server, 'connection') as Promise<[WebSocket, { socket: Socket }]>,
    once(client, 'open'),
  ]);
  onTestFinished(() => {
    socket.terminate();
  });
  const network = request.socket;
  const face = new SocketFace(socket, network, openUse().use(limits));
  return { face, socket, network, client };
}

function received(client: WebSocket, count: number): Promise<string[]> {
  const texts: string[] = [];
  return new Promise((resolve) => {
    client.on('message', (data: Buffer) => {
      if (texts.push(data.toString()) === count) resolve(texts);
    });
  });
}

test('answers that are ready at the same time leave in their order with one write', async () => {
  const { face, network, client } = await openFace();
  const one = vi.spyOn(network, '_write');
  const many = vi.spyOn(network as Required<Pick<Socket, '_writev'>>, '_writev');
  const texts = received(client, 3);

  for (const text of ['a', 'b', 'c']) void Promise.resolve().then(() => face.send(text));

  expect(await texts).toEqual(['a', 'b', 'c']);
  expect(many).toHaveBeenCalledTimes(1);
  expect(one).not.toHaveBeenCalled();
});

test('what was sent just before the socket is closed arrives', async () => {
  const { face, client } = await openFace();
  const texts = received(client, 1);
  const closed = once(client, 'close');

  face.send('last');
  face.close(1_012, 'restarting');

  expect(await texts).toEqual(['last']);
  expect(await closed).toEqual([1_012, Buffer.from('restarting')]);
});

test.each([
  ['a large message that is sent too soon', 50_000, true],
  ['small messages, however fast they are sent', 1_000, false],
])('%s: whether the rest is read later', async (_what, length, isPaused) => {
  const { socket, client } = await openFace({ requestBytesPerSecond: 100_000 });
  const arrived = once(socket, 'message');

  client.send('x'.repeat(length));
  await arrived;

  expect(socket.isPaused).toBe(isPaused);
});

test('messages that do not end may hold so much together, and no more', async () => {
  const { face, client } = await openFace({ requestBytesPerSecond: 1_000_000 });
  const closed = once(client, 'close');
  // What other connections of the principal have begun.
  face.use.holds(4_000_000);

  client.send('x', { fin: false });

  expect(await closed).toEqual([1_006, expect.anything()]);
});

test('messages that end hold nothing', async () => {
  const { socket, client, face } = await openFace({ requestBytesPerSecond: 100_000_000 });

  for (let count = 0; count < 5; count += 1) {
    client.send('x'.repeat(1_000_000));
    await once(socket, 'message');
  }

  // As much as all of them may hold: nothing else is held.
  expect(face.use.holds(400_000_000)).toBe(false);
});

test('pings as text are answered one by one: nothing gathers for a peer that reads no answers', async () => {
  const { face, socket, network, client } = await openFace();
  const answer = pongsOneByOne(socket);
  const [both, texts] = [received(client, 2), received(client, 3)];

  // As if the peer read nothing.
  network.cork();
  for (let count = 0; count < 1_000; count += 1) answer();
  const waitingBytes = socket.bufferedAmount;
  network.uncork();
  await both;
  face.send('end');

  expect(waitingBytes).toBeLessThan(10);
  // The answer to the first one, and one for all that came while it was under way.
  expect(await texts).toEqual(['PONG', 'PONG', 'end']);
});

test('pings and pongs hold nothing, and give back nothing of a message that has not ended', async () => {
  const { socket, client, face } = await openFace({ requestBytesPerSecond: 100_000_000 });
  const lastPong = once(socket, 'pong');
  client.ping('a ping');
  client.pong('a pong');
  await lastPong;
  const isHeld = face.use.holds(400_000_000);
  face.use.holds(-400_000_000);

  const lastPing = once(socket, 'ping');
  client.send('x'.repeat(100), { fin: false });
  client.ping();
  await lastPing;

  expect(isHeld).toBe(false);
  expect(face.use.holds(400_000_000 - 100)).toBe(true);
});
