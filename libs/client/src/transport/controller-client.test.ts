import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { catchUncaught, waitUntil } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocketServer, type WebSocket } from 'ws';
import {
  createControllerClient,
  type ControllerClient,
  type ControllerClientOptions,
} from './controller-client.ts';
import { isUnreachable, leaseholdErrorOf } from './errors.ts';

const TOKEN = 'lh_test';

function aClient(
  options: Partial<ControllerClientOptions> & Pick<ControllerClientOptions, 'url'>,
): ControllerClient {
  const client = createControllerClient({
    token: TOKEN,
    transport: 'ws',
    random: () => 0,
    ...options,
  });
  onTestFinished(() => client.close());
  return client;
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** A server that accepts connections and sends nothing, like a dead machine behind a load balancer. */
async function silentServer(): Promise<string> {
  const server = createServer();
  onTestFinished(() => void server.close());
  server.on('connection', (socket) => {
    onTestFinished(() => void socket.destroy());
  });
  return `http://127.0.0.1:${String(await portOf(server))}`;
}

/** An address where nothing listens. */
async function deadAddress(): Promise<string> {
  const server = createServer();
  const port = await portOf(server);
  server.close();
  await once(server, 'close');
  return `http://127.0.0.1:${String(port)}`;
}

/** A WebSocket server that hands its connections, one after the other, to `onSocket`. */
async function webSocketServer(
  onSocket: (socket: WebSocket, nth: number) => void,
): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => {
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  let count = 0;
  server.on('connection', (socket) => {
    onSocket(socket, (count += 1));
  });
  await once(server, 'listening');
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

const ANSWER_DATA = {
  leaseholdCode: 'key.terminating',
  retryable: true,
  incidentId: null,
  details: { remainingMs: 5 },
};
const ANSWER = { error: { message: 'wait', code: -32_000, data: ANSWER_DATA } };

/** A controller that answers, over both transports; `paths` are those that were asked for. */
async function answeringServer(paths: (string | undefined)[] = []): Promise<string> {
  const server = createHttpServer((request, response) => {
    paths.push(request.url);
    const isSign = request.url === '/healthz';
    response.writeHead(isSign ? 200 : 503, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isSign ? {} : ANSWER));
  });
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket, request) => {
    paths.push(request.url);
    answerEach(socket);
  });
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${String(await portOf(server))}`;
}

function answerEach(socket: WebSocket): void {
  socket.on('message', (message: Buffer) => {
    const text = message.toString();
    if (text === 'PING') {
      socket.send('PONG');
      return;
    }
    const { id } = JSON.parse(text) as { id?: number };
    if (id !== undefined) socket.send(JSON.stringify({ id, ...ANSWER }));
  });
}

const failureOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'no failure',
    (error: unknown) => error,
  );

describe('controller client', () => {
  test.each(['http', 'ws'] as const)(
    'over %s a call without an answer ends in time, its outcome unknown',
    async (transport) => {
      const client = aClient({ url: await silentServer(), transport, callTimeoutMs: 200 });

      const error = await failureOf(client.api.keys.get.query({ name: 'k' }));

      expect(leaseholdErrorOf(error)).toMatchObject({
        code: 'request.outcome_unknown',
        retryable: true,
      });
      expect(isUnreachable(error)).toBe(false);
    },
  );

  test('over http a call to an address where nothing listens is unreachable, not unknown', async () => {
    const client = aClient({ url: await deadAddress(), transport: 'http' });

    const error = await failureOf(client.api.keys.get.query({ name: 'k' }));

    expect(isUnreachable(error)).toBe(true);
    expect(leaseholdErrorOf(error)).toBeUndefined();
  });

  test('a call whose connection breaks before the answer has an unknown outcome', async () => {
    const url = await webSocketServer((socket) => {
      socket.on('message', (data: Buffer) => {
        if (data.toString().includes('keys.get')) socket.terminate();
      });
    });
    const client = aClient({ url });

    const error = await failureOf(client.api.keys.get.query({ name: 'k' }));

    expect(leaseholdErrorOf(error)?.code).toBe('request.outcome_unknown');
  });

  test.each([
    [4_401, 'auth.required', 'auth.required'],
    [1_008, 'quota.exceeded', 'quota.exceeded'],
    // Ended while it was under way: it may have been carried out.
    [4_401, 'token is no longer in force', 'request.outcome_unknown'],
  ])('a connection that ends with %s "%s" fails its calls with %s', async (code, reason, said) => {
    const url = await webSocketServer((socket) => {
      socket.on('message', (data: Buffer) => {
        if (data.toString().includes('keys.get')) socket.close(code, reason);
      });
    });
    const client = aClient({ url });

    const error = await failureOf(client.api.keys.get.query({ name: 'k' }));

    expect(leaseholdErrorOf(error)?.code).toBe(said);
  });

  test('an error of the registry arrives with its code, details and incident', async () => {
    const url = await webSocketServer(answerEach);
    const client = aClient({ url });

    const error = await failureOf(client.api.keys.get.query({ name: 'k' }));

    expect(leaseholdErrorOf(error)).toEqual({
      code: 'key.terminating',
      message: 'wait',
      retryable: true,
      incidentId: null,
      details: { remainingMs: 5 },
    });
  });

  test('a connection that has gone dead is noticed and replaced', async () => {
    let secondConnection: (() => void) | undefined;
    const reconnected = new Promise<void>((resolve) => {
      secondConnection = resolve;
    });
    const url = await webSocketServer((socket, nth) => {
      // The first connection goes dead: nothing is read from it, and its close is not answered.
      if (nth === 1) socket.pause();
      else secondConnection?.();
    });
    const states: string[] = [];
    aClient({ url, pingMs: 50, pongTimeoutMs: 100, onConnection: (state) => states.push(state) });

    await reconnected;
    await waitUntil(() => states.filter((state) => state === 'open').length === 2);

    // Whether the first closed before the second opened or after: the last report is true.
    expect(states.at(-1)).toBe('open');
  });

  test('an onConnection that throws is reported, and breaks no connection', async () => {
    const uncaught = catchUncaught();
    const thrown = new Error('mine');
    const states: string[] = [];
    const client = aClient({
      url: await webSocketServer(answerEach),
      onConnection(state) {
        states.push(state);
        throw thrown;
      },
    });

    const error = await failureOf(client.api.keys.get.query({ name: 'k' }));
    await client.close();
    await waitUntil(() => states.includes('closed'));

    expect(leaseholdErrorOf(error)?.code).toBe('key.terminating');
    expect(states).toEqual(['open', 'closed']);
    expect(uncaught).toEqual([thrown, thrown]);
  });

  test.each(['ws', 'http'] as const)(
    'over %s an address that accepts connections and sends nothing is passed over for the next',
    async (transport) => {
      const url = await answeringServer();
      const client = aClient({ url: [await silentServer(), url], transport });

      const error = await failureOf(client.api.keys.get.query({ name: 'k' }));

      expect(leaseholdErrorOf(error)?.code).toBe('key.terminating');
    },
  );

  test.each([
    ['http', '/trpc'],
    ['http', '/trpc/'],
    ['ws', '/trpc'],
    ['ws', '/trpc/'],
  ] as const)(
    'over %s an address with the path of the API, %s, is that of the controller',
    async (transport, path) => {
      const paths: (string | undefined)[] = [];
      const url = await answeringServer(paths);
      const client = aClient({ url: `${url}${path}`, transport });

      const error = await failureOf(client.api.keys.get.query({ name: 'k' }));

      expect(leaseholdErrorOf(error)?.code).toBe('key.terminating');
      expect(paths.map((each) => each?.split('?')[0])).toEqual([
        transport === 'ws' ? '/trpc' : '/trpc/keys.get',
      ]);
    },
  );

  test('over http nothing was sent if none of several addresses answers', async () => {
    const urls = [await deadAddress(), await deadAddress()];
    const client = aClient({ url: urls, transport: 'http' });

    const error = await failureOf(client.api.tokens.revoke.mutate({ tokenId: 'k' }));

    expect(isUnreachable(error)).toBe(true);
  });

  test.each([
    ['', 'must be an http:// or https:// URL'],
    ['ftp://a', 'must be an http:// or https:// URL'],
    ['http://a,', 'entry 2 of the list must be an http:// or https:// URL'],
    [['http://a', 'http://b,http://c'], 'entry 2 of the list must be'],
    ['http://a,http://a/', 'entry 2 of the list is a duplicate'],
    ['http://a,http://a/trpc/', 'entry 2 of the list is a duplicate'],
    [[], 'must be 1 to 16 addresses of controllers'],
    ['http://a?token=secret', 'without a query'],
  ])('an invalid list of addresses is refused with the name of its field: %j', (url, problem) => {
    const made = (): unknown => aClient({ url, transport: 'http' });

    expect(made).toThrow(`url: ${problem.startsWith('without') ? 'must be' : problem}`);
    expect(made).toThrow(problem);
    expect(made).not.toThrow('secret');
  });

  test('presents its token in the first message, and never in the address', async () => {
    let resolveFirst: ((seen: { address: string; message: string }) => void) | undefined;
    const first = new Promise<{ address: string; message: string }>((resolve) => {
      resolveFirst = resolve;
    });
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    onTestFinished(() => {
      for (const socket of server.clients) socket.terminate();
      server.close();
    });
    server.on('connection', (socket, request) => {
      socket.once('message', (data: Buffer) => {
        resolveFirst?.({ address: request.url ?? '', message: data.toString() });
      });
    });
    await once(server, 'listening');
    aClient({ url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/` });

    const { address, message } = await first;

    expect(address).toBe('/trpc?connectionParams=1');
    expect(JSON.parse(message)).toEqual({ method: 'connectionParams', data: { token: TOKEN } });
  });
});
