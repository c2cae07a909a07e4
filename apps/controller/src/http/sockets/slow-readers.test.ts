import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { createStreamPacer } from '../../fair-use/pacing.ts';
import { watchAnswer, whenTaken } from './slow-readers.ts';

const CHUNK = Buffer.alloc(256 * 1_024);

/** An answer to a caller that has not begun to read it. */
async function unreadAnswer(): Promise<{ response: ServerResponse; answer: IncomingMessage }> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const asked = once(server, 'request') as Promise<[IncomingMessage, ServerResponse]>;
  const request = get({ host: '127.0.0.1', port: (server.address() as AddressInfo).port });
  const answered = once(request, 'response') as Promise<[IncomingMessage]>;
  const [, response] = await asked;
  onTestFinished(() => void response.destroy());
  response.write(CHUNK);
  const [answer] = await answered;
  answer.on('error', () => undefined);
  return { response, answer };
}

/** Writes more than the network takes while nobody reads. */
function fill(response: ServerResponse): void {
  for (let count = 0; count < 64; count += 1) response.write(CHUNK);
}

/** Some turns of the event loop. */
async function turns(): Promise<'waits'> {
  for (let count = 0; count < 50; count += 1) await new Promise(setImmediate);
  return 'waits';
}

const caller = (isBehind: () => boolean = () => false) => ({ principal: 'p', isBehind });

test('a stream whose caller does not read waits, and goes on when it reads', async () => {
  const { response, answer } = await unreadAnswer();
  fill(response);
  const taken = whenTaken(
    createStreamPacer(() => 0),
    caller(),
    response,
  )();

  expect(await Promise.race([taken.then(() => 'goes on'), turns()])).toBe('waits');
  answer.resume();

  await taken;
});

test('a stream whose caller is gone does not wait for it', async () => {
  const { response, answer } = await unreadAnswer();
  fill(response);
  const taken = whenTaken(
    createStreamPacer(() => 0),
    caller(),
    response,
  )();

  expect(await Promise.race([taken.then(() => 'goes on'), turns()])).toBe('waits');
  answer.destroy();

  await taken;
});

test('a stream waits while its caller is over its limits', async () => {
  const { response, answer } = await unreadAnswer();
  answer.resume();
  let looks = 0;

  await whenTaken(
    createStreamPacer(() => 0),
    caller(() => ++looks < 3),
    response,
  )();

  expect(looks).toBe(3);
});

test('streams over HTTP take turns with all others', async () => {
  const { response, answer } = await unreadAnswer();
  answer.resume();
  const opened: string[] = [];
  let turnsTaken = 0;
  const taken = whenTaken(
    {
      open(principal) {
        opened.push(principal);
        return () => {
          turnsTaken += 1;
          return undefined;
        };
      },
    },
    caller(),
    response,
  );

  await taken();
  await taken();

  expect([opened, turnsTaken]).toEqual([['p'], 2]);
});

test('an answer that is not read for a while is cut off, so that nobody takes it for a whole one', async () => {
  const { response, answer } = await unreadAnswer();
  fill(response);
  const failed = once(answer, 'error');

  await new Promise<void>((resolve) => watchAnswer(response, resolve, 1));
  answer.resume();

  expect(await failed).toMatchObject([{ code: 'ECONNRESET' }]);
});

test('an answer that is read may come as slowly as it is made', async () => {
  const { response, answer } = await unreadAnswer();
  answer.resume();
  await drainedOf(response);

  watchAnswer(response, undefined, 1);
  await once(response, 'timeout');
  await once(response, 'timeout');

  expect(response.destroyed).toBe(false);
});

/** Until the network has taken everything. */
async function drainedOf(response: ServerResponse): Promise<void> {
  while ((response.socket?.writableLength ?? 0) > 0) await new Promise(setImmediate);
}
