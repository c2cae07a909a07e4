import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { keyHostLabel } from '@leasehold/keys-core/gateway-addresses';
import { waitUntil } from '@leasehold/testing';
import { createSigningKey } from '@leasehold/keys-core/gateway-tokens';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import {
  openGatewayStage,
  startBackend,
  type GatewayStage,
  type StageClock,
  type TestBackend,
} from './testing/gateway-stage.ts';
import { signToken } from './testing/scripted-controller.ts';

interface Hostile {
  readonly stage: GatewayStage;
  readonly backend: TestBackend;
  readonly token: string;
}

async function openHostile(
  variables: Record<string, string> = {},
  clock: StageClock = {},
): Promise<Hostile> {
  const stage = await openGatewayStage(variables, undefined, clock);
  const backend = await startBackend();
  stage.controller.address = backend.address;
  return { stage, backend, token: await stage.controller.sign() };
}

describe('requests that two programs may understand in two ways', () => {
  const lines = (token: string): Record<string, string> => ({
    'two lengths': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd`,
    'the same length twice': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd`,
    'a list of lengths': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 4\r\n\r\nabcd`,
    'a signed length': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd`,
    'a length and chunks': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'chunks and a length': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n`,
    'another encoding': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
    'two encodings': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
    'an encoding twice': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n`,
    'a space before the colon': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
    'a folded line': `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n`,
    'a bare carriage return': `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nX-A: b\rX-B: c\r\n\r\n`,
    'two hosts': `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n`,
    'no host': `GET /t/${token}/ HTTP/1.1\r\n\r\n`,
    'the form for proxies': `GET http://a/t/${token}/ HTTP/1.1\r\nHost: a\r\n\r\n`,
    'a star': `OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n`,
    'a tunnel': `CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n`,
    'a method that reflects': `TRACE /t/${token}/ HTTP/1.1\r\nHost: a\r\n\r\n`,
    'a fragment': `GET /t/${token}/#x HTTP/1.1\r\nHost: a\r\n\r\n`,
    'a WebSocket with a body': `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 4\r\n\r\nabcd`,
    'a WebSocket by POST': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    'an upgrade to another protocol': `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n`,
    'an upgrade that its connection does not name': `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
    'such an upgrade with a body': `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nUpgrade: websocket\r\nContent-Length: 4\r\n\r\nabcd`,
    'another version': `GET /t/${token}/ HTTP/1.2\r\nHost: a\r\n\r\n`,
    'the preface of HTTP/2': `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`,
  });

  test.each(Object.keys(lines('')))('%s: refused, and no backend sees any of it', async (name) => {
    const { stage, backend, token } = await openHostile();
    const said = await stage.raw(
      `${lines(token)[name] ?? ''}GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
    );
    expect(said).not.toMatch(/^HTTP\/1\.1 (?:2|3)/u);
    // It is not even asked where the backend is.
    expect(stage.controller.questions).toEqual([]);
    expect(backend.requests).toEqual([]);
  });

  test('an expectation that is not known is refused as any other request is, and counted', async () => {
    const { stage, backend, token } = await openHostile();
    const said = await stage.raw(
      `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nExpect: something\r\nConnection: close\r\n\r\n`,
    );
    expect(said).toMatch(/^HTTP\/1\.1 400/u);
    expect(said).toContain('gateway.bad_request');
    expect(await refusals(stage)).toBe(1);
    expect(backend.requests).toEqual([]);
  });

  test('what follows a body of a length is a request of its own', async () => {
    const { stage, backend, token } = await openHostile();
    const inner = `GET /k/_/other/ HTTP/1.1\r\nHost: a\r\n\r\n`;
    const said = await stage.raw(
      `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nContent-Length: ${String(inner.length)}\r\nConnection: close\r\n\r\n${inner}`,
    );
    expect(said.match(/HTTP\/1\.1/gu)).toHaveLength(1);
    expect(backend.requests).toHaveLength(1);
    expect(said).toContain(`"bytes":${String(inner.length)}`);
  });

  test('a body in chunks of a GET arrives as one', async () => {
    const { stage, backend, token } = await openHostile();
    const inner = `GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`;
    const said = await stage.raw(
      `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n` +
        `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`,
    );
    expect(said).toContain(`"bytes":${String(inner.length)}`);
    expect(backend.requests.map(({ url }) => url)).toEqual(['/']);
  });

  test('headers that a client lists as those of its connection do not remove those of the gateway', async () => {
    const { stage, token } = await openHostile();
    const { json } = await stage.ask(`/t/${token}/`, {
      headers: {
        connection: 'close, x-leasehold-user, host, x-request-id, cookie, x-mine',
        'x-mine': 'a',
      },
    });
    expect(json.headers).toMatchObject({ 'x-leasehold-user': 'anna' });
    expect(json.headers['host']).toBeDefined();
    expect(json.headers).not.toHaveProperty('x-mine');
  });

  test('more headers than fit are refused', async () => {
    const { stage, token } = await openHostile();
    const reply = await stage.raw(
      `GET /t/${token}/ HTTP/1.1\r\nHost: a\r\nX-A: ${'a'.repeat(20_000)}\r\n\r\n`,
    );
    expect(reply).toMatch(/^HTTP\/1\.1 431/u);
  });

  test('a great number of small headers keeps the one that frames the body', async () => {
    const { stage, token } = await openHostile();
    const many = Array.from({ length: 2_100 }, () => 'a:b\r\n').join('');
    const said = await stage.raw(
      `POST /t/${token}/ HTTP/1.1\r\nHost: a\r\n${many}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
    );
    expect(said).toContain('"bytes":3');
  });
});

describe('paths', () => {
  test.each([
    '/../other/',
    '/a/../../other/',
    '/%2e%2e/other/',
    '/%2E./other/',
    '/..%2fother/',
    '/a%2f..%2f..%2fother',
    '/..%5cother',
    '/%252e%252e/other',
    '/./x',
  ])('%s leaves nothing: refused', async (path) => {
    const { stage, backend, token } = await openHostile();
    expect(
      await stage.raw(`GET /t/${token}${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`),
    ).toMatch(/^HTTP\/1\.1 400/u);
    expect(
      await stage.raw(
        `GET /k/_/room${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
      ),
    ).toMatch(/^HTTP\/1\.1 400/u);
    expect(backend.requests).toEqual([]);
  });

  test('another host in the path is a path', async () => {
    const { stage, backend, token } = await openHostile();
    await stage.raw(
      `GET /t/${token}//evil.example/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
    );
    expect(backend.requests[0]?.url).toBe('/evil.example/x');
  });

  test.each([
    '/k/../room/',
    '/k/_/%2e%2e/',
    '/k/_/a%00b/',
    '/k/_/%ff/',
    '/k//room/',
    '/k/_//',
    '/t//',
    '/',
    '/metrics',
    '/x',
  ])('%s is no address of a key', async (path) => {
    const { stage, backend, token } = await openHostile();
    const said = await stage.raw(
      `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
    );
    expect(said).toMatch(/^HTTP\/1\.1 40[0-4]/u);
    expect(backend.requests).toEqual([]);
  });

  test('one that ends with its key leads on to its slash without a token too, and a WebSocket has its query', async () => {
    const { stage, backend, token } = await openHostile();
    for (const path of ['/k/_/room', `/t/${token}`]) {
      const { status, headers } = await stage.ask(`${path}?session=7`);
      expect([status, headers.location]).toEqual([308, `${path}/?session=7`]);
    }
    expect(backend.requests).toEqual([]);
    const socket = new WebSocket(`ws://127.0.0.1:${String(stage.port)}/k/_/room?session=7`, {
      headers: { authorization: `Bearer ${token}` },
    });
    onTestFinished(() => socket.terminate());
    const [said] = (await once(socket, 'message')) as [Buffer];
    expect(JSON.parse(said.toString())).toMatchObject({ url: '/?session=7' });
  });

  test('names with any character are reached by their encoded path', async () => {
    const { stage } = await openHostile();
    const name = 'a/b %_ü?';
    const token = await stage.controller.sign({ key: name, ns: 'team.eu' });
    const reply = await stage.ask(`/k/team.eu/${encodeURIComponent(name)}/x`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(reply.json.url).toBe('/x');
    expect(reply.json.headers['x-leasehold-namespace']).toBe('team.eu');
    expect(decodeURIComponent(reply.json.headers['x-leasehold-key'] ?? '')).toBe(name);
    expect(reply.json.headers).not.toHaveProperty('authorization');
  });
});

describe('tokens', () => {
  const code = async ({ stage }: Hostile, token: string): Promise<string> =>
    (await stage.ask('/k/_/room/', { headers: { authorization: `Bearer ${token}` } })).json.error
      .code;

  test('one that is forged, of another algorithm, or changed is refused', async () => {
    const hostile = await openHostile();
    const { kid } = hostile.stage.controller.keys[0] ?? createSigningKey('gk-1');
    expect(await code(hostile, await signToken(createSigningKey(kid), {}))).toBe(
      'gateway.token_invalid',
    );
    expect(await code(hostile, await signToken(createSigningKey('gk-9'), {}))).toBe(
      'gateway.token_invalid',
    );
    const [head = '', body = '', signature = ''] = hostile.token.split('.');
    const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as object;
    const changed = Buffer.from(JSON.stringify({ ...claims, sub: 'root' })).toString('base64url');
    expect(await code(hostile, [head, changed, signature].join('.'))).toBe('gateway.token_invalid');
    const none = Buffer.from(JSON.stringify({ alg: 'none', kid })).toString('base64url');
    expect(await code(hostile, [none, body, ''].join('.'))).toBe('gateway.token_invalid');
    expect(hostile.backend.requests).toEqual([]);
    const metrics = await (await fetch(`${hostile.stage.gateway.metricsUrl}/metrics`)).text();
    const counts = [...metrics.matchAll(/tokens_refused_total\{reason="(\w+)"\} (\d+)/gu)];
    expect(Object.fromEntries(counts.map(([, reason, count]) => [reason, count]))).toEqual({
      forged: '2',
      unknown_key: '1',
      malformed: '1',
    });
  });

  test('one that is over, by the clock of the database, is refused', async () => {
    const hostile = await openHostile();
    const exp = Date.now() / 1_000 + 60;
    const token = await hostile.stage.controller.sign({ exp });
    expect((await hostile.stage.ask(`/t/${token}/`)).status).toBe(200);
    hostile.stage.controller.beforeSync = () => new Promise(() => undefined);
    hostile.stage.passTime(61_000);
    expect(await code(hostile, token)).toBe('gateway.token_expired');
  });

  test('one of another key is refused in every form', async () => {
    const keys = { LEASEHOLD_GATEWAY_HOSTS: '*.rooms.example.com' };
    const hostile = await openHostile(keys);
    const other = await hostile.stage.controller.sign({ key: 'other' });
    expect(await code(hostile, other)).toBe('gateway.wrong_key');
    const host = `${keyHostLabel({ namespace: '', name: 'room' })}.rooms.example.com`;
    for (const path of [`/t/${other}/`, '/']) {
      const reply = await hostile.stage.ask(path, {
        headers: { host, authorization: `Bearer ${other}` },
      });
      expect(reply.json.error.code).toBe('gateway.wrong_key');
    }
    const own = await hostile.stage.ask('/x?y', {
      headers: { host, authorization: `Bearer ${hostile.token}` },
    });
    expect(own.json.url).toBe('/x?y');
    expect(own.json.headers).not.toHaveProperty('x-forwarded-prefix');
  });

  test('one that was revoked is refused, and what is open by it ends', async () => {
    const hostile = await openHostile();
    const { stage, backend, token } = hostile;
    backend.handler = (_request, response) => void response.write('begun');
    const open = stage.ask(`/t/${token}/`).catch(() => 'cut');
    await waitUntil(() => backend.requests.length === 1);
    stage.controller.revocations = [
      {
        id: randomUUID(),
        namespace: '',
        name: null,
        user: 'anna',
        leaseId: null,
        at: Date.now() + 1,
      },
    ];
    stage.controller.revision = 'r2';
    expect(await open).toBe('cut');
    expect(await code(hostile, token)).toBe('gateway.token_revoked');
    const later = await stage.controller.sign({ iat: Date.now() / 1_000 + 1 });
    backend.handler = undefined;
    expect((await stage.ask(`/t/${later}/`)).status).toBe(200);
  });

  test('what is open by one ends when it is over, and what is open by another goes on', async () => {
    const { stage, backend, token } = await openHostile();
    backend.handler = (_request, response) => void response.write('begun');
    const ends: string[] = [];
    const open = (by: string, name: string): void => {
      void stage.ask(`/t/${by}/`).catch(() => ends.push(name));
    };
    open(token, 'in force');
    open(await stage.controller.sign({ exp: Date.now() / 1_000 + 60 }), 'over');
    await waitUntil(() => backend.requests.length === 2);
    stage.controller.aheadMs = 61_000;
    await waitUntil(() => ends.length > 0);
    expect(ends).toEqual(['over']);
  });

  test('one of a grant that is over is refused, although the key has a backend', async () => {
    const hostile = await openHostile();
    const token = await hostile.stage.controller.sign({ grant: hostile.stage.controller.leaseId });
    expect((await hostile.stage.ask(`/t/${token}/`)).status).toBe(200);
    const { leaseId } = hostile.stage.controller;
    hostile.stage.controller.ended.add(leaseId);
    const next = await startBackend('two');
    hostile.stage.controller.move(next.address);
    await waitUntil(
      async () => (await hostile.stage.ask(`/t/${hostile.token}/`)).json.name === 'two',
    );
    hostile.stage.controller.answerRoute = (input) =>
      input.leaseId === leaseId
        ? Promise.reject(new Error('over'))
        : Promise.resolve(hostile.stage.controller.routeTo(input));
    expect((await hostile.stage.ask(`/t/${token}/`)).status).not.toBe(200);
    expect(next.requests).toHaveLength(1);
  });

  test('a browser gets a cookie instead, which no backend sees or sets', async () => {
    const { stage, backend, token } = await openHostile();
    const page = {
      accept: 'text/html',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    };
    const reply = await stage.ask(`/t/${token}/a?b=c`, { headers: page });
    expect(reply.status).toBe(303);
    expect(reply.headers.location).toBe('/k/_/room/a?b=c');
    expect(reply.headers['referrer-policy']).toBe('no-referrer');
    const [cookie = ''] = reply.headers['set-cookie'] ?? [];
    expect(cookie).toMatch(
      /^leasehold-gateway=\S+; Path=\/k\/_\/room\/; Max-Age=35\d\d; HttpOnly; SameSite=Lax$/u,
    );

    backend.handler = (request, response) => {
      response.setHeader('set-cookie', [
        'leasehold-gateway=stolen; Path=/',
        'session=1; Path=/; Domain=example.com; HttpOnly',
        'deep=2; Path=/app',
      ]);
      response.setHeader('location', '/login');
      response.end(JSON.stringify(request.headers));
    };
    const page2 = await stage.ask('/k/_/room/a', {
      headers: { ...page, cookie: `${cookie.split(';')[0] ?? ''}; theme=dark` },
    });
    expect(page2.status).toBe(200);
    expect(page2.headers['set-cookie']).toEqual([
      'session=1; HttpOnly; Path=/k/_/room/',
      'deep=2; Path=/k/_/room/app',
    ]);
    expect(page2.headers.location).toBe('/k/_/room/login');
    expect(page2.body).not.toContain(token);
    expect(page2.body).toContain('theme=dark');
  });

  test('a page of another site can neither change anything nor open a WebSocket by the cookie', async () => {
    const { stage, backend, token } = await openHostile();
    const headers = { cookie: `leasehold-gateway=${token}`, origin: 'https://evil.example' };
    const post = await stage.ask('/k/_/room/', { method: 'POST', headers });
    expect(post.json.error.code).toBe('gateway.cross_origin');
    const said = await stage.raw(
      `GET /k/_/room/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin: https://evil.example\r\nCookie: leasehold-gateway=${token}\r\n\r\n`,
    );
    expect(said).toMatch(/^HTTP\/1\.1 403/u);
    expect(backend.requests).toEqual([]);
    const own = { ...headers, origin: `http://127.0.0.1:${String(stage.port)}` };
    expect((await stage.ask('/k/_/room/', { method: 'POST', headers: own })).status).toBe(200);
    const other = { ...headers, host: 'rooms.example.com:80', origin: 'http://rooms.example.com' };
    expect((await stage.ask('/k/_/room/', { method: 'POST', headers: other })).status).toBe(200);
  });

  test('a form of a page without referrers is of the site that the browser says', async () => {
    const { stage, backend, token } = await openHostile();
    const cookie = `leasehold-gateway=${token}`;
    const statusOf = async (site: Record<string, string>): Promise<number> => {
      const headers = { cookie, origin: 'null', ...site };
      return (await stage.ask('/k/_/room/', { method: 'POST', headers })).status;
    };
    const others = [{}, { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }];
    for (const site of others) expect(await statusOf(site)).toBe(403);
    expect(backend.requests).toEqual([]);
    const sameOrigin = { 'sec-fetch-site': 'same-origin' };
    expect(await statusOf(sameOrigin)).toBe(200);
    const opened = await stage.raw(
      `GET /k/_/room/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin: null\r\nSec-Fetch-Site: same-origin\r\nCookie: ${cookie}\r\n\r\n`,
    );
    expect(opened).toMatch(/^HTTP\/1\.1 403/u);
    const policies = ['/k/_/room', `/t/${token}`].map(
      async (path) => (await stage.ask(path)).headers['referrer-policy'],
    );
    expect(await Promise.all(policies)).toEqual([undefined, 'no-referrer']);
  });

  test('on a key’s own host over TLS, a cookie that another host of the domain has planted is not looked at', async () => {
    const { stage, backend, token } = await openHostile({
      LEASEHOLD_GATEWAY_HOSTS: '*.rooms.example.com',
      LEASEHOLD_TRUSTED_PROXIES: '127.0.0.1',
    });
    const host = `${keyHostLabel({ namespace: '', name: 'room' })}.rooms.example.com`;
    const overTls = { host, 'x-forwarded-proto': 'https' };
    const page = { ...overTls, accept: 'text/html' };
    const reply = await stage.ask(`/t/${token}/a`, { headers: page });
    const [cookie = ''] = reply.headers['set-cookie'] ?? [];
    expect(cookie).toMatch(
      /^__Host-leasehold-gateway=\S+; Path=\/; Max-Age=35\d\d; HttpOnly; SameSite=Lax; Secure$/u,
    );
    backend.handler = (request, response) => {
      response.setHeader('set-cookie', [
        '__host-leasehold-gateway=stolen; Path=/; Secure',
        'own=1',
      ]);
      response.end(JSON.stringify(request.headers));
    };

    const planted = Array.from({ length: 4 }, () => `leasehold-gateway=${token}`).join('; ');
    const kept = cookie.split(';')[0] ?? '';
    const refused = await stage.ask('/a', { headers: { ...overTls, cookie: planted } });
    const passed = await stage.ask('/a', {
      headers: { ...overTls, cookie: `${planted}; ${kept}` },
    });

    expect(refused.json.error.code).toBe('gateway.token_required');
    expect(passed.status).toBe(200);
    expect(passed.body).not.toContain(token);
    expect(passed.headers['set-cookie']).toEqual(['own=1; Path=/']);
  });

  test('a credential of the program arrives beside the cookie', async () => {
    const { stage, token } = await openHostile();
    const headers = {
      cookie: `leasehold-gateway=${token}`,
      authorization: 'Bearer of-the-program',
    };
    const reply = await stage.ask('/k/_/room/', { headers });
    expect(reply.json.headers['authorization']).toBe('Bearer of-the-program');
  });
});

describe('where a request comes from', () => {
  test('a proxy that is trusted is believed, no other', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https' };
    const trusting = await openHostile({ LEASEHOLD_TRUSTED_PROXIES: '127.0.0.1' });
    const believed = await trusting.stage.ask(`/t/${trusting.token}/`, { headers });
    expect(believed.json.headers).toMatchObject({
      'x-forwarded-for': '203.0.113.9, 127.0.0.1',
      'x-forwarded-proto': 'https',
    });
    const plain = await openHostile();
    const replaced = await plain.stage.ask(`/t/${plain.token}/`, { headers });
    expect(replaced.json.headers).toMatchObject({
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'http',
    });
  });

  test('of what trusted proxies pass on, only the word of the last of them counts that is not theirs', async () => {
    const { stage, token } = await openHostile({
      LEASEHOLD_TRUSTED_PROXIES: '127.0.0.1,10.0.0.0/8',
    });
    const seenFor = async (said: string): Promise<string | undefined> => {
      const headers = { 'x-forwarded-for': said };
      return (await stage.ask(`/t/${token}/`, { headers })).json.headers['x-forwarded-for'];
    };
    expect(await seenFor('6.6.6.6, 203.0.113.9')).toBe('203.0.113.9, 127.0.0.1');
    expect(await seenFor('6.6.6.6, 203.0.113.9, 10.0.0.7')).toBe(
      '203.0.113.9, 10.0.0.7, 127.0.0.1',
    );
    expect(await seenFor('6.6.6.6, unknown, 10.0.0.7')).toBe('10.0.0.7, 127.0.0.1');
    expect(await seenFor('10.0.0.8,10.0.0.7')).toBe('10.0.0.8, 10.0.0.7, 127.0.0.1');
  });

  test('a host that it does not serve is refused', async () => {
    const { stage, token } = await openHostile({
      LEASEHOLD_GATEWAY_URL: 'https://rooms.example.com',
    });
    const reply = await stage.ask(`/t/${token}/`, { headers: { host: 'evil.example' } });
    expect(reply.status).toBe(421);
    const own = await stage.ask(`/t/${token}/`, { headers: { host: 'rooms.example.com' } });
    expect(own.json.headers['x-forwarded-proto']).toBe('https');
    const statusOf = async (host: string): Promise<number> =>
      (await stage.ask(`/t/${token}/`, { headers: { host } })).status;
    expect(await statusOf('rooms.example.com:443')).toBe(200);
    expect(await statusOf('rooms.example.com:80')).toBe(421);
  });
});

describe('strangers who ask as fast as it goes', () => {
  const NO_TOKEN = '/k/_/room/';

  test('of one that is refused ten times within a second nothing more is read, and later it is closed', async () => {
    const { stage, token } = await openHostile({}, { isStill: true });
    const asked = askOneByOne(
      stage,
      Array.from({ length: 100 }, () => NO_TOKEN),
    );
    await waitUntil(() => asked.answered >= 10);
    expect((await stage.ask(`/t/${token}/`)).status).toBe(200);
    expect(asked.isOver).toBe(false);
    await waitUntil(() => {
      stage.passTime(500);
      return asked.isOver;
    });
    expect(asked.answered).toBeLessThan(20);
  });

  test('one that asks less often goes on, and so does a connection that a user has', async () => {
    const { stage, token } = await openHostile();
    const seldom = askOneByOne(
      stage,
      Array.from({ length: 30 }, () => '/healthz'),
      () => stage.passTime(200),
    );
    await waitUntil(() => seldom.answered === 30);
    const ofUser = Array.from({ length: 30 }, () => NO_TOKEN);
    const user = askOneByOne(stage, [`/t/${token}/`, ...ofUser]);
    await waitUntil(() => user.answered === 31);
    expect([seldom.isOver, user.isOver]).toEqual([false, false]);
  });

  test('of an address that has sent many requests at once, a connection that does so again is not even parsed', async () => {
    const { stage, token } = await openHostile({}, { isStill: true });
    const many = `GET ${NO_TOKEN} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(100);
    await stage.raw(many);
    const refused = await refusals(stage);
    let isOver = false;
    const again = stage.raw(many).then((said) => {
      isOver = true;
      return said;
    });
    const body = '\r\n\r\n'.repeat(1_000);
    const upload = await stage.ask(`/t/${token}/`, { method: 'POST', body });
    expect([upload.status, upload.json.bytes, isOver]).toEqual([200, body.length, false]);
    await waitUntil(() => {
      stage.passTime(500);
      return isOver;
    });
    expect([await again, await refusals(stage)]).toEqual(['', refused]);
  });
});

/** How many requests the gateway has refused. */
async function refusals({ gateway }: GatewayStage): Promise<number> {
  const metrics = await (await fetch(`${gateway.metricsUrl}/metrics`)).text();
  const counts = metrics.matchAll(/^leasehold_gateway_refusals_total\{.*\} (\d+)$/gmu);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Asks over one connection, each time after the answer to the last. */
function askOneByOne(
  { port }: GatewayStage,
  paths: readonly string[],
  onAnswer: () => void = () => undefined,
): { answered: number; isOver: boolean } {
  const seen = { answered: 0, isOver: false };
  const socket = net.connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const ask = (): void => {
    const path = paths[seen.answered];
    if (path !== undefined) socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
  };
  socket.on('data', () => {
    seen.answered += 1;
    onAnswer();
    ask();
  });
  socket.on('error', () => undefined).once('close', () => (seen.isOver = true));
  ask();
  return seen;
}
