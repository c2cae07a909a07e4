import { openTestStage, type Stage, waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createLeasehold, type Leasehold, type LeaseholdOptions } from './index.ts';
import type { ObservedScope } from './observing.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await openTestStage({ controllers: 2 });
}, 60_000);
afterAll(() => stage.close());

function aClient(options: Partial<LeaseholdOptions> = {}): Leasehold {
  const { url, credentials } = stage;
  const client = createLeasehold({ url, token: credentials.client, ...options });
  onTestFinished(() => client.close());
  return client;
}

/** What an observer has seen so far: the holder and what it says, or nobody. */
function seenBy(client: Leasehold, scope: ObservedScope) {
  const seen: unknown[] = [];
  const over = new AbortController();
  const ended = (async () => {
    for await (const state of client.observe(scope, { signal: over.signal })) {
      seen.push(state === null ? null : [state.holder, state.metadata]);
    }
  })();
  const until = (count: number) => waitUntil(() => seen.length >= count);
  return { seen, until, ended, stop: () => over.abort() };
}

const ELSEWHERE = 1;

test('observers see each leader, and the newest one after the controller that they follow has died and is back', async () => {
  const scope = { namespace: ['lead'], key: 'board' };
  const elsewhere = stage.controller(ELSEWHERE).url;
  const jobs = aClient({ url: elsewhere, holder: 'first' }).defineLease(['lead']);
  const others = aClient({ url: elsewhere, holder: 'second' }).defineLease(['lead']);
  const { seen, until, ended, stop } = seenBy(aClient(), scope);
  await until(1);
  const lease = await jobs.acquire('board', { metadata: { step: 1 } });
  await until(2);
  await lease.update({ metadata: { step: 2 } });
  await until(3);

  await stage.controller().kill();
  await lease.update({ metadata: { step: 3 } });
  await lease.release();
  const next = await others.acquire('board', { metadata: { step: 4 } });
  await stage.restartController();
  await until(4);
  await next.release();
  await until(5);

  expect(seen).toEqual([
    null,
    ['first', { step: 1 }],
    ['first', { step: 2 }],
    ['second', { step: 4 }],
    null,
  ]);
  stop();
  await ended;
});

test('an environment is observed as a lease is, by those who may see its namespace', async () => {
  const { secret } = await stage.api().tokens.create.mutate({
    name: 'limited',
    role: 'viewer',
    namespaces: ['shop'],
  });
  const viewer = aClient({ token: secret });
  const scope = { face: 'environment', namespace: ['shop'], key: 'prod' } as const;
  const { seen, until, ended, stop } = seenBy(viewer, scope);
  await until(1);

  await aClient({ holder: 'ci' }).withEnvironmentLease(['shop', 'prod'], {
    action: 'deploy',
    metadata: { build: 7 },
    record: () => until(2),
  });
  await until(3);

  expect(seen).toEqual([null, ['ci', { build: 7 }], null]);
  stop();
  await ended;
  await expect(viewer.observe({ namespace: ['other'], key: 'prod' }).next()).rejects.toMatchObject({
    code: 'auth.forbidden',
  });
});
