/** Each answer of a backend ends, and one that was cut is never taken for a whole one. */
import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo, type Socket } from 'node:net';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { answerClientError } from './refusal.ts';
import {
  addressOf,
  openGatewayStage,
  startBackend,
  upgradeOf,
  type GatewayStage,
} from './testing/gateway-stage.ts';

describe('an answer without a body', () => {
  const empty = { 'content-length': '0' };
  test.each([
    ['a redirect', 'GET', 302, { ...empty, location: '/login' }],
    ['an empty answer', 'GET', 200, empty],
    ['an empty answer to a body', 'POST', 200, empty],
    ['what was created', 'POST', 201, empty],
    ['the head of an empty answer', 'HEAD', 200, empty],
    ['the head of an answer', 'HEAD', 200, { 'content-length': '5' }],
    ['no content', 'GET', 204, {}],
    ['what has not changed', 'GET', 304, { etag: '"a"' }],
  ])('%s ends, and nothing of it stays open', async (_what, method, status, headers) => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    backend.handler = (request, response) => {
      request.resume().on('end', () => response.writeHead(status, headers).end());
    };
    const token = await stage.controller.sign();

    const reply = await stage.ask(`/t/${token}/a`, {
      method,
      ...(method === 'POST' ? { body: 'abc' } : {}),
    });

    expect([reply.status, reply.body]).toEqual([status, '']);
    const { 'content-length': length, etag } = reply.headers;
    expect({ 'content-length': length, etag }).toMatchObject(
      'location' in headers ? empty : headers,
    );
    await waitUntil(async () => (await openConnections(stage)) === 0);
  });
});

test('a request whose length is zero in more than one digit has no body', async () => {
  const stage = await openGatewayStage();
  const backend = await startBackend();
  stage.controller.address = backend.address;
  const token = await stage.controller.sign();
  const said = await stage.raw(
    `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 00\r\nConnection: close\r\n\r\n`,
  );
  expect(said).toMatch(/^HTTP\/1\.1 200/u);
  expect(backend.requests[0]?.headers['content-length']).toBe('0');
});

describe('an answer that ends with its connection', () => {
  const old = (token: string): string => `GET /t/${token}/ HTTP/1.0\r\n\r\n`;
  const unframed = 'HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\nbegun';
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n';

  test.each([
    ['in place of a WebSocket', upgradeOf, unframed],
    ['to a client of HTTP/1.0', old, chunked],
  ])('%s is reset where the gateway cuts it, and nothing follows it', async (_to, head, answer) => {
    const { stage, asked } = await begin(head, answer);
    stage.controller.ended.add(stage.controller.leaseId);
    expect(await asked.why).toBe('ECONNRESET');
    expect(asked.said().match(/HTTP\/1\.1/gu)).toHaveLength(1);
  });

  test.each([
    ['in place of a WebSocket', upgradeOf, chunked],
    ['to a client of HTTP/1.0', old, chunked],
  ])('%s is reset where the backend breaks it off', async (_to, head, answer) => {
    const { sockets, asked } = await begin(head, answer);
    for (const socket of sockets) socket.destroy();
    expect(await asked.why).toBe('ECONNRESET');
    expect(asked.said().match(/HTTP\/1\.1/gu)).toHaveLength(1);
  });

  test('to a client of HTTP/1.0 arrives whole where nothing cuts it', async () => {
    const { sockets, asked } = await begin(old, chunked);
    for (const socket of sockets) socket.write('0\r\n\r\n');
    expect(await asked.why).toBe('end');
    expect(asked.said()).toMatch(/begun$/u);
  });
});

describe('an answer that has begun is cut, and nothing is written into it, where its client sends', () => {
  const begun = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n';
  const page = (token: string): string => `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\n\r\n`;
  const upload = (token: string): string =>
    `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n`;

  test.each([
    ['a piece of its body that cannot be read', upload, 'no length\r\n'],
    ['a request that cannot be read', page, 'no request\r\n\r\n'],
    ['a WebSocket that would not be let in', page, upgradeOf('a.b.c')],
    ['a WebSocket that would be let in', page, undefined],
  ])('%s', async (_what, head, next) => {
    const { stage, token, asked } = await begin(head, begun);
    asked.more(next ?? upgradeOf(token));
    expect(await asked.why).toBe('ECONNRESET');
    expect(asked.said().match(/HTTP\/1\.1/gu)).toHaveLength(1);
    await waitUntil(async () => (await openConnections(stage)) === 0);
    const metrics = await (await fetch(`${stage.gateway.metricsUrl}/metrics`)).text();
    expect(metrics).toContain('leasehold_gateway_refusals_total{code="gateway.bad_request"} 1');
  });
});

describe('an answer that is complete, and not sent yet, arrives whole', () => {
  const page = 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n';

  test('and a WebSocket is opened after it', async () => {
    const stage = await openGatewayStage();
    stage.controller.address = (await startBackend()).address;
    const asked = send(stage, `${page}${upgradeOf(await stage.controller.sign())}`);
    await waitUntil(() => asked.said().includes('HTTP/1.1 101'));
    expect(asked.said()).toMatch(
      /^HTTP\/1\.1 200[^]*\{"status":"ok"\}\r\n0\r\n\r\nHTTP\/1\.1 101/u,
    );
  });

  test('although the next request cannot be read, and nothing is written after it', async () => {
    // More than the system takes at once.
    const body = 'x'.repeat(16_777_216);
    const server = http.createServer((_request, response) => response.end(body));
    server.on('clientError', answerClientError);
    onTestFinished(() => void server.close());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const asked = send({ port }, `${page}no request\r\n\r\n`);
    expect(await asked.why).toBe('end');
    const [, answered = ''] = asked.said().split('\r\n\r\n');
    expect(answered === body).toBe(true);
  });

  test('and nothing is opened where its connection ends with it', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const last = page.replace('Host', 'Connection: close\r\nHost');
    const asked = send(stage, `${last}${upgradeOf(await stage.controller.sign())}`);
    expect(await asked.why).toBe('end');
    expect(asked.said().match(/HTTP\/1\.1/gu)).toHaveLength(1);
    expect(backend.sockets.size).toBe(0);
  });
});

test('a client of HTTP/1.0 is not told to go on with its body: it would take that for the answer', async () => {
  const stage = await openGatewayStage();
  const backend = await startBackend();
  stage.controller.address = backend.address;
  const token = await stage.controller.sign();
  const said = await stage.raw(
    `POST /t/${token}/ HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc`,
  );
  expect(said).toMatch(/^HTTP\/1\.1 200/u);
  expect(said).toContain('"bytes":3');
});

describe('an answer in place of a WebSocket is over, and its connection closed', () => {
  const open = async () => {
    const stage = await openGatewayStage();
    const server = net.createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => {
        socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno');
      });
    });
    onTestFinished(() => void server.close());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    stage.controller.address = addressOf(server);
    stage.controller.validForMs = 1_000_000;
    const token = await stage.controller.sign();
    const socket = net.connect({ port: stage.port, host: '127.0.0.1', allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => undefined);
    return { stage, socket, head: upgradeOf(token) };
  };

  test('when its client closes it, although that has sent more than it was asked for', async () => {
    const { stage, socket, head } = await open();
    let said = '';
    socket.on('data', (piece: Buffer) => (said += piece.toString()));
    const ended = once(socket, 'end');
    socket.write(`${head}x`);
    await ended;
    expect(said).toMatch(/^HTTP\/1\.1 401[^]*no$/u);
    socket.end();
    await waitUntil(async () => (await openConnections(stage)) === 0);
  });

  test('some seconds later when its client never closes it', async () => {
    const { stage, socket, head } = await open();
    const ended = once(socket.resume(), 'end');
    socket.write(head);
    await ended;
    expect(await openConnections(stage)).toBe(1);
    stage.passTime(5_000);
    await waitUntil(async () => (await openConnections(stage)) === 0);
  });
});

/** An answer whose beginning has arrived. */
async function begin(head: (token: string) => string, answer: string) {
  const stage = await openGatewayStage();
  const sockets: Socket[] = [];
  const server = net.createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    socket.once('data', () => socket.write(answer));
    onTestFinished(() => void socket.destroy());
  });
  onTestFinished(() => void server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stage.controller.address = addressOf(server);
  const token = await stage.controller.sign();
  const asked = send(stage, head(token));
  await waitUntil(() => asked.said().includes('begun'));
  return { stage, token, sockets, asked };
}

/** Sends bytes. `why` is how the other end has ended the connection. */
function send({ port }: Pick<GatewayStage, 'port'>, text: string) {
  const socket = net.connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  let said = '';
  socket.setEncoding('latin1').on('data', (piece: string) => (said += piece));
  const why = once(socket, 'end').then(
    () => 'end',
    (error: unknown) => (error as NodeJS.ErrnoException).code,
  );
  socket.write(text, 'latin1');
  const more = (text: string): void => void socket.write(text, 'latin1');
  return { said: () => said, why, more };
}

async function openConnections({ gateway }: GatewayStage): Promise<number> {
  const metrics = await (await fetch(`${gateway.metricsUrl}/metrics`)).text();
  return Number(/^leasehold_gateway_open_connections\{.*\} (\d+)$/mu.exec(metrics)?.[1]);
}
