import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import {
  CALLER_HEADER,
  CONSOLE_SECRET_HEADER,
  createSources,
  guardConnections,
  type ConnectionGuard,
} from './connections.ts';

const SECRET = 'the secret of this console and its controllers';
const MAX = 3;

type Handle = (request: IncomingMessage, response: ServerResponse, guard: ConnectionGuard) => void;

/** A server behind a guard, and a way to open connections to it that it has accepted. */
async function guarded(handle: Handle, { trustedProxies = [] as string[], unknownMax = 100 } = {}) {
  const server = createServer();
  const guard = guardConnections(server, {
    perAddressMax: MAX,
    unknownMax,
    sources: createSources({ trustedProxies, consoleSecret: SECRET }),
  });
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    guard.begin(request, response);
    handle(request, response, guard);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return async (text = ''): Promise<Socket> => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => undefined).resume();
    await Promise.all([once(server, 'connection'), once(socket, 'connect')]);
    if (text !== '') {
      socket.write(text);
      await Promise.race([once(socket, 'data'), once(socket, 'close')]);
    }
    return socket;
  };
}

/** Which of these connections end, once as many as expected have. */
async function endedOf(sockets: readonly Socket[], count: number): Promise<boolean[]> {
  await expect.poll(() => sockets.filter((one) => one.closed).length).toBe(count);
  return sockets.map((one) => one.closed);
}

const GET = 'GET / HTTP/1.1\r\nhost: x\r\n';
const ask = (headers = ''): string => `${GET}${headers}\r\n`;
const from = (address: string): string =>
  `${CONSOLE_SECRET_HEADER}: ${SECRET}\r\n${CALLER_HEADER}: ${address}\r\n`;

test('of too many connections of strangers the oldest makes place, and the newest is answered', async () => {
  const open = await guarded((_request, response) => response.end('ok'));
  const sockets: Socket[] = [];

  for (let i = 0; i < MAX + 2; i += 1) sockets.push(await open());

  expect(await endedOf(sockets, 2)).toEqual([true, true, false, false, false]);
  expect((await open(ask())).closed).toBe(false);
});

test('a caller that is known, or is being looked up, makes no place for strangers', async () => {
  const open = await guarded((request, response, guard) => {
    guard.claimed(request);
    if (request.headers.authorization === 'known') {
      guard.known(request);
      response.end('ok');
    } else response.write('looking');
  });
  const kept = [
    await open(ask('authorization: known\r\n')),
    await open(ask('authorization: x\r\n')),
  ];

  const strangers: Socket[] = [];
  for (let i = 0; i < MAX * 3; i += 1) strangers.push(await open());

  await endedOf(strangers, MAX * 2);
  expect(kept.map((one) => one.closed)).toEqual([false, false]);
});

test('a caller whose token was no good is a stranger again', async () => {
  const open = await guarded((request, response, guard) => {
    guard.claimed(request);
    response.end('no');
  });
  const refused = await open(ask('authorization: x\r\n'));

  const strangers: Socket[] = [];
  for (let i = 0; i < MAX; i += 1) strangers.push(await open());

  expect(await endedOf([refused, ...strangers], 1)).toEqual([true, false, false, false]);
});

test('callers whose tokens turn out to be no good push out none that came meanwhile', async () => {
  const answer: (() => void)[] = [];
  const open = await guarded((request, response, guard) => {
    guard.claimed(request);
    response.write('looking');
    answer.push(() => response.end('no'));
  });
  const refused: Socket[] = [];
  for (let i = 0; i < MAX; i += 1) refused.push(await open(ask('authorization: x\r\n')));
  const newcomer = await open();

  for (const each of answer) each();

  expect(await endedOf([newcomer, ...refused], 1)).toEqual([false, true, false, false]);
});

test('only so many callers of an address are looked up at once', async () => {
  const claims: boolean[] = [];
  const open = await guarded((request, response, guard) => {
    claims.push(guard.claimed(request));
    response.write('looking');
  });

  for (let i = 0; i < MAX + 1; i += 1) await open(ask('authorization: x\r\n'));

  expect(claims).toEqual([true, true, true, false]);
});

test('requests that a console passes on count for their callers, and none of its connections counts', async () => {
  const open = await guarded((_request, response) => response.write('waiting'));
  const one = [...Array<undefined>(MAX + 1)].map(() => open(ask(from('203.0.113.1'))));
  const sockets = await Promise.all(one);
  const others = [await open(ask(from('203.0.113.2'))), await open(ask(from('203.0.113.3')))];

  await endedOf(sockets, 1);

  expect(others.map((each) => each.closed)).toEqual([false, false]);
});

test('a proxy that is trusted by its address may have as many connections as it needs', async () => {
  const open = await guarded((_request, response) => response.end('ok'), {
    trustedProxies: ['127.0.0.1'],
  });
  const sockets: Socket[] = [];

  for (let i = 0; i < MAX * 2; i += 1) sockets.push(await open());
  await open(ask('x-forwarded-for: 203.0.113.1\r\n'));

  expect(sockets.some((one) => one.closed)).toBe(false);
});

test('strangers of many addresses do not use up the places of known callers', async () => {
  const open = await guarded((_request, response) => response.write('waiting'), { unknownMax: 5 });
  const sockets: Socket[] = [];

  for (let i = 0; i < 8; i += 1) sockets.push(await open(ask(from(`203.0.113.${String(i)}`))));

  expect(await endedOf(sockets, 3)).toEqual([true, true, true, ...Array<boolean>(5).fill(false)]);
});
