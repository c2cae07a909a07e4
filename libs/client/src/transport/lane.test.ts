import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test, vi } from 'vitest';
import { WebSocketServer, type WebSocket } from 'ws';
import {
  createControllerClient,
  type ControllerClient,
  type ControllerClientOptions,
} from './controller-client.ts';
import { callErrorOf, leaseholdErrorOf } from './errors.ts';

interface SentCall {
  readonly id: number;
  readonly params: { readonly path: string; readonly input: Record<string, unknown> };
}

interface Stage {
  readonly client: ControllerClient;
  /** Messages with calls, as they came. */
  readonly messages: string[];
  /** All calls that came. */
  readonly calls: SentCall[];
  /** The connections, oldest first. */
  readonly sockets: WebSocket[];
  answer(call: SentCall | undefined, data: unknown): void;
}

/** A client that is connected to a server that answers nothing by itself. */
async function openStage(options: Partial<ControllerClientOptions> = {}): Promise<Stage> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const messages: string[] = [];
  const calls: SentCall[] = [];
  const sockets: WebSocket[] = [];
  server.on('connection', (socket) => {
    sockets.push(socket);
    socket.on('message', (message: Buffer) => {
      const text = message.toString();
      if (text === 'PING') socket.send('PONG');
      const isCall = text.includes('"method":"mutation"');
      if (isCall) {
        messages.push(text);
        calls.push(...[JSON.parse(text) as SentCall | SentCall[]].flat());
      }
    });
  });
  const { port } = server.address() as AddressInfo;
  let openedCount = 0;
  const client = createControllerClient({
    url: `http://127.0.0.1:${String(port)}`,
    token: 'lh_test',
    transport: 'ws',
    random: () => 0,
    ...options,
    onConnection: (state) => (openedCount += state === 'open' ? 1 : 0),
  });
  onTestFinished(async () => {
    await client.close();
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  await waitUntil(() => openedCount > 0, { what: 'the connection' });
  // tRPC writes the token after the connection has opened.
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  return {
    client,
    messages,
    calls,
    sockets,
    answer: (call, data) =>
      sockets.at(-1)?.send(JSON.stringify({ id: call?.id, result: { type: 'data', data } })),
  };
}

const GRANT = { leaseId: '00000000-0000-4000-8000-000000000000', fencingToken: '1' };

function release(client: ControllerClient, leaseId = GRANT.leaseId, signal?: AbortSignal) {
  const options = signal === undefined ? {} : { signal };
  return client.api.leases.release.mutate({ ...GRANT, leaseId, result: 'ok' }, options);
}

function heartbeat(client: ControllerClient, datacenter?: string) {
  return client.api.leases.heartbeat.mutate({ localTimeMs: 1, renewals: [GRANT], datacenter });
}

async function codeOf(call: Promise<unknown>): Promise<string | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => leaseholdErrorOf(error)?.code ?? String(callErrorOf(error)),
  );
}

test('calls of one turn travel in one message, and each gets its own answer, in any order', async () => {
  const stage = await openStage();

  const answers = Promise.all(['a', 'b', 'c'].map((id) => release(stage.client, id)));
  await waitUntil(() => stage.calls.length === 3, { what: 'the calls' });
  for (const call of stage.calls.toReversed()) {
    stage.answer(call, { outcome: call.params.input['leaseId'] });
  }

  expect(await answers).toEqual([{ outcome: 'a' }, { outcome: 'b' }, { outcome: 'c' }]);
  expect(stage.messages).toHaveLength(1);
});

test('a call has the frame of tRPC, so that a controller of any version answers', async () => {
  const stage = await openStage();

  const answer = release(stage.client);
  await waitUntil(() => stage.calls.length === 1, { what: 'the call' });
  stage.answer(stage.calls[0], { outcome: 'released' });

  expect(await answer).toEqual({ outcome: 'released' });
  expect(JSON.parse(stage.messages[0] ?? '')).toEqual({
    id: expect.any(Number) as number,
    method: 'mutation',
    params: { path: 'leases.release', input: { ...GRANT, result: 'ok' } },
  });
});

test('more calls than a message may have are sent in several', async () => {
  const stage = await openStage();

  const answers = Array.from({ length: 1_100 }, (_, nth) =>
    release(stage.client, `l-${String(nth)}`),
  );
  await waitUntil(() => stage.calls.length === answers.length, { what: 'the calls' });
  for (const call of stage.calls) stage.answer(call, { outcome: 'released' });
  await Promise.all(answers);

  expect(stage.messages.length).toBeGreaterThan(1);
});

test('what an answer tells of the database is sent back with the next call, to each datacenter its own', async () => {
  const stage = await openStage();
  const told = async (datacenter: string | undefined, witness: string): Promise<unknown> => {
    const answer = heartbeat(stage.client, datacenter);
    const count = stage.calls.length;
    await waitUntil(() => stage.calls.length > count, { what: 'the call' });
    const call = stage.calls.at(-1);
    stage.answer(call, { results: [], witness });
    await answer;
    return call?.params.input['witness'];
  };

  const sent = [await told(undefined, 'w1'), await told('b', 'w2')];
  sent.push(await told(undefined, 'w3'), await told('b', 'w4'), await told(undefined, 'w5'));

  expect(sent).toEqual([undefined, undefined, 'w1', 'w2', 'w3']);
});

test('a call whose connection breaks before its answer has an unknown outcome', async () => {
  const stage = await openStage();

  const code = codeOf(release(stage.client));
  await waitUntil(() => stage.calls.length === 1, { what: 'the call' });
  stage.sockets[0]?.terminate();

  expect(await code).toBe('request.outcome_unknown');
});

test('a call on a connection that a controller refuses has the code of the refusal', async () => {
  const stage = await openStage();

  const code = codeOf(release(stage.client));
  await waitUntil(() => stage.calls.length === 1, { what: 'the call' });
  stage.sockets[0]?.close(4_401, 'auth.required');

  expect(await code).toBe('auth.required');
});

test('a call without a connection waits for one, and is sent then', async () => {
  const stage = await openStage();
  stage.sockets[0]?.terminate();
  await waitUntil(() => stage.sockets[0]?.readyState === 3, { what: 'the end of the first' });

  const answer = release(stage.client);
  await waitUntil(() => stage.calls.length > 0, { what: 'the call' });
  stage.answer(stage.calls.at(-1), { outcome: 'released' });

  expect(await answer).toEqual({ outcome: 'released' });
  expect(stage.sockets.length).toBeGreaterThan(1);
});

test('an error keeps its code, its details and its incident', async () => {
  const stage = await openStage();
  const data = {
    leaseholdCode: 'grant.hold_off',
    retryable: true,
    incidentId: 'i',
    details: { remainingMs: 5 },
  };

  const failed = release(stage.client).catch((error: unknown) => error);
  await waitUntil(() => stage.calls.length === 1, { what: 'the call' });
  const error = { message: 'wait', code: -32_000, data };
  stage.sockets[0]?.send(JSON.stringify({ id: stage.calls[0]?.id, error }));

  expect(leaseholdErrorOf(await failed)).toEqual({
    code: 'grant.hold_off',
    message: 'wait',
    retryable: true,
    incidentId: 'i',
    details: { remainingMs: 5 },
  });
});

test('a call without an answer in its time has an unknown outcome, and later ones have their own time', async () => {
  const stage = await openStage({ callTimeoutMs: 5_000 });
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());

  const first = codeOf(release(stage.client, 'first'));
  vi.advanceTimersByTime(3_000);
  const second = codeOf(release(stage.client, 'second'));
  vi.advanceTimersByTime(2_000);
  const firstCode = await first;
  vi.advanceTimersByTime(2_999);
  const isSecondOver = await Promise.race([second, Promise.resolve('waits')]);
  vi.advanceTimersByTime(1);

  expect([firstCode, isSecondOver, await second]).toEqual([
    'request.outcome_unknown',
    'waits',
    'request.outcome_unknown',
  ]);
});

test('a call that is given up ends at once, and its answer disturbs nobody', async () => {
  const stage = await openStage();
  const giveUp = new AbortController();

  const givenUp = release(stage.client, 'a', giveUp.signal).catch((error: unknown) => error);
  const other = release(stage.client, 'b');
  await waitUntil(() => stage.calls.length === 2, { what: 'the calls' });
  giveUp.abort();
  const error = await givenUp;
  for (const call of stage.calls) stage.answer(call, { outcome: call.params.input['leaseId'] });

  expect(error).toMatchObject({ cause: { name: 'AbortError' } });
  expect(await other).toEqual({ outcome: 'b' });
});

test('a call that is given up before it is sent is not sent', async () => {
  const stage = await openStage();

  const failed = release(stage.client, 'a', AbortSignal.abort()).catch((error: unknown) => error);
  const other = release(stage.client, 'b');
  await waitUntil(() => stage.calls.length > 0, { what: 'the other call' });
  stage.answer(stage.calls[0], { outcome: 'released' });
  await other;

  expect(await failed).toMatchObject({ cause: { name: 'AbortError' } });
  expect(stage.calls.map(({ params }) => params.input['leaseId'])).toEqual(['b']);
});

test('when the client is closed, calls in progress and later ones are refused', async () => {
  const stage = await openStage();

  const inProgress = codeOf(release(stage.client));
  await waitUntil(() => stage.calls.length === 1, { what: 'the call' });
  await stage.client.close();

  expect([await inProgress, await codeOf(release(stage.client))]).toEqual([
    'client.closed',
    'client.closed',
  ]);
});

test('what is no JSON ends its call with an unknown outcome, and the next call is answered', async () => {
  const stage = await openStage();

  const code = codeOf(release(stage.client));
  await waitUntil(() => stage.calls.length === 1, { what: 'the call' });
  stage.sockets[0]?.send(`{"id":${String(stage.calls[0]?.id)},"result":{"ty`);
  const failedWith = await code;
  const next = release(stage.client);
  await waitUntil(() => stage.calls.length === 2, { what: 'the next call' });
  stage.answer(stage.calls[1], { outcome: 'released' });

  expect([failedWith, await next]).toEqual(['request.outcome_unknown', { outcome: 'released' }]);
});
