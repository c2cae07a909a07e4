/** The action, run as GitHub's runner runs it, with the command line and a controller as they ship. */
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { openTestStage, waitUntil, type Stage } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ActionStep } from './testing/job.ts';

const CLI = path.join(import.meta.dirname, '../../apps/cli/bin/leasehold.mjs');

let stage: Stage;
beforeAll(async () => {
  stage = await openTestStage();
}, 60_000);
afterAll(() => stage.close());

function aStep(key: string, inputs: Record<string, string> = {}): ActionStep {
  const step = new ActionStep({
    url: stage.url,
    token: stage.credentials.client,
    scope: `ci/${key}`,
    cli: CLI,
    ...inputs,
  });
  onTestFinished(async () => {
    await step.post().ended;
    await rm(step.folder, { recursive: true, maxRetries: 10 });
  });
  return step;
}

const aKey = (): string => `job-${randomUUID()}`;
const viewOf = (name: string) => stage.api().leases.get.query({ name, namespace: 'ci' });
async function kindsOf(name: string): Promise<string[]> {
  const { items } = await stage.api().leases.history.query({ name, namespace: 'ci' });
  return items.map(({ kind }) => kind).reverse();
}
const waitersOf = async (name: string): Promise<number> =>
  (await stage.api().leases.waiters.query({ name, namespace: 'ci' })).items.length;

/** Somebody else holds it. */
async function hold(key: string): Promise<void> {
  const lease = { namespace: ['ci'], key, ttlMs: 60_000, localTimeMs: 0, holder: 'other' };
  expect(await stage.api().leases.acquire.mutate(lease)).toMatchObject({ outcome: 'granted' });
}

describe('the rest of a job', () => {
  test('is covered: the lease is renewed after its step, and released at the end of the job', async () => {
    const key = aKey();
    const step = aStep(key, { ttl: '2s' });

    const main = await step.main().ended;
    const begun = await viewOf(key);
    const renewed = await waitUntil(async () => {
      const view = await viewOf(key);
      return view?.expiresAt === begun?.expiresAt ? undefined : view;
    });
    const post = await step.post().ended;

    expect(main).toMatchObject({ exitCode: 0 });
    expect(renewed.leaseId).toBe(begun?.leaseId);
    expect(step.written('GITHUB_OUTPUT')).toEqual({
      'lease-id': begun?.leaseId,
      'fencing-token': begun?.fencingToken,
    });
    expect(step.written('GITHUB_ENV')).toEqual({
      LEASEHOLD_LEASE_ID: begun?.leaseId,
      LEASEHOLD_FENCING_TOKEN: begun?.fencingToken,
    });
    expect(post).toMatchObject({ exitCode: 0, text: 'Ended.\n' });
    expect(await kindsOf(key)).toEqual(['granted', 'released']);
  });

  test('fails at its end if the lease was lost meanwhile', async () => {
    const key = aKey();
    const step = aStep(key);
    await step.main().ended;
    const { leaseId = '' } = (await viewOf(key)) ?? {};

    await stage.api().leases.revoke.mutate({ leaseId, mode: 'force', reason: 'wrong version' });
    await waitUntil(async () => (await viewOf(key))?.phase === 'free');
    const post = await step.post().ended;

    expect(post.exitCode).toBe(1);
    expect(post.text).toContain('was revoked (wrong version)');
    expect(post.text).toContain('::error title=Leasehold::The lease was lost');
  });

  test('that will never end, as its runner has died, does not keep the lease', async () => {
    const key = aKey();
    const step = aStep(key);
    const runner = step.mainOfRunner();
    await waitUntil(() => runner.text().includes('over\n'));
    expect(await viewOf(key)).toMatchObject({ phase: 'held' });

    runner.child.kill('SIGKILL');
    await waitUntil(async () => (await viewOf(key))?.phase === 'free');

    expect(await kindsOf(key)).toEqual(['granted', 'failed']);
    expect((await step.post().ended).exitCode).toBe(1);
  });

  test('whose folder was cleared does not keep the lease', async () => {
    const key = aKey();
    const step = aStep(key);
    await step.main().ended;

    await rm(step.written('GITHUB_STATE')['folder'] ?? '', { recursive: true });
    await waitUntil(async () => (await viewOf(key))?.phase === 'free');
    const post = await step.post().ended;

    expect(await kindsOf(key)).toEqual(['granted', 'released']);
    expect(post.exitCode).toBe(1);
    expect(post.text).toContain(
      '::error title=Leasehold::What held the lease has ended before the job',
    );
  });

  test('is not begun while somebody else holds the lease', async () => {
    const key = aKey();
    await hold(key);
    const step = aStep(key);

    const main = await step.main().ended;

    expect(main.exitCode).toBe(1);
    expect(main.text).toContain(`ci/${key} is held by other`);
    expect(await step.post().ended).toMatchObject({ exitCode: 0, text: 'Nothing was held.\n' });
  });

  test('that is cancelled while it waits leaves neither a place in line nor a lease', async () => {
    const key = aKey();
    await hold(key);
    const step = aStep(key, { wait: '1h' });
    const main = step.main();
    await waitUntil(async () => (await waitersOf(key)) === 1);

    main.child.kill('SIGINT');
    const ended = await main.ended;
    const post = await step.post().ended;

    expect(ended.exitCode).toBe(1);
    expect(post).toMatchObject({ exitCode: 0, text: 'Nothing was held.\n' });
    expect(await waitersOf(key)).toBe(0);
    expect(await viewOf(key)).toMatchObject({ holder: 'other' });
  });

  test('whose step was killed while it waited leaves nothing behind either', async () => {
    const key = aKey();
    await hold(key);
    const step = aStep(key, { wait: '1h' });
    const main = step.main();
    await waitUntil(async () => (await waitersOf(key)) === 1);

    main.child.kill('SIGKILL');
    await main.ended;
    await step.post().ended;

    expect(await waitersOf(key)).toBe(0);
  });
});

describe('a command', () => {
  test('knows its lease, which is released when it has ended', async () => {
    const key = aKey();
    const step = aStep(key, { run: 'echo "token $LEASEHOLD_FENCING_TOKEN of $1"' });

    const main = await step.main().ended;
    const token = (await viewOf(key))?.fencingToken ?? '';

    expect(main.exitCode).toBe(0);
    expect(main.text).toContain(`token ${token} of \n`);
    expect(step.written('GITHUB_OUTPUT')).toMatchObject({ 'fencing-token': token });
    expect(await kindsOf(key)).toEqual(['granted', 'released']);
    expect(await step.post().ended).toMatchObject({ exitCode: 0, text: '' });
  });

  test('that fails, in any line, fails the step', async () => {
    const key = aKey();

    const main = await aStep(key, { run: 'false | cat\necho not reached' }).main().ended;

    expect(main.exitCode).toBe(1);
    expect(main.text).not.toContain('not reached');
    expect(await kindsOf(key)).toEqual(['granted', 'failed']);
  });

  test('does not have the token of the API', async () => {
    const main = await aStep(aKey(), { run: 'echo begun; env' }).main().ended;

    const seen = main.text.slice(main.text.indexOf('begun\n'));
    expect(seen).toContain('LEASEHOLD_FENCING_TOKEN=');
    expect(seen).not.toContain(stage.credentials.client);
  });
});
