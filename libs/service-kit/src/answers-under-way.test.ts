import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { boundAnswers, createAnswerRate } from './connections.ts';

const REQUEST = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

/** Sends requests at once over one socket; none is answered. */
async function sendAtOnce(count: number, max: number) {
  const begin = boundAnswers(max);
  const begun: ServerResponse[] = [];
  const server = createServer((request, response) => {
    if (begin(request, response)) begun.push(response);
  });
  server.listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const arrived = once(server, 'connection') as Promise<[Socket]>;
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(REQUEST.repeat(count));
  const [ofServer] = await arrived;
  return { begun, socket, ofServer };
}

test('every answer of a socket that closes is over, also those behind the one that is being sent', async () => {
  const { begun, socket, ofServer } = await sendAtOnce(5, 8);
  await new Promise((resolve) => ofServer.once('data', () => setImmediate(resolve)));
  const closed: number[] = [];
  for (const [nth, response] of begun.entries()) response.on('close', () => closed.push(nth));

  const gone = once(ofServer, 'close');
  socket.destroy();
  await gone;

  expect(closed.sort()).toEqual([0, 1, 2, 3, 4]);
  expect(begun.map(({ destroyed }) => destroyed)).toEqual([true, true, true, true, true]);
});

test('a socket with more requests under way than allowed is closed', async () => {
  const { begun, ofServer } = await sendAtOnce(5, 4);

  await once(ofServer, 'close');

  expect(begun).toHaveLength(4);
});

test('an address gets so many answers in a second, as many refusals, and then none, except for a connection that asks for little', () => {
  const now = { ms: 0 };
  const verdictOf = createAnswerRate({ perSecondMax: 30, nowMs: () => now.ms });
  const greedy = {};
  const ask = (address: string, connection: object = greedy): string =>
    verdictOf(address, connection);
  const asked = Array.from({ length: 61 }, () => ask('192.0.2.1'));
  const countOf = (verdict: string): number => asked.filter((one) => one === verdict).length;

  expect([countOf('answer'), countOf('refuse'), countOf('close')]).toEqual([30, 30, 1]);
  expect(ask('::ffff:192.0.2.1')).toBe('close');
  expect(ask('192.0.2.2')).toBe('answer');
  const modest = {};
  const little = Array.from({ length: 21 }, () => ask('192.0.2.1', modest));
  expect([little.lastIndexOf('answer'), little.at(-1)]).toEqual([19, 'close']);
  now.ms = 1_000;
  expect(ask('192.0.2.1')).toBe('answer');
});
