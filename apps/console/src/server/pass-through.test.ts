import { once } from 'node:events';
import { createServer, request as send, type RequestListener } from 'node:http';
import { connect } from 'node:net';
import { createLogger } from '@leasehold/service-kit';
import { expect, onTestFinished, test } from 'vitest';
import { NO_DOCUMENTS, startConsole, startUpstream, urlOf } from './console-server-for-test.ts';
import { startConsoleServer } from './console-server.ts';
import { openDocuments } from './documents.ts';

test('a call reaches the controller as it was made, and its answer comes back whole', async () => {
  const upstream = await startUpstream((request, response) => {
    request.once('end', () => {
      response.writeHead(418, { 'set-cookie': ['a=1', 'b=2'], 'x-answer': 'yes' }).end('said');
    });
  });
  const url = await startConsole(upstream.url);

  const answer = await fetch(`${url}/trpc/keys.revoke?x=%2F..`, {
    method: 'POST',
    headers: { cookie: 's=1', origin: 'http://localhost:4601', 'x-leasehold-csrf': 't' },
    body: '{"a":1}',
  });

  expect(answer.status).toBe(418);
  expect(answer.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
  expect(await answer.text()).toBe('said');
  expect(upstream.asked).toMatchObject([
    {
      method: 'POST',
      url: '/trpc/keys.revoke?x=%2F..',
      body: '{"a":1}',
      headers: {
        cookie: 's=1',
        origin: 'http://localhost:4601',
        'x-leasehold-csrf': 't',
        host: upstream.url.host,
      },
    },
  ]);
});

test('only what is below /trpc, /api/auth and /export is passed on', async () => {
  const upstream = await startUpstream((_request, response) => response.end('controller'));
  const url = await startConsole(upstream.url);
  const answerOf = async (path: string): Promise<string> => (await fetch(`${url}${path}`)).text();

  for (const path of ['/trpc', '/trpc/a?b', '/api/auth/session', '/export/keys.csv']) {
    expect(await answerOf(path)).toBe('controller');
  }
  for (const path of ['/', '/trpcs', '/api/other', '/metrics', '/exports/x', '/keys?/trpc']) {
    expect(await answerOf(path)).toContain('page');
  }
  expect(await answerOf('/healthz')).toBe('{"status":"ok"}');
});

test.each(['//another.example/trpc', '/trpc/../metrics'])(
  'a path cannot escape the paths that are passed on: %s',
  async (path) => {
    const upstream = await startUpstream((_request, response) => response.end());
    const url = new URL(await startConsole(upstream.url));

    const request = send({ host: url.hostname, port: url.port, path }).end();
    await once(request, 'response');

    expect(upstream.asked.map((asked) => asked.url)).toEqual(path.startsWith('//') ? [] : [path]);
  },
);

const SAYS_WHERE = {
  'x-forwarded-for': '203.0.113.7',
  forwarded: 'for=1.1.1.1',
  'x-forwarded-host': 'h',
};

test('the controller gets the address of the socket, and no source that the caller claims', async () => {
  const upstream = await startUpstream((_request, response) => response.end());
  const url = await startConsole(upstream.url);

  await fetch(`${url}/trpc/a`);
  await fetch(`${url}/trpc/a`, { headers: SAYS_WHERE });

  expect(upstream.asked.map((asked) => asked.headers['x-forwarded-for'])).toEqual([
    '127.0.0.1',
    '127.0.0.1',
  ]);
  expect(upstream.asked[1]?.headers).not.toHaveProperty('forwarded');
  expect(upstream.asked[1]?.headers).not.toHaveProperty('x-forwarded-host');
});

test.each([
  ['127.0.0.1/32', '203.0.113.7, 127.0.0.1'],
  ['127.0.0.0/8', '203.0.113.7, 127.0.0.1'],
  ['192.0.2.0/24', '127.0.0.1'],
])('a forwarded address is passed on only from a trusted proxy: %s', async (trusted, chain) => {
  const upstream = await startUpstream((_request, response) => response.end());
  const url = await startConsole(upstream.url, { trustedProxies: [trusted] });

  await fetch(`${url}/trpc/a`, { headers: SAYS_WHERE });

  expect(upstream.asked[0]?.headers['x-forwarded-for']).toBe(chain);
});

test('the console proves itself to the controller, and says where a caller comes from as far as it can tell', async () => {
  const upstream = await startUpstream((_request, response) => response.end());
  const consoleSecret = 'the secret of this console: 01234';
  const claimed = {
    ...SAYS_WHERE,
    'leasehold-caller': '203.0.113.9',
    'leasehold-console-secret': 'made up',
  };

  for (const options of [{}, { consoleSecret }, { consoleSecret, trustedProxies: ['127.0.0.1'] }]) {
    await fetch(`${await startConsole(upstream.url, options)}/trpc/a`, { headers: claimed });
  }

  expect(
    upstream.asked.map(({ headers }) => [
      headers['leasehold-console-secret'],
      headers['leasehold-caller'],
    ]),
  ).toEqual([
    [undefined, undefined],
    [consoleSecret, '127.0.0.1'],
    [consoleSecret, '203.0.113.7'],
  ]);
});

test('each event reaches the reader when it happens', async () => {
  let say: (text: string) => void = () => undefined;
  const upstream = await startUpstream((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    say = (text) => response.write(text);
  });
  const url = await startConsole(upstream.url);

  const answer = await fetch(`${url}/trpc/events.follow`);
  const reader = answer.body?.getReader();
  for (const text of ['data: 1\n\n', 'data: 2\n\n']) {
    say(text);
    const { value } = (await reader?.read()) ?? {};
    expect(new TextDecoder().decode(value)).toBe(text);
  }
  await reader?.cancel();
});

test('a client that stops waiting for an answer ends the call at the controller', async () => {
  const upstream = await startUpstream(() => undefined);
  const url = await startConsole(upstream.url);
  const gone = new AbortController();

  const answer = fetch(`${url}/trpc/keys.list`, { signal: gone.signal });
  answer.catch(() => undefined);
  await expect.poll(() => upstream.asked.length).toBe(1);
  gone.abort();

  await expect(answer).rejects.toThrow();
  await expect.poll(() => upstream.asked[0]?.isOver).toBe(true);
});

test('a client that goes away ends its request at the controller', async () => {
  const upstream = await startUpstream((_request, response) => response.flushHeaders());
  const url = await startConsole(upstream.url);
  const gone = new AbortController();

  const answer = await fetch(`${url}/trpc/events.follow`, { signal: gone.signal });
  // What nobody reads may be ended before the client goes away.
  const read = answer.text();
  gone.abort();

  await expect(read).rejects.toThrow();
  await expect.poll(() => upstream.asked[0]?.isOver).toBe(true);
  expect(upstream.asked).toHaveLength(1);
});

test('an answer that breaks off does not look complete', async () => {
  const upstream = await startUpstream((_request, response) => {
    response.write('half');
    setImmediate(() => response.destroy());
  });
  const url = await startConsole(upstream.url);

  const answer = await fetch(`${url}/export/keys.json`);

  await expect(answer.text()).rejects.toThrow();
});

test('an unreachable controller is reported in the shape of its own errors; pages still load', async () => {
  const gone = createServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const url = await startConsole(urlOf(gone));
  gone.close();
  await once(gone, 'close');

  const answer = await fetch(`${url}/trpc/keys.list`);

  expect(answer.status).toBe(503);
  expect(await answer.json()).toMatchObject({
    error: {
      message: 'The console cannot reach the controller: nothing was sent.',
      code: -32_603,
      data: { leaseholdCode: 'request.unreachable', retryable: true, httpStatus: 503 },
    },
  });
  expect((await fetch(`${url}/keys`)).status).toBe(200);
});

test('a request that was not sent to a dead controller goes to the next, which is kept', async () => {
  const gone = createServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const dead = urlOf(gone).origin;
  gone.close();
  await once(gone, 'close');
  const upstream = await startUpstream((request, response) => {
    request.once('end', () => response.end('done'));
  });
  const url = await startConsole([dead, upstream.url.origin]);
  const revoke = { method: 'POST', body: '{"a":1}' };

  for (let call = 0; call < 2; call += 1) {
    expect(await (await fetch(`${url}/trpc/keys.revoke`, revoke)).text()).toBe('done');
  }

  const calls = upstream.asked.filter((asked) => asked.url === '/trpc/keys.revoke');
  expect(calls).toMatchObject([{ body: '{"a":1}' }, { body: '{"a":1}' }]);
  // One more is a health check: after it the controller is known.
  expect(upstream.asked).toHaveLength(3);
});

test('a controller that falls silent is no longer used, and calls under way have an unknown outcome', async () => {
  let isSilent = false;
  const first = await startUpstream((_request, response) => {
    if (!isSilent) response.end('first');
  });
  const second = await startUpstream((_request, response) => response.end('second'));
  const url = await startConsole([first.url.origin, second.url.origin]);
  expect(await (await fetch(`${url}/trpc/a`)).text()).toBe('first');
  isSilent = true;

  const underWay = await fetch(`${url}/trpc/keys.revoke`, { method: 'POST', body: '{}' });
  const next = await fetch(`${url}/trpc/keys.revoke`, { method: 'POST', body: '{}' });

  expect(await underWay.json()).toMatchObject({
    error: { data: { leaseholdCode: 'request.outcome_unknown', details: { by: 'console' } } },
  });
  expect(await next.text()).toBe('second');
});

test.each([
  ['breaks off', (request: Parameters<RequestListener>[0]): unknown => request.socket.destroy()],
  ['is silent for too long', (): unknown => undefined],
])('a call to a controller that %s has an unknown outcome', async (_name, behave) => {
  const upstream = await startUpstream((request) => {
    behave(request);
  });
  const url = await startConsole(upstream.url, { answerTimeoutMs: 500 });

  const answer = await fetch(`${url}/trpc/keys.revoke`, { method: 'POST', body: '{}' });

  expect(answer.status).toBe(503);
  expect(await answer.json()).toMatchObject({
    error: { data: { leaseholdCode: 'request.outcome_unknown', retryable: true } },
  });
});

test.each(['1.0', '1.1'])(
  'half an answer over HTTP/%s resets the connection, so that it does not look complete',
  async (version) => {
    let breakOff = (): unknown => undefined;
    const upstream = await startUpstream((_request, response) => {
      response.write('half');
      breakOff = () => response.destroy();
    });
    const url = new URL(await startConsole(upstream.url));
    const socket = connect(Number(url.port), url.hostname);
    onTestFinished(() => void socket.destroy());
    let said = '';
    socket.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    const ended = once(socket, 'end');
    ended.catch(() => undefined);

    socket.write(`GET /export/keys HTTP/${version}\r\nhost: x\r\n\r\n`);
    // Node does not report a reset that it reads together with data.
    await expect.poll(() => said).toContain('half');
    breakOff();

    await expect(ended).rejects.toMatchObject({ code: 'ECONNRESET' });
  },
);

test('a request to upgrade the protocol is passed on without the upgrade', async () => {
  const upstream = await startUpstream((_request, response) => response.end('plain'));
  const url = await startConsole(upstream.url);

  const request = send(`${url}/trpc`, {
    headers: {
      connection: 'Upgrade, X-Mine',
      upgrade: 'websocket',
      'x-mine': '1',
      'proxy-authorization': 'Basic eA==',
    },
  }).end();
  const [answer] = (await once(request, 'response')) as [{ statusCode: number }];

  expect(answer.statusCode).toBe(200);
  expect(upstream.asked[0]?.headers).not.toHaveProperty('upgrade');
  expect(upstream.asked[0]?.headers).not.toHaveProperty('proxy-authorization');
  expect(upstream.asked[0]?.headers).not.toHaveProperty('x-mine');
});

test('each page has its own content security policy, which Next gets too', async () => {
  const url = await startConsole(new URL('http://127.0.0.1:9'), {
    origin: 'https://console.example',
  });

  const [first, second] = [await fetch(`${url}/`), await fetch(`${url}/`)];
  const policy = first.headers.get('content-security-policy') ?? '';

  expect(policy).toMatch(/script-src 'self' 'nonce-[\w+/=]{24}'/u);
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).toContain("connect-src 'self'");
  expect(await first.text()).toBe(`page, policy ${policy}`);
  expect(second.headers.get('content-security-policy')).not.toBe(policy);
  expect(Object.fromEntries(first.headers)).toMatchObject({
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'same-origin',
    'x-frame-options': 'DENY',
    'strict-transport-security': 'max-age=31536000',
  });
});

test('the end of the console ends its streams and lets a call finish', async () => {
  let finish = (): unknown => undefined;
  const upstream = await startUpstream((request, response) => {
    if (request.url === '/trpc/stream') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    } else {
      finish = () => response.end('late');
    }
  });
  const server = await startConsoleServer({
    config: {
      host: '127.0.0.1',
      consoleSecret: null,
      port: 0,
      controllerUrls: [upstream.url.origin],
      origin: 'http://localhost:4601',
      trustedProxies: [],
    },
    log: createLogger({ name: 'console', level: 'silent' }),
    documents: openDocuments(NO_DOCUMENTS),
    pages: () => Promise.resolve(),
  });
  const stream = await fetch(`${server.url}/trpc/stream`);
  const call = fetch(`${server.url}/trpc/call`);
  await expect.poll(() => upstream.asked.length).toBe(2);

  const closed = server.close();

  await expect(stream.text()).rejects.toThrow();
  finish();
  expect(await (await call).text()).toBe('late');
  await closed;
});
