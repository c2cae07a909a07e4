import { describe, expect, test } from 'vitest';
import { createControllerClient, leaseholdErrorOf } from '@leasehold/client';
import { newTokenSecret } from '@leasehold/keys-core/access';
import { shareTestController, type TestController } from '../testing/test-controller.ts';
import { wanted } from '../testing/wire-leases.ts';
import { call, input } from '../testing/wire.ts';

async function countLeases(on: TestController): Promise<number> {
  const rows = await on.controller.store.general.$queryRaw<{ count: number }[]>`
    select count(*)::int as count from lease where namespace <> 'leasehold'`;
  return rows[0]?.count ?? -1;
}

describe('wire', () => {
  let on: TestController;
  shareTestController((shared) => {
    on = shared;
  });

  test('a query is a GET with its input in the address, and answers with result.data', async () => {
    const { secret } = await on.token('viewer');

    const one = await call(on, `/trpc/keys.get${input({ name: 'demo' })}`, { secret });
    const list = await call(on, '/trpc/keys.list', { secret });

    expect(one).toEqual({ status: 200, body: { result: { data: null } } });
    expect(list.body.result?.data).toMatchObject({ items: [], nextCursor: null, unreachable: [] });
  });

  test.each(['http', 'ws'] as const)(
    'a caller with a wrong token over %s is refused with a code that its client reads',
    async (transport) => {
      const client = createControllerClient({ url: on.url, token: newTokenSecret(), transport });

      const calls = [client.api.keys.list.query({}), client.api.keys.get.query({ name: 'k' })];
      const codes = await Promise.all(
        calls.map((answer) => answer.catch((error: unknown) => leaseholdErrorOf(error)?.code)),
      );

      expect(codes).toEqual(['auth.required', 'auth.required']);
      await client.close();
    },
  );

  test('a refusal has the shape of the contract, with the status of its code', async () => {
    const { secret } = await on.token('client');

    const answer = await call(on, '/trpc/keys.connect', {
      body: JSON.stringify({ key: { name: 'demo' } }),
      secret,
    });

    expect(answer.status).toBe(409);
    expect(answer.body.error?.data).toEqual({
      code: 'CONFLICT',
      httpStatus: 409,
      leaseholdCode: 'key.unheld',
      retryable: false,
      incidentId: null,
      details: {},
    });
    expect(answer.body.error?.message).toContain('Nobody holds this key');
  });

  test.each([
    ['no token', undefined],
    ['a malformed token', 'lh_nonsense'],
    ['another scheme', 'Basic abc'],
    ['an unknown token', newTokenSecret()],
  ])('%s gets the answer that a token is needed', async (_what, secret) => {
    const answer = await call(on, '/trpc/keys.list', secret === undefined ? {} : { secret });

    expect(answer.status).toBe(401);
    expect(answer.body.error?.data.leaseholdCode).toBe('auth.required');
  });

  test('a refusal that time cures names its time also in a header', async () => {
    const { secret } = await on.token('client', { limits: { eventBytesPerHour: 1 } });

    const answer = await fetch(`${on.url}/trpc/leases.acquire`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify(wanted()),
    });
    const { error } = (await answer.json()) as {
      error: { data: { details: { retryAfterMs: number } } };
    };

    expect(answer.status).toBe(429);
    const { retryAfterMs } = error.data.details;
    expect(answer.headers.get('retry-after')).toBe(String(Math.ceil(retryAfterMs / 1_000)));
  });

  test('a role that does not suffice is refused, with the name of the role that does', async () => {
    const { secret } = await on.token('viewer');

    const answer = await call(on, '/trpc/tokens.list', { secret });

    expect(answer.status).toBe(403);
    expect(answer.body.error?.message).toContain('admin');
  });

  test.each([
    ['an unknown field', { key: { name: 'k' }, spawnn: {} }, 'spawnn: is not a known field'],
    [
      'a wrong type',
      { key: { name: 7 } },
      'key.name: Invalid input: expected string, received number',
    ],
    ['an empty name', { key: { name: '' } }, 'key.name: must not be empty'],
    [
      'a control character',
      { key: { name: 'a\tb' } },
      'key.name: must not contain control characters',
    ],
    [
      'a name that is too long',
      { key: { name: 'x'.repeat(256) } },
      'key.name: must be at most 255 bytes of UTF-8, and is 256',
    ],
    ['a list instead of an object', [1, 2], 'input: '],
    ['nothing', undefined, 'input: '],
  ])('%s is a clear error, and changes nothing', async (_what, body, message) => {
    const { secret } = await on.token('client');

    const text = body === undefined ? '' : JSON.stringify(body);

    const answer = await call(on, '/trpc/keys.connect', { body: text, secret });

    expect(answer.status).toBe(400);
    expect(answer.body.error?.data.leaseholdCode).toBe('request.invalid');
    expect(answer.body.error?.message).toContain(message);
    expect(await countLeases(on)).toBe(0);
  });

  test('C11 a program that no drone offers has its own error, and leaves nothing behind', async () => {
    const { secret } = await on.token('client');
    const body = JSON.stringify({ key: { name: 'k' }, spawn: { program: 'nothing' } });

    const answer = await call(on, '/trpc/keys.connect', { body, secret });

    expect(answer.status).toBe(503);
    expect(answer.body.error?.data).toMatchObject({
      leaseholdCode: 'spawn.no_drone',
      retryable: true,
    });
    expect(await countLeases(on)).toBe(0);
  });

  test('calls that are sent together are answered separately', async () => {
    const { secret } = await on.token('viewer');
    const inputs = encodeURIComponent(JSON.stringify({ 0: { name: 'k' }, 1: { name: '' } }));

    const response = await fetch(`${on.url}/trpc/keys.get,keys.get?batch=1&input=${inputs}`, {
      headers: { authorization: `Bearer ${secret}` },
    });

    expect(response.status).toBe(207);
    expect(await response.json()).toMatchObject([
      { result: { data: null } },
      { error: { data: { leaseholdCode: 'request.invalid' } } },
    ]);
  });

  test('calls that are sent together count also where they are more than one request may have', async () => {
    const { secret } = await on.token('viewer', { limits: { batchSize: 1, callsPerSecond: 3 } });

    const answer = await fetch(`${on.url}/trpc/keys.list,keys.list,keys.list,keys.list?batch=1`, {
      headers: { authorization: `Bearer ${secret}` },
    });

    expect(answer.headers.get('retry-after')).not.toBeNull();
    expect(await answer.text()).toContain('request.rate_limited');
  });

  test('malformed JSON is a clear error', async () => {
    const { secret } = await on.token('client');

    const inBody = await call(on, '/trpc/keys.connect', { body: '{"key":', secret });
    const inAddress = await call(on, '/trpc/keys.get?input={', { secret });

    for (const answer of [inBody, inAddress]) {
      expect(answer.status).toBe(400);
      expect(answer.body.error?.data.leaseholdCode).toBe('request.invalid');
    }
  });

  test('a body of 10 MB is refused, and the controller keeps working', async () => {
    const { secret } = await on.token('client');

    const answer = await call(on, '/trpc/keys.connect', {
      body: JSON.stringify({ key: { name: 'x'.repeat(10_000_000) } }),
      secret,
    });

    expect(answer.status).toBe(413);
    expect(answer.body.error?.data.leaseholdCode).toBe('request.too_large');
    expect((await call(on, '/trpc/keys.list', { secret })).status).toBe(200);
  });

  test.each([
    ['an unknown procedure', '/trpc/keys.nothing', 'GET'],
    ['an unknown path', '/nothing', 'GET'],
    ['the bare path', '/trpc', 'GET'],
    ['a query that is posted', '/trpc/keys.list', 'POST'],
    ['a mutation that is fetched', '/trpc/keys.connect', 'GET'],
  ] as const)('%s is not found, in the shape of the contract', async (_what, path, method) => {
    const { secret } = await on.token('admin');

    const answer = await call(on, path, {
      method,
      secret,
      ...(method === 'POST' ? { body: '{}' } : {}),
    });

    expect(answer.status).toBeGreaterThanOrEqual(404);
    expect(answer.body.error?.data).toMatchObject({
      leaseholdCode: 'request.not_found',
      retryable: false,
    });
  });

  test('a body of another type is a clear error', async () => {
    const { secret } = await on.token('client');

    const answer = await call(on, '/trpc/keys.connect', {
      body: 'key=1',
      type: 'application/x-www-form-urlencoded',
      secret,
    });

    expect(answer.body.error?.data.leaseholdCode).toBe('request.invalid');
    expect(answer.status).toBe(400);
  });

  test('a caller that may not read a namespace gets the same answer as if nothing were in it', async () => {
    const { secret } = await on.token('viewer', { namespaces: ['team'] });

    const answer = await call(on, `/trpc/keys.get${input({ name: 'k', namespace: 'other' })}`, {
      secret,
    });

    expect(answer).toEqual({ status: 200, body: { result: { data: null } } });
  });

  test('health is open, readiness queries the database, metrics are for viewers of all namespaces', async () => {
    const { secret } = await on.token('viewer');
    const drone = await on.token('drone');
    const limited = await on.token('viewer', { namespaces: ['team'] });

    expect((await call(on, '/healthz')).status).toBe(200);
    expect((await call(on, '/readyz')).status).toBe(200);
    expect((await call(on, '/metrics')).status).toBe(401);
    expect((await call(on, '/metrics', { secret: drone.secret })).status).toBe(403);
    expect((await call(on, '/metrics', { secret: limited.secret })).status).toBe(403);
    const metrics = await fetch(`${on.url}/metrics`, {
      headers: { authorization: `Bearer ${secret}` },
    });
    expect(await metrics.text()).toContain('leasehold_drones{status="ready"} 0');
  });
});
