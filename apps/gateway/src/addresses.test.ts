/** Under which addresses a key is reached, and what its program may make of what it is told of them. */
import { keyHostLabel } from '@leasehold/keys-core/gateway-addresses';
import { describe, expect, test } from 'vitest';
import { openGatewayStage, startBackend } from './testing/gateway-stage.ts';

const NAVIGATES = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
const HOST = `${keyHostLabel({ namespace: '', name: 'room' })}.rooms.example.com`;

describe('a program that puts the prefix that it is told before its own addresses', () => {
  const FORMS = {
    'with a token': (token: string) => ({ prefix: `/t/${token}`, headers: {} }),
    'by its name': (token: string) => ({
      prefix: '/k/_/room',
      headers: { authorization: `Bearer ${token}` },
    }),
    'by its name in another writing': (token: string) => ({
      prefix: '/k/_/%72oom',
      headers: { authorization: `Bearer ${token}` },
    }),
    'on a host of its own': (token: string) => ({
      prefix: '',
      headers: { host: HOST, authorization: `Bearer ${token}` },
    }),
    'with a token on a host of its own': (token: string) => ({
      prefix: `/t/${token}`,
      headers: { host: HOST },
    }),
  };

  test.each(Object.entries(FORMS))('keeps its client where that is: %s', async (_form, formOf) => {
    const stage = await openGatewayStage({ LEASEHOLD_GATEWAY_HOSTS: '*.rooms.example.com' });
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const { prefix, headers } = formOf(await stage.controller.sign());
    backend.handler = ({ url, headers: told }, response) => {
      const own = String(told['x-forwarded-prefix'] ?? '');
      const location = `${own}${decodeURIComponent(url?.slice(2) ?? '')}`;
      response.setHeader('set-cookie', [`all=1; Path=${own}/`, `some=1; Path=${own}/app`]);
      response.writeHead(302, { location }).end();
    };
    const sentTo = async (path: string): Promise<string | undefined> =>
      (await stage.ask(`${prefix}/?${encodeURIComponent(path)}`, { headers })).headers.location;

    expect(await sentTo('/login')).toBe(`${prefix}/login`);
    expect(await sentTo('/?next=a')).toBe(`${prefix}/?next=a`);
    // Without a prefix, it would be the page itself.
    if (!('host' in headers)) expect(await sentTo('?next=a')).toBe(`${prefix}/?next=a`);
    const { headers: answered } = await stage.ask(`${prefix}/?`, { headers });
    expect(answered['set-cookie']).toEqual([
      `all=1; Path=${prefix}/`,
      `some=1; Path=${prefix}/app`,
    ]);
  });
});

test.each([
  { form: 'with a token', host: 'a', isToken: true },
  { form: 'by its name', host: 'a', isToken: false },
  { form: 'with a token on a host of its own', host: HOST, isToken: true },
])(
  'a program that makes whole addresses of what it is told keeps its client where that is: $form',
  async ({ host, isToken }) => {
    const stage = await openGatewayStage({ LEASEHOLD_GATEWAY_HOSTS: '*.rooms.example.com' });
    const backend = await startBackend();
    stage.controller.address = backend.address;
    const token = await stage.controller.sign();
    const prefix = isToken ? `/t/${token}` : '/k/_/room';
    backend.handler = ({ url, headers: told }, response) => {
      const said = (name: string): string => String(told[`x-forwarded-${name}`] ?? '');
      const own = `${said('proto')}://${said('host')}`;
      const location = `${own}${url === '/other' ? '/k/_/room2' : said('prefix')}/login`;
      response.writeHead(302, { location }).end();
    };
    const headers = { host, ...(isToken ? {} : { authorization: `Bearer ${token}` }) };
    const sentTo = async (path: string): Promise<string | undefined> =>
      (await stage.ask(`${prefix}${path}`, { headers })).headers.location;

    expect(await sentTo('/')).toBe(`${prefix}/login`);
    // Another key of the same host.
    if (host === 'a') expect(await sentTo('/other')).toBe('http://a/k/_/room2/login');
  },
);

test('a namespace that is named as the sign of the root has a path, and a cookie, of its own', async () => {
  const stage = await openGatewayStage();
  const backend = await startBackend();
  stage.controller.address = backend.address;
  const token = await stage.controller.sign({ ns: '_' });

  const opened = await stage.ask(`/t/${token}/a`, { headers: NAVIGATES });
  const [cookie = ''] = opened.headers['set-cookie'] ?? [];
  const asked = await stage.ask('/k/%5F/room/a', {
    headers: { cookie: cookie.split(';')[0] ?? '' },
  });
  const ofRoot = await stage.ask('/k/_/room/a', {
    headers: { authorization: `Bearer ${token}` },
  });

  expect(opened.headers.location).toBe('/k/%5F/room/a');
  expect(cookie).toContain('; Path=/k/%5F/room/;');
  expect(asked.json.headers).toMatchObject({
    'x-leasehold-namespace': '_',
    'x-forwarded-prefix': '/k/%5F/room',
  });
  expect(ofRoot.json.error.code).toBe('gateway.wrong_key');
});

test.each([
  ['*.rooms.example.com', ['', ':80', ':8443']],
  ['*.rooms.example.com:80', ['', ':80']],
  ['*.rooms.example.com:8443', [':8443']],
])(
  'the hosts of keys, %s, are served with a port that goes without saying too',
  async (hosts, ports) => {
    const stage = await openGatewayStage({
      LEASEHOLD_GATEWAY_HOSTS: hosts,
      LEASEHOLD_GATEWAY_URL: 'http://gateway.example.com',
    });
    stage.controller.address = (await startBackend()).address;
    const authorization = `Bearer ${await stage.controller.sign()}`;
    const served: string[] = [];
    for (const port of ['', ':80', ':8443']) {
      const headers = { host: `${HOST}${port}`, authorization };
      if ((await stage.ask('/', { headers })).status === 200) served.push(port);
    }
    expect(served).toEqual(ports);
  },
);
