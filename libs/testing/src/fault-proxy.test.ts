import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startFaultProxy, type FaultProxy } from './fault-proxy.ts';
import { waitUntil } from './wait-until.ts';

let echo: Server;
let proxy: FaultProxy;
let client: Socket;
let heard: string;
/** What the echo has been sent. */
let asked: string;

beforeEach(async () => {
  asked = '';
  echo = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => (asked += chunk.toString()));
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

  test('holds answers back, on new connections too, and then gives them in order', async () => {
    proxy.hold();
    client.write('first ');
    const late = await open();
    late.write('held');
    await waitUntil(() => asked.includes('first ') && asked.includes('held'));
    expect(heard).toBe('');

    proxy.heal();

    expect(await waitUntil(() => heard.includes('held') && heard.includes('first '))).toBe(true);
    late.destroy();
  });

  test('cuts every connection', async () => {
    client.write('hello');
    await waitUntil(() => heard === 'hello');

    proxy.cut();

    expect(await waitUntil(() => client.destroyed)).toBe(true);
    expect(proxy.connectionsCount).toBe(0);
  });
});
