/** A gateway that stops ends the connections that clients keep, so that they ask another one. */
import { once } from 'node:events';
import http, { type IncomingMessage } from 'node:http';
import net from 'node:net';
import { text } from 'node:stream/consumers';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { openGatewayStage, startBackend } from './testing/gateway-stage.ts';

/** A gateway that is asked over connections which its client keeps. */
async function begin() {
  const stage = await openGatewayStage();
  const backend = await startBackend();
  stage.controller.address = backend.address;
  const token = await stage.controller.sign();
  const agent = new http.Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  const ask = async (): Promise<IncomingMessage> => {
    const request = http.get({ port: stage.port, host: '127.0.0.1', path: `/t/${token}/`, agent });
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    return answer;
  };
  return { stage, backend, ask };
}

test('an answer that begins while it stops says that its connection ends', async () => {
  const { stage, backend, ask } = await begin();
  let answer = (): void => undefined;
  backend.handler = (_request, response) => {
    answer = () => void response.end('done');
  };
  const asked = ask();
  await waitUntil(() => backend.requests.length === 1);
  const closing = stage.gateway.close();
  answer();
  const { headers } = await asked;
  expect(headers.connection).toBe('close');
  (await asked).resume();
  await closing;
});

test('the connection of an answer that has begun ends with that answer, and no other one does', async () => {
  const { stage, backend, ask } = await begin();
  const finish: (() => void)[] = [];
  backend.handler = (_request, response) => {
    response.write('begun ');
    finish.push(() => void response.end('done'));
  };
  const first = await ask();
  const other = await ask();
  const ended = once(first.socket, 'end');
  const closing = stage.gateway.close();
  finish[0]?.();
  expect(await text(first)).toBe('begun done');
  await ended;
  // It would have been cut, had the end of the first one waited for the last moment.
  finish[1]?.();
  expect(await text(other)).toBe('begun done');
  await closing;
});

test('a request that was held is answered over its connection, which ends', async () => {
  const { stage, ask } = await begin();
  let ready = (): void => undefined;
  stage.controller.answerRoute = (input) =>
    new Promise((resolve) => {
      ready = () => resolve(stage.controller.routeTo(input));
    });
  const asked = ask();
  await waitUntil(() => stage.controller.questions.length === 1);
  const closing = stage.gateway.close();
  ready();
  const { statusCode, headers } = await asked;
  expect([statusCode, headers.connection]).toEqual([200, 'close']);
  (await asked).resume();
  await closing;
});

test('a request that comes while it stops is refused, and its connection ends', async () => {
  const { stage, ask } = await begin();
  const socket = net.connect(stage.port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.write('GET /k/_/room/ HTTP/1.1\r\nHost: a\r\n');
  // The gateway has taken the connection before this one.
  (await ask()).resume();
  const closing = stage.gateway.close();
  socket.write('\r\n');
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 503 .*\r\nconnection: close\r\n/isu);
  await closing;
});
