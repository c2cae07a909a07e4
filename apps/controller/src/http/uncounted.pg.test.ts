/** Whatever is asked without a token is counted by address, and not answered when it is far too much. */
import { once } from 'node:events';
import http from 'node:http';
import { FAIR_USE_CONFIG_DEFAULTS } from '@leasehold/keys-core';
import { expect, test } from 'vitest';
import { shareTestController, type TestController } from '../testing/test-controller.ts';

let on: TestController;
shareTestController(
  (shared) => {
    on = shared;
  },
  {
    fairUse: {
      ...FAIR_USE_CONFIG_DEFAULTS,
      // Each is one too many.
      anonymous: { callsPerSecond: 0, connections: 1_000 },
    },
  },
);

test.each([
  ['whether it is alive', 'GET', '/healthz', {}],
  ['whether it is ready', 'GET', '/readyz', {}],
  ['for its description', 'GET', '/openapi.json', {}],
  ['for what is not there', 'GET', '/nothing', {}],
  ['for an address that cannot be read', 'GET', '/%zz', {}],
  ['what it may ask', 'OPTIONS', '/trpc/leases.list', {}],
  ['how to sign in', 'GET', '/api/auth/sign-in-options', {}],
  ['for a call', 'GET', '/trpc/leases.list', {}],
  [
    'for a call with a wrong token',
    'GET',
    '/trpc/leases.list',
    { authorization: 'Bearer lh_wrong' },
  ],
  ['for a call with a wrong cookie', 'GET', '/trpc/leases.list', { cookie: 'a=b' }],
  ['for its metrics', 'GET', '/metrics', {}],
])('a caller that asks %s far too often is not answered', async (_what, method, path, headers) => {
  const { secret } = await on.token('viewer');
  const authorization = `Bearer ${secret}`;
  await fetch(`${on.url}/trpc/leases.list`, { headers: { authorization } });

  const asked = fetch(`${on.url}${path}`, { method, headers });

  await expect(asked).rejects.toMatchObject({ cause: { code: 'UND_ERR_SOCKET' } });
  const known = await fetch(`${on.url}/trpc/leases.list`, { headers: { authorization } });
  expect(known.status).toBe(200);
});

test('a caller that expects what nobody knows far too often is not answered', async () => {
  const headers = { expect: 'something' };
  const request = http.get(`${on.url}/healthz`, { agent: false, headers });
  await expect(once(request, 'response')).rejects.toMatchObject({ code: 'ECONNRESET' });
});
