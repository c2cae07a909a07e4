import { expect, test } from 'vitest';
import { metric } from '../testing/metric.ts';
import { startTestController } from '../testing/test-controller.ts';
import { acquireLease, wanted } from '../testing/wire-leases.ts';
import { mutate } from '../testing/wire.ts';

test('refusals are counted by limit and role, and the share of a limit that is used is measured', async () => {
  const on = await startTestController();
  const { secret } = await on.token('client', { limits: { batchSize: 1, heldLeases: 4 } });
  await acquireLease(on, secret, { key: 'held' });
  const items = ['a', 'b'].map((key) => wanted({ key }));

  const refused = await mutate(on, 'leases.acquireMany', {
    secret,
    input: { localTimeMs: 1, items },
  });

  expect(refused).toBe('quota.exceeded');
  const refusals = 'leasehold_limit_refusals_total{limit="batchSize",role="client"}';
  expect(await metric(on, refusals)).toBe(1);
  expect(await metric(on, 'leasehold_limit_use_ratio{limit="heldLeases"}')).toBe(0.25);
});

test('a caller that waits for several leases needs room for each of them', async () => {
  const on = await startTestController();
  const { secret } = await on.token('client', { limits: { waiters: 1 } });
  const { namespace, ttlMs, holder, localTimeMs } = wanted();
  await acquireLease(on, secret, { key: 'held' });
  const scopes = ['held', 'free'].map((key) => ({ namespace, key }));

  const refused = await mutate(on, 'leases.acquireAll', {
    secret,
    input: { scopes, ttlMs, holder, localTimeMs, waitMs: 60_000 },
  });

  expect(refused).toBe('quota.exceeded');
});
