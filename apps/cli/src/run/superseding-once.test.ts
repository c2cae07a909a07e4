import { createTestLeasehold } from '@leasehold/client/testing';
import { expect, onTestFinished, test } from 'vitest';
import { acquire } from './acquire.ts';

const HOW = { action: 'deploy', order: 'oldest', supersede: 'waiting' } as const;
const REQUEST = {
  scopes: [{ namespace: '', name: 'prod' }],
  ttlMs: 60_000,
  waitMs: 1_000,
  holder: 'v2',
  comment: undefined,
  heldExitCode: 1,
  heldHint: '',
  datacenter: undefined,
  environment: { ...HOW, override: undefined },
} as const;

test('a wait that takes its place in line again supersedes nobody then', async () => {
  const world = createTestLeasehold();
  onTestFinished(() => world.close());
  const running = world.client({ holder: 'v1' });
  await running.environments.acquire('prod', { action: 'deploy', renew: true });
  const newest = world.client({ holder: 'v3' }).environments;
  const ended = new AbortController();
  // By this clock the time is not over when the first place in line is.
  const acquiring = { signal: ended.signal, nowMs: () => 0 };
  const answer = acquire(world.client({ holder: 'v2' }), REQUEST, acquiring);
  answer.catch(() => undefined);
  await world.advance(100);
  newest.acquire('prod', { action: 'deploy', waitMs: 600_000 }).catch(() => undefined);
  await world.advance(2_000);

  expect(world.waitersOf({ face: 'environment', namespace: [], key: 'prod' })).toEqual([
    'v3',
    'v2',
  ]);
  ended.abort(new Error('enough'));
  await expect(answer).rejects.toThrow('enough');
});

test('a wait that was superseded ends with the exit code that was asked for', async () => {
  const world = createTestLeasehold();
  onTestFinished(() => world.close());
  await world
    .client({ holder: 'v1' })
    .environments.acquire('prod', { action: 'deploy', renew: true });
  const request = { ...REQUEST, heldExitCode: 75, waitMs: 60_000 };
  const acquiring = { signal: new AbortController().signal, nowMs: () => 0 };
  const answer = acquire(world.client({ holder: 'v2' }), request, acquiring);
  answer.catch(() => undefined);
  await world.advance(100);
  const newest = world.client({ holder: 'v3' }).environments;
  newest.acquire('prod', { ...HOW, waitMs: 600_000 }).catch(() => undefined);
  await world.advance(100);

  await expect(answer).rejects.toMatchObject({
    code: 'environment.superseded',
    exitCode: 75,
    hint: expect.stringContaining('--held-exit') as string,
    details: { by: 'v3' },
  });
});
