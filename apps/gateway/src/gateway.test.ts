import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { text } from 'node:stream/consumers';
import { waitUntil } from '@leasehold/testing';
import { createSigningKey } from '@leasehold/keys-core/gateway-tokens';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { Elsewhere } from './controller-link.ts';
import { Refusal } from './refusal.ts';
import {
  addressOf,
  openGatewayStage,
  startBackend,
  upgradeOf,
  type GatewayStage,
} from './testing/gateway-stage.ts';

/** A WebSocket through the gateway, and what it was sent. */
async function openSocket(
  { port }: GatewayStage,
  path: string,
): Promise<{ readonly socket: WebSocket; readonly messages: string[] }> {
  const socket = new WebSocket(`ws://127.0.0.1:${String(port)}${path}`);
  const messages: string[] = [];
  socket.on('message', (data: Buffer) => messages.push(data.toString()));
  socket.on('error', () => undefined);
  onTestFinished(() => socket.terminate());
  await once(socket, 'open');
  return { socket, messages };
}

describe('passing', () => {
  test('a request by a token in the path arrives with who sent it, and without the token', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign({ sub: 'änna%', claims: { role: 'é' } });

    const reply = await stage.ask(`/t/${token}/a/b?c=d`, {
      headers: {
        referer: `http://x/t/${token}/`,
        cookie: `theme=dark; leasehold-gateway=${token}`,
        'x-leasehold-user': 'root',
        x_leasehold_user: 'root',
        'x-forwarded-for': '6.6.6.6',
      },
    });

    expect(reply.status).toBe(200);
    expect(reply.json.url).toBe('/a/b?c=d');
    expect(reply.json.headers).toMatchObject({
      'x-leasehold-user': '%C3%A4nna%25',
      'x-leasehold-claims': String.raw`{"role":"\u00e9"}`,
      'x-leasehold-key': 'room',
      'x-leasehold-fencing-token': '1',
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-prefix': '/k/_/room',
      cookie: 'theme=dark',
    });
    expect(JSON.stringify(reply.json)).not.toContain(token);
    expect(stage.log()).not.toContain(token);
    expect(Object.keys(reply.json.headers)).not.toContain('x_leasehold_user');
    expect(reply.headers['referrer-policy']).toBe('no-referrer');
  });

  test('no other token that a client has reaches the backend, but a credential of the program does', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    const other = await stage.controller.sign({ key: 'other' });
    const authorizationFor = async (
      path: string,
      headers: Record<string, string>,
    ): Promise<string | undefined> => {
      const { json } = await stage.ask(path, { headers });
      return json.headers['authorization'];
    };
    const own = `Bearer ${other}`;
    const cookie = `leasehold-gateway=${token}`;
    expect(await authorizationFor(`/t/${token}/`, { authorization: own })).toBeUndefined();
    expect(await authorizationFor('/k/_/room/', { authorization: own, cookie })).toBeUndefined();
    const ofProgram = 'Bearer of.the.program';
    expect(await authorizationFor(`/t/${token}/`, { authorization: ofProgram })).toBe(ofProgram);
    expect(await authorizationFor('/k/_/room/', { authorization: ofProgram, cookie })).toBe(
      ofProgram,
    );
  });

  test('a body of any size arrives whole, and so does the answer', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    const body = Buffer.alloc(5_000_000, 'x');

    const reply = await stage.ask(`/t/${token}/`, { method: 'POST', body });
    expect(reply.json.bytes).toBe(body.length);

    backend.handler = (_request, response) => void response.end(body);
    expect((await stage.ask(`/t/${token}/`)).body).toHaveLength(body.length);
  });

  test('pieces of an answer arrive when they are sent', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    let response: http.ServerResponse | undefined;
    backend.handler = (_request, to) => {
      response = to;
      to.writeHead(200, { 'content-type': 'text/event-stream' });
      to.write('data: 1\n\n');
    };
    const token = await stage.controller.sign();
    const request = http.get({ port: stage.port, path: `/t/${token}/events`, agent: false });
    const [answer] = (await once(request, 'response')) as [http.IncomingMessage];
    const [first] = (await once(answer, 'data')) as [Buffer];
    expect(first.toString()).toBe('data: 1\n\n');

    request.destroy();
    await waitUntil(() => response?.destroyed === true, { what: 'the end at the backend' });
  });

  test('a WebSocket passes messages in both directions', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();

    const { socket, messages } = await openSocket(stage, `/t/${token}/ws?a=b`);
    socket.send('hello');

    await waitUntil(() => messages.includes('one:hello'));
    const { url, headers } = JSON.parse(messages[0] ?? '') as {
      url: string;
      headers: Record<string, string>;
    };
    expect(url).toBe('/ws?a=b');
    expect(headers['x-leasehold-user']).toBe('anna');
    socket.close();
    await once(socket, 'close');
    await waitUntil(() => backend.sockets.size === 0);
  });
});

describe('fencing', () => {
  test('what is open ends with its grant, and the next request goes to the next one', async () => {
    const stage = await openGatewayStage();
    const [one, two] = [await startBackend('one'), await startBackend('two')];
    stage.controller.address = one.address;
    const token = await stage.controller.sign();
    const { socket } = await openSocket(stage, `/t/${token}/`);

    stage.controller.ended.add(stage.controller.leaseId);
    stage.controller.move(two.address);

    await once(socket, 'close');
    expect((await stage.ask(`/t/${token}/`)).json.name).toBe('two');
    expect(one.sockets.size).toBe(0);
  });

  test('nothing is passed once the validity is over, although the clock has not been looked at', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    const { socket, messages } = await openSocket(stage, `/t/${token}/`);
    await waitUntil(() => messages.length === 1);
    stage.controller.beforeSync = () => new Promise(() => undefined);
    stage.controller.answerRoute = () => new Promise(() => undefined);

    // As after a freeze: the message is there before any timer has run.
    const arrived = backend.sockets.values().next().value;
    arrived?.prependListener('data', () => stage.passTime(120_000));
    socket.send('stale');

    await once(socket, 'close');
    expect(messages).toHaveLength(1);
  });
});

describe('waking', () => {
  test('requests wait while the backend starts, and are then passed', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign({ start: 'abc' });
    let ready = (): void => undefined;
    stage.controller.answerRoute = (input) =>
      new Promise((resolve) => {
        ready = () => resolve(stage.controller.routeTo(input));
      });
    const replies = Promise.all([
      stage.ask(`/t/${token}/`),
      stage.ask(`/t/${token}/`, { method: 'POST', body: 'abc' }),
    ]);
    await waitUntil(async () => (await metric(stage, 'leasehold_gateway_held')) === 2);
    expect(stage.controller.questions).toMatchObject([{ start: 'abc' }]);
    ready();
    expect((await replies).map(({ status, json }) => [status, json.bytes])).toEqual([
      [200, 0],
      [200, 3],
    ]);
  });

  test('a WebSocket whose client leaves is not held any more, and what one sends meanwhile arrives', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    let ready = (): void => undefined;
    stage.controller.answerRoute = (input) =>
      new Promise((resolve) => {
        ready = () => resolve(stage.controller.routeTo(input));
      });
    const open = (): net.Socket => {
      const socket = net.connect({ port: stage.port, host: '127.0.0.1', allowHalfOpen: true });
      onTestFinished(() => void socket.destroy());
      socket.write(upgradeOf(token));
      return socket;
    };
    const held = (count: number): Promise<unknown> =>
      waitUntil(async () => (await metric(stage, 'leasehold_gateway_held')) === count);
    const leaving = open();
    await held(1);
    leaving.end();
    await held(0);

    const early = open();
    let said = '';
    early.on('data', (piece: Buffer) => (said += piece.toString('latin1')));
    await held(1);
    // "early", as a client's frame with a mask of zeros.
    early.write(Buffer.from([0x81, 0x85, 0, 0, 0, 0, ...Buffer.from('early')]));
    early.write(Buffer.from([0x89, 0x80, 0, 0, 0, 0]));
    ready();
    await waitUntil(() => said.includes('one:early'));
    expect(said).toMatch(/^HTTP\/1\.1 101/u);
  });

  test('a start that fails is answered with a code, and nothing of the program', async () => {
    const stage = await openGatewayStage();
    const token = await stage.controller.sign({ start: 'abc' });
    stage.controller.answerRoute = () =>
      Promise.reject(new Refusal('gateway.start_failed', { reason: 'backend.start_failed' }));
    const reply = await stage.ask(`/t/${token}/`, { headers: { 'x-request-id': 'id-1' } });
    expect(reply.status).toBe(502);
    expect(reply.json.error).toMatchObject({
      code: 'gateway.start_failed',
      reason: 'backend.start_failed',
      requestId: 'id-1',
    });
    const page = await stage.ask(`/t/${token}/`, {
      headers: { accept: 'text/html', 'sec-fetch-mode': 'cors' },
    });
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
  });

  test('a backend that refuses connections is asked for again, and only for what nobody has received', async () => {
    const stage = await openGatewayStage();
    const [dead, two] = [await startBackend('dead'), await startBackend('two')];
    dead.close();
    const token = await stage.controller.sign();
    stage.controller.answerRoute = (input) => {
      stage.controller.move(
        stage.controller.questions.length % 2 === 1 ? dead.address : two.address,
      );
      return Promise.resolve(stage.controller.routeTo(input));
    };
    expect((await stage.ask(`/t/${token}/`)).json.name).toBe('two');
    expect(stage.controller.questions).toHaveLength(2);
    stage.controller.ended.add(stage.controller.leaseId);
    await waitUntil(async () => (await metric(stage, 'leasehold_gateway_routes')) === 0);
    const post = await stage.ask(`/t/${token}/`, { method: 'POST', body: 'a' });
    expect([post.status, post.json.error.code]).toEqual([502, 'gateway.backend_failed']);
    const { messages } = await openSocket(stage, `/t/${token}/`);
    await waitUntil(() => messages.length > 0);
  });
});

test('while the backend that its controller names takes no connection, a request is held for as long as for a start', async () => {
  const stage = await openGatewayStage({ LEASEHOLD_GATEWAY_HOLD_MS: '20000' });
  const dead = await startBackend('dead');
  dead.close();
  stage.controller.address = dead.address;
  const token = await stage.controller.sign();
  const { questions } = stage.controller;
  const held = stage.ask(`/t/${token}/`);
  await waitUntil(() => questions.length >= 4);
  const two = await startBackend('two');
  stage.controller.move(two.address);
  expect((await held).json.name).toBe('two');

  two.close();
  const refused = stage.ask(`/t/${token}/`);
  const before = questions.length;
  await waitUntil(() => questions.length >= before + 3);
  stage.passTime(20_000);
  expect((await refused).json.error.code).toBe('gateway.backend_unreachable');
});

test('a backend that leaves connections unanswered is given up in time, and asked for again', async () => {
  const stage = await openGatewayStage();
  stage.controller.validForMs = 1_000_000;
  stage.controller.address = await startFullBackend();
  const token = await stage.controller.sign();
  const held = stage.ask(`/t/${token}/`);
  const open = 'leasehold_gateway_open_connections{program="room"}';
  await waitUntil(async () => (await metric(stage, open)) === 1);
  const two = await startBackend('two');
  stage.controller.move(two.address);
  await waitUntil(() => {
    stage.passTime(1_000);
    return two.requests.length === 1;
  });
  expect((await held).json.name).toBe('two');
});

describe('backends that do not keep to the protocol', () => {
  const lines = {
    'a status below 100': 'HTTP/1.1 099 OK',
    'a status of zero': 'HTTP/1.1 000 OK',
    'a control character in the reason': 'HTTP/1.1 200 O\u0001K',
    'no protocol at all': 'hello',
    'an upgrade to nothing': 'HTTP/1.1 101 Switching Protocols',
    'an upgrade that its connection does not name':
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket',
    'an upgrade that nobody asked for':
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other',
  };
  test.each(Object.entries(lines))('%s: the gateway answers, and goes on', async (_name, line) => {
    const stage = await openGatewayStage();
    const address = await startRawBackend(`${line}\r\nContent-Length: 1\r\n\r\nx`);
    stage.controller.address = address;
    const token = await stage.controller.sign();
    const { status } = await stage.ask(`/t/${token}/`, { method: 'POST' });
    expect(status).toBe(line.startsWith('HTTP/1.1 200') ? 200 : 502);
    const socket = new WebSocket(`ws://127.0.0.1:${String(stage.port)}/t/${token}/`);
    await once(socket, 'error');
    const backend = await startBackend();
    stage.controller.move(backend.address);
    const next = await stage.controller.sign({ grant: stage.controller.leaseId });
    expect((await stage.ask(`/t/${next}/`)).status).toBe(200);
  });

  test('an answer that breaks off is counted as failed, and one that its client leaves as left', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    backend.handler = (_request, response) => {
      response.write('begun');
      if (backend.requests.length === 1) response.socket?.end();
    };
    await expect(stage.ask(`/t/${token}/`)).rejects.toThrow('aborted');
    const left = http.get({ port: stage.port, path: `/t/${token}/`, agent: false });
    const [answer] = (await once(left, 'response')) as [http.IncomingMessage];
    await once(answer, 'data');
    left.destroy();
    const count = (outcome: string): Promise<number> =>
      metric(stage, `leasehold_gateway_requests_total{kind="request",outcome="${outcome}"}`);
    await waitUntil(async () => (await count('left')) === 1);
    expect([await count('failed'), await count('answered')]).toEqual([1, 0]);
  });
});

test.each([
  ['ends', (socket: net.Socket) => void socket.end()],
  ['resets', (socket: net.Socket) => void socket.resetAndDestroy()],
])(
  'a WebSocket whose client %s it before its backend answers is over, and counted as left',
  async (_how, leave) => {
    const stage = await openGatewayStage();
    const asked: net.Socket[] = [];
    const server = net.createServer((socket) => {
      socket.once('data', () => asked.push(socket));
      onTestFinished(() => void socket.destroy());
    });
    onTestFinished(() => void server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    stage.controller.address = addressOf(server);
    const client = net.connect({ port: stage.port, host: '127.0.0.1', allowHalfOpen: true });
    onTestFinished(() => void client.destroy());
    client.write(upgradeOf(await stage.controller.sign()));
    await waitUntil(() => asked.length === 1);
    leave(client);
    await waitUntil(() => asked[0]?.readyState !== 'open');
    const kind = 'leasehold_gateway_requests_total{kind="websocket"';
    await waitUntil(async () => (await metric(stage, `${kind},outcome="left"}`)) === 1);
    expect(await metric(stage, `${kind},outcome="failed"}`)).toBe(0);
  },
);

test('a request for a key of another datacenter is sent to the gateway there, and a WebSocket is refused', async () => {
  const stage = await openGatewayStage();
  stage.controller.answerRoute = () => Promise.reject(new Elsewhere('dc2', undefined));
  const token = await stage.controller.sign();
  const { status, headers } = await stage.ask(`/t/${token}/a?b=c`, { method: 'POST', body: 'x' });
  expect(status).toBe(307);
  expect(headers).toMatchObject({
    location: 'https://dc2.example.com/t/handed.over.token/a?b=c',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
  });
  const socket = new WebSocket(`ws://127.0.0.1:${String(stage.port)}/t/${token}/`);
  socket.on('error', () => undefined);
  const [, response] = (await once(socket, 'unexpected-response')) as [
    unknown,
    http.IncomingMessage,
  ];
  expect(await text(response)).toContain('gateway.elsewhere');
});

describe('clients that hold up their requests', () => {
  test('a body that does not go on is given up, one that waits for the backend is not', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    stage.controller.validForMs = 1_000_000;
    const token = await stage.controller.sign();
    const slow = net.connect(stage.port, '127.0.0.1');
    onTestFinished(() => void slow.destroy());
    slow.write(`POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc`);
    let said = '';
    slow.on('data', (piece: Buffer) => (said += piece.toString()));
    const closed = once(slow, 'close');
    await waitUntil(() => backend.requests.length === 1);
    backend.handler = (request) => void request.pause();
    const waiting = stage.ask(`/t/${token}/`, { method: 'POST', body: Buffer.alloc(20_000_000) });
    waiting.catch(() => undefined);
    await waitUntil(() => backend.requests.length === 2);
    await waitUntil(() => {
      stage.passTime(10_000);
      return said !== '';
    });
    await closed;
    expect(said).toMatch(/^HTTP\/1\.1 408/u);
    expect(await metric(stage, 'leasehold_gateway_open_connections{program="room"}')).toBe(1);
  });

  test('a WebSocket whose client never reads holds up its backend, and is closed in the end', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    stage.controller.validForMs = 10_000_000;
    const token = await stage.controller.sign({ exp: Date.now() / 1_000 + 1_000_000 });
    const { socket } = await openSocket(stage, `/t/${token}/`);
    socket.pause();
    const other = socket as unknown as { _socket: net.Socket };
    other._socket.pause();
    // Each is echoed.
    for (let sent = 0; sent < 40; sent += 1) socket.send(Buffer.alloc(1_000_000, 'x'));
    const passed = (): Promise<number> =>
      metric(stage, 'leasehold_gateway_bytes_total{direction="out"}');
    await waitUntil(async () => {
      const before = await passed();
      return before > 0 && before === (await passed());
    });
    expect(await passed()).toBeLessThan(32_000_000);
    await waitUntil(() => {
      stage.passTime(10_000);
      return backend.sockets.size === 0;
    });
  });

  test('a WebSocket that ends without saying so is closed at the backend too', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    const { socket } = await openSocket(stage, `/t/${token}/`);
    socket.terminate();
    await waitUntil(() => backend.sockets.size === 0);
    const open = 'leasehold_gateway_open_connections{program="room"}';
    expect(await metric(stage, open)).toBe(0);
  });
});

test('a connection that fails is no malformed request', async () => {
  const stage = await openGatewayStage();
  const reset = net.connect(stage.port, '127.0.0.1');
  await once(reset, 'connect');
  reset.write('GET / HTTP/1.1\r\nHost');
  reset.resetAndDestroy();
  await stage.raw('nothing\r\n\r\n');
  const count = 'leasehold_gateway_refusals_total{code="gateway.bad_request"}';
  expect(await metric(stage, count)).toBe(1);
});

describe('its end', () => {
  test('what is in progress is answered, WebSockets are closed, and nothing new is taken', async () => {
    const stage = await openGatewayStage();
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    const { socket } = await openSocket(stage, `/t/${token}/`);
    let finish = (): void => undefined;
    backend.handler = (_request, response) => {
      response.write('begun ');
      finish = () => void response.end('done');
    };
    const asked = stage.ask(`/t/${token}/`);
    await waitUntil(() => backend.requests.length === 1);
    const closing = stage.gateway.close();
    await once(socket, 'close');
    await expect(stage.ask(`/t/${token}/`)).rejects.toThrow('ECONNREFUSED');
    const ready = await fetch(`${stage.gateway.metricsUrl}/readyz`);
    expect(ready.status).toBe(503);
    finish();
    expect((await asked).body).toBe('begun done');
    await closing;
  });

  test('a WebSocket that is held is refused at once, and nothing waits for it', async () => {
    const stage = await openGatewayStage();
    stage.controller.answerRoute = () => new Promise(() => undefined);
    const token = await stage.controller.sign();
    const socket = new WebSocket(`ws://127.0.0.1:${String(stage.port)}/t/${token}/`);
    socket.on('error', () => undefined);
    const answered = once(socket, 'unexpected-response');
    await waitUntil(() => stage.controller.questions.length === 1);
    const closing = stage.gateway.close();
    const [, response] = (await answered) as [unknown, http.IncomingMessage];
    expect(response.statusCode).toBe(503);
    expect(await text(response)).toContain('gateway.stopping');
    await closing;
  });
});

test('a WebSocket that is still being let in when the gateway stops is refused', async () => {
  // Its calls of each 500 ms do not come: the next call is that for the WebSocket.
  const stage = await openGatewayStage({}, undefined, { isStill: true });
  const backend = await startBackend();
  const { controller } = stage;
  controller.address = backend.address;
  expect((await stage.ask(`/t/${await controller.sign()}/`)).status).toBe(200);
  // It may have asked for the first key too, and waits a little before it asks for another.
  stage.passTime(300);
  controller.keys.push(createSigningKey('gk-2'));
  const token = await controller.sign();
  let answer = (): void => undefined;
  controller.beforeSync = () =>
    new Promise((resolve) => {
      answer = resolve;
    });
  const before = controller.syncs.length;
  const socket = new WebSocket(`ws://127.0.0.1:${String(stage.port)}/t/${token}/`);
  socket.on('error', () => undefined);
  const answered = once(socket, 'unexpected-response');
  await waitUntil(() => controller.syncs.length > before);
  const closing = stage.gateway.close();
  controller.beforeSync = () => Promise.resolve();
  answer();
  const [, response] = (await answered) as [unknown, http.IncomingMessage];
  expect(await text(response)).toContain('gateway.stopping');
  await closing;
});

/** A backend that answers each connection with these bytes. @returns its address. */
async function startRawBackend(answer: string): Promise<string> {
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(answer));
  });
  onTestFinished(() => void server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return addressOf(server);
}

/** A backend whose process does not go on, and whose queue of connections is full. @returns its address. */
async function startFullBackend(): Promise<string> {
  const program = `
    const server = require('node:net').createServer();
    server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => {
      require('node:fs').writeSync(1, String(server.address().port));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    });`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  const port = Number(said.toString());
  for (let taken = 0; taken < 8; taken += 1) {
    const socket = net.connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    onTestFinished(() => void socket.destroy());
  }
  return `127.0.0.1:${String(port)}`;
}

/** A metric as it is read. */
async function metric({ gateway }: GatewayStage, name: string): Promise<number> {
  const lines = (await (await fetch(`${gateway.metricsUrl}/metrics`)).text()).split('\n');
  const line = lines.find((one) => one.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? Number.NaN);
}
