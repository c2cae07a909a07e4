import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { openUse } from '../../testing/test-fair-use.ts';
import { SocketFace } from './socket-face.ts';

async function openFace(): Promise<{ face: SocketFace; network: Socket; client: WebSocket }> {
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
  return { face: new SocketFace(socket, network, openUse().use({})), network, client };
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
