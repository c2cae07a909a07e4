import { createLeasehold, LeaseHeldError, type Leasehold } from '@leasehold/client';
import { openTestStage, type Stage } from '@leasehold/testing';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createTenantExports } from './tenant-exports.ts';
import { aGate } from './testing/service.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await openTestStage();
});
afterAll(() => stage.close());

function connect(): Leasehold {
  const leasehold = createLeasehold({ url: stage.url, token: stage.credentials.client });
  onTestFinished(() => leasehold.close());
  return leasehold;
}

test('no tenant has more exports at once than its own, nor all of them more than all, in several processes', async () => {
  const limits = { perTenant: 2, together: 3 };
  const here = createTenantExports(connect(), limits);
  const there = createTenantExports(connect(), limits);
  const [begun, end] = [[aGate(), aGate(), aGate()], aGate()];
  const work = (at: number) => async (): Promise<string> => {
    begun[at]?.open();
    await end.opened;
    return 'done';
  };
  const running = [here.run('acme', work(0)), there.run('acme', work(1)), here.run('zen', work(2))];
  await Promise.all(begun.map(({ opened }) => opened));

  const waits = there.run('acme', () => Promise.resolve('after it'));
  const refusals = await Promise.allSettled([
    here.run('acme', work(0), 0),
    there.run('zen', work(0), 0),
  ]);
  end.open();

  expect(refusals.map((one) => one.status === 'rejected' && (one.reason as unknown))).toEqual([
    expect.any(LeaseHeldError),
    expect.any(LeaseHeldError),
  ]);
  expect(await Promise.all(running)).toEqual(['done', 'done', 'done']);
  expect(await waits).toBe('after it');
});
