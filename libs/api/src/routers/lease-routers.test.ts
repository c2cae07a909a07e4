import { expect, test } from 'vitest';
import type { CalledContext } from '../forwarding/elsewhere.ts';
import { acquireMany } from './lease-routers.ts';

/** A call in dc1, where dc2 gives this answer to every request. */
function contextWith(answer: unknown): CalledContext {
  const services = {
    datacenter: 'dc1',
    datacenters: { peers: ['dc2'], call: () => Promise.resolve(answer) },
    leases: { refusedBefore: () => Promise.resolve(undefined) },
    reportFailure: () => undefined,
  };
  return {
    procedure: 'leases.acquireMany',
    isForwarded: false,
    services,
  } as unknown as CalledContext;
}

test('an item that another datacenter did not answer fails with request.outcome_unknown', async () => {
  const granted = { outcome: 'granted' };
  const item = { namespace: [], key: 'a', ttlMs: 1_000, holder: 'h', datacenter: 'dc2' };
  const items = [item, item, item];

  const { results } = await acquireMany(contextWith({ results: [granted] }), {
    items,
    localTimeMs: 1,
  });

  const unknown = {
    outcome: 'failed',
    error: { code: 'request.outcome_unknown', details: { datacenter: 'dc2' } },
  };
  expect(results).toHaveLength(items.length);
  expect(results).toMatchObject([granted, unknown, unknown]);
});
