/** Attacks on the gateway, beside a user whose requests go on. What reaches a backend is read from the backend itself. */
import { generateKeyPairSync, sign as signatureOf } from 'node:crypto';
import { once } from 'node:events';
import http, { type IncomingMessage } from 'node:http';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { keyHostLabel } from '@leasehold/keys-core/gateway-addresses';
import { waitUntil, type GatewayProcess } from '@leasehold/testing/stack';
import type { Attack, Yield } from './attack.ts';
import { LEFT_MB_MAX, settledMb } from './carry-out.ts';
import { latenciesOf, type Latencies } from './healthy.ts';
import { KEY_HOSTS, type AttackStage } from './stage.ts';
import { startAttacker } from './start-attacker.ts';

const USER_PAUSE_MS = 20;
const ANSWER_MS_MAX = 10_000;
const WARM_USERS = 20;
const WARM_REQUESTS = 100;
const KEY = { name: 'mirrored' };
const OTHER = { name: 'other' };
const SPAWN = { program: 'mirror' };

/** What a backend was sent. */
interface Mirrored {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

interface Site {
  readonly stage: AttackStage;
  readonly gateway: GatewayProcess;
  readonly port: number;
  /** Of the key that is attacked. */
  readonly token: string;
}

/**
 * An attack that is carried out while a user's requests to another key go on, and the gateway's memory comes back. The
 * backend of the attacked key is as busy as those make it who may use it, with or without a gateway.
 */
function gatewayAttack(
  name: string,
  what: string,
  work: (site: Site, attackMs: number) => Promise<Yield>,
): Attack {
  return {
    name,
    what,
    async carryOut(stage, attackMs) {
      const site = await openSite(stage);
      const { pid } = site.gateway;
      const before = await stage.memoryMb(pid);
      const logged = site.gateway.log().length;
      const [seen, beside] = await Promise.all([work(site, attackMs), useBeside(site, attackMs)]);
      const moreMb = (await settledMb(() => stage.memoryMb(pid), before)) - before;
      const errors =
        site.gateway
          .log()
          .slice(logged)
          .match(/"level":(?:"error"|50)\b/gu) ?? [];
      const got = [
        ...seen.got,
        ...(moreMb > LEFT_MB_MAX ? [`${String(moreMb)} MB of the gateway`] : []),
        ...(errors.length > 0 ? [`${String(errors.length)} errors in the gateway's log`] : []),
      ];
      return { ...seen, beside, got };
    },
  };
}

async function openSite(stage: AttackStage): Promise<Site> {
  const gateway = await stage.gateway();
  for (const key of [KEY, OTHER]) {
    await stage.api().keys.connect.mutate({ key, spawn: SPAWN, waitFor: 'ready' });
  }
  const site = {
    stage,
    gateway,
    port: Number(new URL(gateway.url).port),
    token: await sign(stage, {}),
  };
  await warmUp(site);
  return site;
}

/** Memory is compared with that of a gateway in use: one that has answered nothing yet has not made its heap. */
async function warmUp(site: Site): Promise<void> {
  const token = await sign(site.stage, { key: OTHER, user: 'ben' });
  await Promise.all(
    Array.from({ length: WARM_USERS }, async () => {
      for (let nth = 0; nth < WARM_REQUESTS; nth += 1) await ask(site, `/t/${token}/ben`);
    }),
  );
}

async function sign(
  stage: AttackStage,
  {
    key = KEY,
    user = 'anna',
    expiresInSeconds,
  }: { key?: { name: string }; user?: string; expiresInSeconds?: number },
): Promise<string> {
  const access = { user, mayStart: true, ...(expiresInSeconds && { expiresInSeconds }) };
  return (await stage.api().gateway.sign.mutate({ key, access, spawn: SPAWN })).token;
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

async function ask(
  { port }: Pick<Site, 'port'>,
  path: string,
  headers: http.OutgoingHttpHeaders = {},
): Promise<Answer> {
  const signal = AbortSignal.timeout(ANSWER_MS_MAX);
  const request = http.get({ port, host: '127.0.0.1', path, headers, agent: false, signal });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  let text = '';
  for await (const piece of response.setEncoding('utf8')) text += String(piece);
  return { status: response.statusCode ?? 0, text };
}

/** Requests of the user of another key. */
async function useBeside(site: Site, forMs: number): Promise<Latencies> {
  const token = await sign(site.stage, { key: OTHER, user: 'ben' });
  const untilMs = performance.now() + forMs;
  const took: number[] = [];
  const failed: string[] = [];
  while (performance.now() < untilMs) {
    const startedAtMs = performance.now();
    await ask(site, `/t/${token}/ben`).then(
      ({ status, text }) => {
        took.push(performance.now() - startedAtMs);
        if (status !== 200) failed.push(text);
      },
      (error: unknown) => failed.push(String(error)),
    );
    await sleep(USER_PAUSE_MS);
  }
  return latenciesOf(took, failed);
}

/** What backends of a key have been sent. */
async function seenBy(site: Site, name: string): Promise<readonly Mirrored[]> {
  const token = await sign(site.stage, { key: { name }, user: 'reader' });
  return JSON.parse((await ask(site, `/t/${token}/seen`)).text) as Mirrored[];
}

// Tokens that open nothing.

const CODES = {
  forged: 'gateway.token_invalid',
  changed: 'gateway.token_invalid',
  unsigned: 'gateway.token_invalid',
  'of another key': 'gateway.wrong_key',
  'for another host': 'gateway.wrong_key',
  expired: 'gateway.token_expired',
  revoked: 'gateway.token_revoked',
  'in a referrer': 'gateway.token_required',
} as const;

/** A request that must be refused. */
type BadRequest = readonly [path: string, headers: http.OutgoingHttpHeaders];

async function badTokens({ stage, token }: Site): Promise<Record<keyof typeof CODES, BadRequest>> {
  const expired = await sign(stage, { expiresInSeconds: 1 });
  const revoked = await sign(stage, { user: 'eve' });
  const other = await sign(stage, { key: OTHER });
  await stage.api().gateway.revoke.mutate({ user: 'eve', reason: 'an attack' });
  const [head = '', body = '', signature = ''] = token.split('.');
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as object;
  const { kid } = JSON.parse(Buffer.from(head, 'base64url').toString()) as { kid: string };
  const encoded = (value: object): string =>
    Buffer.from(JSON.stringify(value)).toString('base64url');
  const byToken = (text: string): BadRequest => [`/t/${text}/attacked`, {}];
  return {
    forged: byToken(forgedOf(head, body)),
    changed: byToken([head, encoded({ ...claims, sub: 'root' }), signature].join('.')),
    unsigned: byToken([encoded({ alg: 'none', kid }), body, ''].join('.')),
    'of another key': [`/k/_/${KEY.name}/attacked`, { authorization: `Bearer ${other}` }],
    'for another host': [`/t/${other}/attacked`, { host: hostOf(KEY.name) }],
    expired: byToken(expired),
    revoked: byToken(revoked),
    'in a referrer': [`/k/_/${KEY.name}/attacked`, { referer: `http://x/t/${token}/` }],
  };
}

function hostOf(name: string): string {
  return KEY_HOSTS.replace('*', keyHostLabel({ namespace: '', name }));
}

/** Signed by somebody else under the name of the key that is in force. */
function forgedOf(head: string, body: string): string {
  const { privateKey } = generateKeyPairSync('ed25519');
  const signature = signatureOf(null, Buffer.from(`${head}.${body}`), privateKey);
  return `${head}.${body}.${signature.toString('base64url')}`;
}

const badTokensAttack = gatewayAttack(
  'gateway-tokens',
  'tokens that are forged, over, revoked, of another key, for another host, or in a referrer',
  async (site, attackMs) => {
    const requests = await badTokens(site);
    const entries = Object.entries(requests) as [keyof typeof CODES, BadRequest][];
    // They are over when a second has passed, and the gateway knows of the revocation.
    for (const of of ['expired', 'revoked'] as const) {
      await waitUntil(async () => (await ask(site, ...requests[of])).text.includes(CODES[of]));
    }
    const reached = async (): Promise<number> =>
      [...(await seenBy(site, KEY.name)), ...(await seenBy(site, OTHER.name))].filter(
        ({ url }) => url === '/attacked',
      ).length;
    const before = await reached();
    const refused: Record<string, number> = {};
    const got: string[] = [];
    const untilMs = performance.now() + attackMs;
    let tried = 0;
    do {
      for (const [kind, request] of entries) {
        const { text } = await ask(site, ...request);
        tried += 1;
        if (text.includes(CODES[kind])) refused[CODES[kind]] = (refused[CODES[kind]] ?? 0) + 1;
        else got.push(`by a token ${kind}: ${text}`);
      }
    } while (performance.now() < untilMs);
    if ((await reached()) > before) got.push('a backend by one of them');
    return { tried, refused, got: [...got, ...(await leaksOf(site))] };
  },
);

/** A good token must be nowhere that others read: at backends, or in the gateway's log. */
async function leaksOf(site: Site): Promise<string[]> {
  const { token, gateway } = site;
  const referrer = `http://${new URL(gateway.url).host}/t/${token}/page`;
  await ask(site, `/t/${token}/page`, { referer: referrer, 'x-original-url': referrer });
  await ask(site, `/k/_/${KEY.name}/page`, { cookie: `leasehold-gateway=${token}; a=b` });
  const seen = JSON.stringify(await seenBy(site, KEY.name));
  return [
    ...(seen.includes(token) ? ['a token that a backend was sent'] : []),
    ...(gateway.log().includes(token) ? ['a token in the log'] : []),
  ];
}

// Requests that two programs may understand in two ways.

const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n';
/** Ends a connection that is still open. */
const LAST = 'GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
const CHUNKED = 'Transfer-Encoding: chunked';

/** Everything before the smuggled request; a star is the path of the key. */
const PREFIXES: Readonly<Record<string, string>> = {
  'CL.TE': `POST * HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n${CHUNKED}\r\n\r\n0\r\n\r\n`,
  'TE.CL': `POST * HTTP/1.1\r\nHost: a\r\n${CHUNKED}\r\nContent-Length: 4\r\n\r\n5c\r\n`,
  'TE.TE': `POST * HTTP/1.1\r\nHost: a\r\n${CHUNKED}\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n`,
  'TE with a space': `POST * HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
  'TE in a folded line': `POST * HTTP/1.1\r\nHost: a\r\nX-A: b\r\n ${CHUNKED}\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
  'two lengths': 'POST * HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 41\r\n\r\n',
  'a signed length': 'POST * HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n',
  'a length behind a bare line feed':
    'POST * HTTP/1.1\r\nHost: a\r\nX-A: b\nContent-Length: 41\r\n\r\n',
  'an upgrade to nothing': 'GET * HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
  'a body of a GET': `GET * HTTP/1.1\r\nHost: a\r\nContent-Length: ${String(SMUGGLED.length)}\r\n\r\n`,
  'too large a header': `GET * HTTP/1.1\r\nHost: a\r\nX-A: ${'a'.repeat(20_000)}\r\n\r\n`,
};

/** Must not leave the key's own path. */
const PATHS = ['/../other/x', '/%2e%2e/other/x', '/..%2f..%2fetc', '/%252e%252e/x', '/..%5cx'];

/** What only a gateway says. */
const CLAIMED: http.OutgoingHttpHeaders = {
  'x-leasehold-user': 'root',
  'X-Leasehold-Claims': '{"admin":true}',
  x_leasehold_user: 'root',
  'x-leasehold-fencing-token': '99999999999',
  'x-forwarded-for': '203.0.113.9',
  'proxy-authorization': 'Basic cm9vdA==',
  te: 'trailers',
  connection: 'close, x-leasehold-user, x-leasehold-key, x-request-id',
};

const smugglingAttack = gatewayAttack(
  'gateway-smuggling',
  'requests in requests, paths that leave their key, and headers that only a gateway sends',
  async (site, attackMs) => {
    const untilMs = performance.now() + attackMs;
    const path = `/t/${site.token}/attacked`;
    const refused: Record<string, number> = {};
    const got: string[] = [];
    let tried = 0;
    const note = (status: string): void => {
      tried += 1;
      refused[status] = (refused[status] ?? 0) + 1;
    };
    do {
      for (const prefix of Object.values(PREFIXES)) {
        note(await statusOf(site, `${prefix.replace('*', path)}${SMUGGLED}${LAST}`));
      }
      for (const one of PATHS) {
        const line = `GET /t/${site.token}${one} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`;
        const status = await statusOf(site, line);
        note(status);
        if (status !== '400') got.push(`${status} for ${one}`);
      }
      const { text } = await ask(site, path, CLAIMED);
      const { headers } = JSON.parse(text) as Mirrored;
      tried += 1;
      if (/root|admin|99999999999|203\.0\.113|cm9vdA|trailers/u.test(JSON.stringify(headers))) {
        got.push(`a header of its own to the backend: ${text}`);
      }
      if (headers['x-leasehold-user'] !== 'anna') got.push('a request without its user');
    } while (performance.now() < untilMs);
    const seen = [...(await seenBy(site, KEY.name)), ...(await seenBy(site, OTHER.name))];
    const wrong = seen.find(({ url }) => !['/attacked', '/page', '/ben'].includes(url));
    return { tried, refused, got: [...got, ...(wrong ? [`${wrong.url} to a backend`] : [])] };
  },
);

/** Sends text, and reads until the gateway closes the connection. @returns the first status. */
async function statusOf({ port }: Site, text: string): Promise<string> {
  const socket = net.connect(port, '127.0.0.1');
  let said = '';
  socket.setEncoding('latin1').on('data', (piece: string) => (said += piece));
  socket.on('error', () => undefined);
  socket.setTimeout(ANSWER_MS_MAX, () => socket.destroy());
  socket.write(text, 'latin1');
  await once(socket, 'close');
  return /^HTTP\/1\.1 (\d{3})/u.exec(said)?.[1] ?? 'closed';
}

// Sockets.

function fromOutside(name: string, what: string, rest?: (site: Site) => Promise<string[]>): Attack {
  return gatewayAttack(name, what, async (site, attackMs) => {
    const url = `http://127.0.0.1:${String(site.port)}/t/${site.token}/`;
    const seen = await startAttacker({ name, url, token: null, attackMs });
    return { ...seen, got: (await rest?.(site)) ?? [] };
  });
}

/** Nothing of an attack may stay open. */
async function leftOpen({ gateway }: Site): Promise<string[]> {
  const count = async (): Promise<number> => {
    const text = await (await fetch(`${gateway.metricsUrl}/metrics`)).text();
    const lines = text.matchAll(/^leasehold_gateway_open_connections\{.*\} (\d+)$/gmu);
    return [...lines].reduce((sum, [, number]) => sum + Number(number), 0);
  };
  // The user's own request may be one of them.
  return waitUntil(async () => (await count()) <= 1, { what: 'the end of what was left' }).then(
    () => [],
    async () => [`${String(await count())} connections that nobody uses`],
  );
}

export const GATEWAY_ATTACKS: readonly Attack[] = [
  badTokensAttack,
  smugglingAttack,
  fromOutside('gateway-slow', '300 clients whose heads, bodies or reading never end', leftOpen),
  fromOutside(
    'gateway-sockets',
    'WebSockets that are cut, or end in one direction alone',
    leftOpen,
  ),
  fromOutside('gateway-anonymous', '10,000 requests a second without a token'),
];
