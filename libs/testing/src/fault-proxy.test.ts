import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startFaultProxy, type FaultProxy } from './fault-proxy.ts';
import { waitUntil } from './wait-until.ts';

let echo: Server;
let proxy: FaultProxy;
let client: Socket;
let heard: string;

beforeEach(async () => {
  echo = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.pipe(socket);
  }).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  proxy = await startFaultProxy({ host: '127.0.0.1', port: (echo.address() as AddressInfo).port });
  client = await open();
});

afterEach(async () => {
  client.destroy();
  await proxy.close();
  echo.close();
});

async function open(): Promise<Socket> {
  heard = '';
  const socket = connect(proxy.port, proxy.host);
  socket.on('error', () => undefined);
  socket.setEncoding('utf8').on('data', (text: string) => (heard += text));
  await once(socket, 'connect');
  return socket;
}

describe('the fault proxy', () => {
  test('passes everything on while nothing is wrong', async () => {
    client.write('hello');

    expect(await waitUntil(() => heard === 'hello')).toBe(true);
  });

  test.each([['up'], ['down']] as const)(
    'loses what goes %s, and tells nobody',
    async (direction) => {
      proxy.drop(direction);
      client.write('lost');
      await waitUntil(() => proxy.lostBytesCount === 4);

      expect([heard, client.destroyed, client.readyState]).toEqual(['', false, 'open']);
    },
  );

  test('resets a connection that lost something when it heals, and serves new ones', async () => {
    proxy.drop();
    client.write('lost');
    await waitUntil(() => proxy.lostBytesCount === 4);

    proxy.heal();
    await waitUntil(() => client.destroyed);
    client = await open();
    client.write('hello');

    expect(await waitUntil(() => heard === 'hello')).toBe(true);
  });

  test('holds bytes back for the delay', async () => {
    proxy.delay(100);
    const startedAt = performance.now();
    client.write('late');
    await waitUntil(() => heard === 'late');

    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(195);
  });

  test('cuts every connection', async () => {
    client.write('hello');
    await waitUntil(() => heard === 'hello');

    proxy.cut();

    expect(await waitUntil(() => client.destroyed)).toBe(true);
    expect(proxy.connectionsCount).toBe(0);
  });
});
