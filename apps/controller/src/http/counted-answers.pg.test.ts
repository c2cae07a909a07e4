/** What a caller gets over HTTP counts for its limits, as over a WebSocket. */
import { waitUntil } from '@leasehold/testing';
import { expect, test } from 'vitest';
import { shareTestController, type TestController } from '../testing/test-controller.ts';
import { input } from '../testing/wire.ts';

let on: TestController;
shareTestController((shared) => {
  on = shared;
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
  const admin = await on.client('admin', 'http');

  // What counts is forgotten after a second, so a slow machine has to look again.
  const isCounted = await waitUntil(
    async () => {
      await firstPartOf(`${on.url}${pathOf()}`, { authorization: `Bearer ${secret}`, ...headers });
      const { fairUse } = await admin.tokens.get.query({ tokenId });
      const use = fairUse.find(({ limit }) => limit === 'responseBytesPerSecond');
      return (use?.used ?? 0) > 0;
    },
    { what: 'an answer that is counted' },
  );

  expect(isCounted).toBe(true);
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

async function firstPartOf(url: string, headers: Record<string, string>): Promise<void> {
  const ended = new AbortController();
  const response = await fetch(url, { headers, signal: ended.signal });
  await response.body?.getReader().read();
  ended.abort();
}
