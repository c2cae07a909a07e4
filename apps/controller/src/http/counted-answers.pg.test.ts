/** What a caller gets over HTTP counts for its limits, as over a WebSocket. */
import { beforeAll, expect, test } from 'vitest';
import { openTestController, type TestController } from '../testing/test-controller.ts';
import { input } from '../testing/wire.ts';

let on: TestController;
beforeAll(async () => {
  const { close, ...started } = await openTestController();
  on = started;
  return close;
});

test.each([
  ['a call', () => '/trpc/leases.list', {}],
  ['a call that fails', () => `/trpc/leases.get${input({ namespace: ['a'], name: 'b' })}`, {}],
  ['a batch', () => '/trpc/leases.list,drones.list?batch=1', {}],
  [
    'a batch that is answered in parts',
    () => '/trpc/leases.list?batch=1',
    { 'trpc-accept': 'application/jsonl' },
  ],
  ['a stream', () => `/trpc/events.watch${input({ afterId: 'oldest' })}`, {}],
])('the answer to %s counts', async (_what, pathOf, headers) => {
  const { tokenId, secret } = await on.token('viewer');
  const ended = new AbortController();

  const response = await fetch(`${on.url}${pathOf()}`, {
    headers: { authorization: `Bearer ${secret}`, ...headers },
    signal: ended.signal,
  });
  const first = (await response.body?.getReader().read()) as { readonly value?: Uint8Array };
  ended.abort();

  expect(first.value?.length).toBeGreaterThan(0);
  expect(await usedOf(tokenId)).toBeGreaterThan(0);
});

test('a whole answer has its length, its type and its status', async () => {
  const { secret } = await on.token('viewer');

  const response = await fetch(`${on.url}/trpc/leases.list`, {
    headers: { authorization: `Bearer ${secret}` },
  });
  const text = await response.text();

  expect(response.headers.get('content-length')).toBe(String(Buffer.byteLength(text)));
  expect(response.headers.get('content-type')).toContain('application/json');
});

async function usedOf(tokenId: string): Promise<number> {
  const admin = await on.client('admin', 'http');
  const { fairUse } = await admin.tokens.get.query({ tokenId });
  return fairUse.find(({ limit }) => limit === 'responseBytesPerSecond')?.used ?? 0;
}
