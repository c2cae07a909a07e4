import { once } from 'node:events';
import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import { connect, Socket, type AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createRequestGate, type RequestGateDeps } from './http-server.ts';

const OPEN: RequestGateDeps = {
  nowMs: () => 0,
  addressOf: () => '192.0.2.1',
  hasGoodToken: () => false,
  isShut: () => false,
  peerOf: () => undefined,
  nextTurn: (work) => setImmediate(work),
};

const REQUEST = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';

describe('a socket', () => {
  /** Sends bytes over one socket. @returns what came back, and how many requests were handed on. */
  async function send(
    parts: readonly string[],
    answer: (response: ServerResponse) => void,
  ): Promise<{ received: string; seen: number }> {
    let seen = 0;
    const gate = createRequestGate(OPEN);
    const server = createServer(
      gate.through((_request, response) => {
        seen += 1;
        answer(response);
      }),
    );
    gate.watch(server);
    server.listen(0, '127.0.0.1');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, 'listening');
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    const closed = new Promise((resolve) => socket.once('close', resolve));
    let received = '';
    socket.setEncoding('utf8').on('data', (text: string) => (received += text));
    socket.on('error', () => undefined);
    for (const part of parts) {
      await new Promise((resolve) => socket.write(part, resolve));
    }
    await closed;
    return { received, seen };
  }

  test('that brings two thousand requests at once is closed, and none of them is looked at', async () => {
    const { received, seen } = await send([REQUEST.repeat(2_000)], (response) => response.end());

    expect({ received, seen }).toEqual({ received: '', seen: 0 });
  });

  test('that brings them with other ends of lines, or in another version, is closed as well', async () => {
    const others = ['GET / HTTP/1.1\nHost: x\n\n', 'GET /\r\n\r\n'];

    for (const other of others) {
      expect((await send([other.repeat(2_000)], (response) => response.end())).seen).toBe(0);
    }
  });

  test('that goes on while many of its requests are not answered is closed', async () => {
    const { received, seen } = await send(Array<string>(20).fill(REQUEST), () => undefined);

    expect(received).toBe('');
    expect(seen).toBeLessThanOrEqual(16);
  });

  test('that brings a few is answered', async () => {
    const last = REQUEST.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n');
    const { received, seen } = await send([REQUEST.repeat(9) + last], (response) =>
      response.end('ok'),
    );

    expect(seen).toBe(10);
    expect(received.match(/HTTP\/1.1 200/gu)).toHaveLength(10);
  });
});

describe('a turn of the event loop', () => {
  function openStage(deps: Partial<RequestGateDeps> = {}) {
    let nowMs = 0;
    const begun: string[] = [];
    const turns: (() => void)[] = [];
    const asked: { from: string; socket: Socket }[] = [];
    const gate = createRequestGate({
      ...OPEN,
      ...deps,
      nowMs: () => nowMs,
      addressOf: ({ headers }) => String(headers.from),
      nextTurn: (work) => turns.push(work),
    });
    const handle = gate.through(({ url, headers }) => {
      begun.push(`${String(headers.from)} ${String(url)}`);
      nowMs += 3;
    });
    return {
      begun,
      get closed() {
        return asked.filter(({ socket }) => socket.destroyed).map(({ from }) => from);
      },
      ask(from: string, url: string) {
        const socket = new Socket();
        asked.push({ from, socket });
        const request = Object.assign(new IncomingMessage(socket), { url, headers: { from } });
        handle(request, new ServerResponse(request));
      },
      turn: () => turns.shift()?.(),
    };
  }

  test('begins requests for a few milliseconds, and the addresses take turns', () => {
    const stage = openStage();
    for (const nth of [1, 2, 3, 4, 5]) stage.ask('a', `/${String(nth)}`);
    stage.ask('b', '/1');
    const first = [...stage.begun];
    stage.turn();

    expect(first).toEqual(['a /1', 'a /2']);
    expect(stage.begun).toEqual([...first, 'a /3', 'b /1']);
    stage.turn();
    expect(stage.begun.slice(4)).toEqual(['a /4', 'a /5']);
  });

  test('begins renewals of known callers whatever waits', () => {
    const stage = openStage({ hasGoodToken: ({ headers }) => headers.from === 'known' });
    for (const nth of [1, 2, 3]) stage.ask('a', `/${String(nth)}`);
    stage.ask('known', '/trpc/leases.heartbeat');
    stage.ask('known', '/trpc/leases.list?input=1');
    stage.ask('a', '/trpc/leases.heartbeat');

    expect(stage.begun).toEqual(['a /1', 'a /2', 'known /trpc/leases.heartbeat']);
  });

  test('lets so many wait, and closes the sockets of others', () => {
    const stage = openStage();
    for (let nth = 0; nth < 2_010; nth += 1) stage.ask(`a${String(nth % 10)}`, '/');

    expect(stage.begun).toHaveLength(2);
    expect(stage.closed).toHaveLength(8);
  });

  test('lets fewer of one address wait, so that others find a place', () => {
    const stage = openStage();
    for (let nth = 0; nth < 600; nth += 1) stage.ask('a', '/');
    stage.ask('b', '/');
    stage.turn();

    expect(stage.closed).toEqual(Array<string>(98).fill('a'));
    expect(stage.begun).toContain('b /');
  });

  test('begins requests of another datacenter, though strangers with its address are closed', () => {
    const connect = '/trpc/peer.connect';
    const stage = openStage({ peerOf: ({ url }) => (url === connect ? 'peer:dc2' : undefined) });
    for (let nth = 0; nth < 600; nth += 1) stage.ask('a', '/');
    stage.ask('a', connect);
    stage.turn();

    expect(stage.closed).toHaveLength(98);
    expect(stage.begun).toContain(`a ${connect}`);
  });

  test('closes the sockets of those that are not answered any more', () => {
    const stage = openStage({ isShut: ({ headers }) => headers.from === 'a' });
    stage.ask('a', '/');
    stage.ask('b', '/');

    expect([stage.begun, stage.closed]).toEqual([['b /'], ['a']]);
  });
});
