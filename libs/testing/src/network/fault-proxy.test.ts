import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { expectPrompt } from '../expect-prompt.ts';
import { startFaultProxy, type FaultProxy } from './fault-proxy.ts';
import { waitUntil } from '../wait-until.ts';

let echo: Server;
let proxy: FaultProxy;
let client: Socket;
let heard: string;
/** What the echo server has received. */
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
    'loses the bytes that go %s, and notifies neither side',
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

  test('holds answers back, on new connections too, until it heals', async () => {
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

  test('delays each direction separately', async () => {
    proxy.delay(600, 0);
    const startedAt = performance.now();
    client.write('late');
    await waitUntil(() => heard === 'late');

    const tookMs = performance.now() - startedAt;
    expect(tookMs).toBeGreaterThanOrEqual(595);
    expectPrompt(tookMs, 1_150);
  });

  test('delivers what was sent first on one connection after what was sent later on another', async () => {
    const shares = [1, 1, 0, 0];
    vi.spyOn(Math, 'random').mockImplementation(() => shares.shift() ?? 0);
    proxy.spread(200);
    const slow = await open();
    const quick = await open();
    slow.write('sent first ');
    quick.write('sent second ');

    expect(await waitUntil(() => asked === 'sent second sent first ')).toBe(true);
    for (const socket of [slow, quick]) socket.destroy();
  });

  test('keeps the order of what is sent while the delay shrinks', async () => {
    const words = Array.from({ length: 20 }, (_, index) => `${String(index)} `);
    for (const [index, word] of words.entries()) {
      proxy.delay(20 - index);
      client.write(word);
      await nextTurn();
    }

    expect(await waitUntil(() => heard === words.join(''))).toBe(true);
  });

  test('passes on bytes that were sent before the end, even when it delays them', async () => {
    proxy.delay(100, 0);
    client.end('last words');

    expect(await waitUntil(() => asked === 'last words')).toBe(true);
  });

  test('refuses connections until it heals', async () => {
    proxy.refuse();
    await waitUntil(() => client.destroyed);
    const refused = connect(proxy.port, proxy.host).on('error', () => undefined);
    await waitUntil(() => refused.destroyed);

    proxy.heal();
    client = await open();
    client.write('hello');

    expect(await waitUntil(() => heard === 'hello')).toBe(true);
  });

  test('cuts every connection', async () => {
    client.write('hello');
    await waitUntil(() => heard === 'hello');

    proxy.cut();

    expect(await waitUntil(() => client.destroyed)).toBe(true);
    expect(proxy.connectionsCount).toBe(0);
  });
});

describe('a fault proxy that recognises where connections come from', () => {
  let door: FaultProxy;

  beforeEach(async () => {
    door = await startFaultProxy(
      { host: '127.0.0.1', port: (echo.address() as AddressInfo).port },
      { placeOf: (piece) => /from (\w+);/u.exec(piece.toString())?.[1] },
    );
  });

  afterEach(async () => {
    await door.close();
  });

  async function speakFrom(place: string): Promise<() => string> {
    const socket = connect(door.port, door.host);
    let answer = '';
    socket.on('error', () => undefined);
    socket.setEncoding('utf8').on('data', (text: string) => (answer += text));
    await once(socket, 'connect');
    socket.write('hello, ');
    await waitUntil(() => answer === 'hello, ');
    socket.write(`from ${place};`);
    return () => answer;
  }

  test('fails for one place and serves the other, even when it recognises them late', async () => {
    door.from('here').drop();
    const here = await speakFrom('here');
    const there = await speakFrom('there');

    expect(await waitUntil(() => there() === 'hello, from there;')).toBe(true);
    expect([here(), door.lostBytesCount]).toEqual(['hello, ', 'from here;'.length]);
  });
});
