import path from 'node:path';
import { startProcess } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { AsyncCalls } from './async-calls.ts';
import { startService } from './testing/service.ts';

test('F4 a call whose coordinator was killed is retried once its lease has expired, not before', async () => {
  const service = await startService('async-calls.sql');
  const calls = new AsyncCalls(service.coordinator, service.pool);
  await calls.schedule('greet', 'world');
  const worker = await startProcess({
    name: 'worker',
    args: [
      '--conditions=@leasehold/source',
      '--import',
      'tsx',
      path.join(import.meta.dirname, 'testing', 'call-worker.ts'),
      service.databaseUrl,
    ],
    env: {},
  });
  onTestFinished(() => worker.kill());
  const states = async (): Promise<unknown> =>
    (await service.sql('select state, response, error from async_call'))[0];

  await worker.kill();
  const tooSoon = [await calls.reap(), await calls.executeNext(() => Promise.resolve('mine'))];
  const orphaned = await states();
  await service.letLeasesExpire();
  const reaped = await calls.reap();
  const pending = await states();
  const retried = await calls.executeNext(() => Promise.resolve('mine'));

  expect(tooSoon).toEqual([{ endedCount: 0, calledCount: 0, failedCount: 0 }, 'nothing to do']);
  expect(orphaned).toMatchObject({ state: 'executing' });
  expect(reaped).toEqual({ endedCount: 1, calledCount: 1, failedCount: 0 });
  expect(pending).toMatchObject({ state: 'pending', error: 'its coordinator died' });
  expect(retried).toBe('done');
  expect(await states()).toMatchObject({ state: 'done', response: 'mine' });
});
