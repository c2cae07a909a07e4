/**
 * `leasehold leases run`, built, against a controller as it ships: what a command under a lease is
 * told, and that it never outlives the lease.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isRunning, waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { CliStage, heldLease } from './testing/cli-controller.ts';
import type { Ended } from './testing/command-line.ts';
import { aJob, aKey, expiryMsOf, guardOf, LOG_TERM, viewOf } from './testing/jobs.ts';

let cli: CliStage;

beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);

afterAll(() => cli.close());

const run = (...args: string[]): Promise<Ended> => cli.run('leases', 'run', ...args);

async function eventsOf(key: string): Promise<{ kind: string; reason: string | null }[]> {
  const { items } = await cli.api().leases.history.query({ name: key, namespace: 'run' });
  return items.map(({ kind, reason }) => ({ kind, reason })).reverse();
}

const SAVE_AND_EXIT = 'echo saved >>"$0"; exit 0';

describe('a command under several leases', () => {
  test('holds all of them, and finds each with its token', async () => {
    const keys = [aKey(), aKey()];
    const scopes = keys.map((key) => `run/${key}`);

    const ended = await run(...scopes, '--', 'sh', '-c', 'printf %s "$LEASEHOLD_LEASES"');

    expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
    const leases = JSON.parse(ended.stdout) as { key: string; fencingToken: string }[];
    expect(leases.map(({ key }) => key)).toEqual(keys);
    const views = await Promise.all(keys.map((key) => viewOf(cli, key)));
    expect(views.map((view) => view?.fencingToken)).toEqual(
      leases.map(({ fencingToken }) => fencingToken),
    );
    expect(views.map((view) => view?.phase)).toEqual(['free', 'free']);
  });

  test('is not run if one of them is held, which is named', async () => {
    const [free, held] = [aKey(), aKey()];
    await heldLease(cli.api(), ['run'], held);

    const ended = await run(`run/${free}`, `run/${held}`, '--', 'echo', 'no');

    expect(ended).toMatchObject({ exitCode: 6, stdout: '' });
    expect(ended.stderr).toContain(`run/${held} is held by`);
    expect(await viewOf(cli, free)).toBeNull();
  });

  test('is killed when one of them is revoked', async () => {
    const keys = [aKey(), aKey()];
    const scopes = keys.map((key) => `run/${key}`);
    const started = cli.start('leases', 'run', ...scopes, '--', 'sleep', '1000');
    onTestFinished(() => void started.child.kill('SIGKILL'));
    const lease = await waitUntil(() => viewOf(cli, keys[1] ?? ''));

    await cli
      .api()
      .leases.revoke.mutate({ leaseId: lease.leaseId, mode: 'force', reason: 'maintenance' });

    expect((await started.ended).exitCode).toBe(125);
    await waitUntil(async () => (await viewOf(cli, keys[0] ?? ''))?.phase === 'free');
  });

  test('a scope that is given twice is wrong usage', async () => {
    const scope = `run/${aKey()}`;

    const ended = await run(scope, scope, '--', 'true');

    expect(ended).toMatchObject({ exitCode: 2 });
    expect(ended.stderr).toContain(`${scope} is given twice.`);
  });
});

describe('a command under a lease', () => {
  test('knows its lease and token, and its exit code is passed on', async () => {
    const key = aKey();

    const ended = await run(`run/${key}`, '--', 'sh', '-c', 'env | grep ^LEASEHOLD_; exit 7');
    const view = await viewOf(cli, key);

    expect(ended).toMatchObject({ exitCode: 7, stderr: '' });
    expect(ended.stdout.split('\n')).toEqual(
      expect.arrayContaining([
        `LEASEHOLD_FENCING_TOKEN=${String(view?.fencingToken)}`,
        `LEASEHOLD_LEASE_ID=${String(view?.leaseId)}`,
        'LEASEHOLD_LEASE_NAMESPACE=run',
        `LEASEHOLD_LEASE_KEY=${key}`,
      ]),
    );
    expect(await eventsOf(key)).toEqual([
      { kind: 'granted', reason: null },
      { kind: 'failed', reason: 'ended with exit code 7' },
    ]);
  });

  test('has the standard streams to itself, and gives the lease back when it is done', async () => {
    const key = aKey();
    const words = ['leases', 'run', `run/${key}`, '--', 'sh', '-c', 'cat; echo no >&2'];

    const ended = await cli.startWith('hello\n', ...words).ended;

    expect(ended).toEqual({ exitCode: 0, stdout: 'hello\n', stderr: 'no\n' });
    expect((await eventsOf(key)).map(({ kind }) => kind)).toEqual(['granted', 'released']);
  });

  test('receives SIGTERM, as do its children', async (on) => {
    const job = await aJob(cli, on, 'exit 143');

    job.started.child.kill('SIGTERM');

    expect((await job.started.ended).exitCode).toBe(143);
    expect(job.isGone()).toBe(true);
    expect((await viewOf(cli, job.key))?.phase).toBe('free');
  });

  test.for(['SIGINT', 'SIGTERM'] as const)(
    'receives %s alone with --single-child, and its children end with it',
    async (signal, { expect: expectHere, onTestFinished: whenOver }) => {
      const file = join(cli.folder, aKey());
      const script = `
        sh -c 'trap "echo child >>$0" INT TERM; echo $$ >>$0.pid; while :; do sleep 0.05; done' "$0" &
        trap 'echo parent >>"$0"; exit 7' INT TERM
        until [ -s "$0.pid" ]; do sleep 0.05; done
        echo ready >>"$0"
        while :; do sleep 0.05; done`;
      const words = ['leases', 'run', `run/${aKey()}`, '--single-child', '--', 'sh', '-c'];
      const started = cli.start(...words, script, file);
      whenOver(() => void started.child.kill('SIGKILL'));
      const notes = (): Promise<string> => readFile(file, 'utf8').catch(() => '');
      await waitUntil(async () => (await notes()) === 'ready\n');

      started.child.kill(signal);

      expectHere((await started.ended).exitCode).toBe(7);
      expectHere(await notes()).toBe('ready\nparent\n');
      expectHere(isRunning(Number(await readFile(`${file}.pid`, 'utf8')))).toBe(false);
    },
  );

  test('leaves no process of its session behind when it ends, not even one in a group of its own', async () => {
    const file = join(cli.folder, aKey());
    const script = 'set -m; sleep 300 >/dev/null 2>&1 & echo $! >"$0"';

    const ended = await run(`run/${aKey()}`, '--', 'sh', '-c', script, file);

    expect(ended.exitCode).toBe(0);
    expect(isRunning(Number(await readFile(file, 'utf8')))).toBe(false);
  });
});

describe('a command without a lease', () => {
  test('that does not exist takes no lease, and ends as in a shell', async () => {
    const key = aKey();

    expect((await run(`run/${key}`, '--', 'no-such-command')).exitCode).toBe(127);
    expect((await run(`run/${key}`, '--', '/etc/passwd')).exitCode).toBe(126);
    expect(await viewOf(cli, key)).toBeNull();
  });

  test('is not run while somebody else holds the lease, and the error names the holder', async () => {
    const key = aKey();
    await heldLease(cli.api(), ['run'], key);

    const ended = await run(`run/${key}`, '--', 'echo', 'ran');
    const chosen = await run(`run/${key}`, '--held-exit', '75', '--', 'echo', 'ran');

    expect(ended).toMatchObject({ exitCode: 6, stdout: '' });
    expect(ended.stderr).toMatch(
      new RegExp(
        `^run/${key} is held by worker-1 \\(for tests\\) since 20.*Z, for another 2\\d\\.\\d s`,
        'u',
      ),
    );
    expect(chosen).toMatchObject({ exitCode: 75, stdout: '' });
  });

  test('waits in line and runs after the one before it, with a larger token', async () => {
    const key = aKey();
    const first = cli.startWith(
      '',
      'leases',
      'run',
      `run/${key}`,
      '--',
      'sh',
      '-c',
      'echo $LEASEHOLD_FENCING_TOKEN; sleep 1',
    );
    await waitUntil(() => first.said().stdout !== '');

    const second = await run(
      `run/${key}`,
      '--wait',
      '20000',
      '--',
      'sh',
      '-c',
      'echo $LEASEHOLD_FENCING_TOKEN',
    );

    expect(second.exitCode).toBe(0);
    expect(BigInt(second.stdout)).toBeGreaterThan(BigInt((await first.ended).stdout));
  });
});

describe.concurrent('a command whose lease is renewed, or ends', () => {
  test('keeps its lease for much longer than the TTL', async ({ expect }) => {
    const key = aKey();

    const ended = await run(`run/${key}`, '--ttl', '5000', '--', 'sleep', '11');

    expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
    expect((await eventsOf(key)).map(({ kind }) => kind)).toEqual(['granted', 'released']);
  });

  test('is sent SIGTERM, then SIGKILL, before its grant expires, when the controller is cut off', async (on) => {
    const { expect } = on;
    const job = await aJob(cli, on, LOG_TERM, '--ttl', '6000');

    job.network.drop();
    const expiryMs = await expiryMsOf(cli, job.key);
    await waitUntil(job.isGone);
    const ended = await job.started.ended;

    expect(await job.lastBeatMs()).toBeLessThan(expiryMs);
    expect(await job.notes()).toContain('term\n');
    expect(ended.exitCode).toBe(125);
    expect(ended.stderr).toMatch(/could not be renewed in time; the command was sent SIGTERM/u);
    expect(ended.stderr).toMatch(/and the command was ended by SIGKILL\./u);
  });

  test('is killed at once when the lease was revoked by force', async (on) => {
    const { expect } = on;
    const job = await aJob(cli, on, LOG_TERM);
    const { leaseId } = (await viewOf(cli, job.key)) ?? { leaseId: '' };

    await cli.api().leases.revoke.mutate({ leaseId, mode: 'force', reason: 'wedged' });
    const ended = await job.started.ended;

    expect(job.isGone()).toBe(true);
    expect(await job.notes()).not.toContain('term');
    expect(ended.exitCode).toBe(125);
    expect(ended.stderr).toContain(`run/${job.key} was revoked (wedged)`);
  });

  test('is asked to stop when the lease is revoked gracefully', async (on) => {
    const { expect } = on;
    const job = await aJob(cli, on, SAVE_AND_EXIT);
    const { leaseId } = (await viewOf(cli, job.key)) ?? { leaseId: '' };

    await cli.api().leases.revoke.mutate({ leaseId, mode: 'graceful', reason: 'move over' });
    const ended = await job.started.ended;

    expect(await job.notes()).toContain('saved\n');
    expect(ended.exitCode).toBe(125);
    expect(ended.stderr).toContain(`run/${job.key} is being revoked (move over)`);
    expect((await viewOf(cli, job.key))?.phase).toBe('free');
  });
});

describe.concurrent('a command whose command line', () => {
  test('is killed is sent SIGTERM, and is gone with its children before the lease expires', async (on) => {
    const { expect } = on;
    const job = await aJob(cli, on, LOG_TERM, '--ttl', '6000');

    job.started.child.kill('SIGKILL');
    const expiryMs = await expiryMsOf(cli, job.key);
    await waitUntil(async () => (await job.notes()).includes('term'));
    await waitUntil(job.isGone);

    expect(await job.lastBeatMs()).toBeLessThan(expiryMs);
  });

  test('loses its guard is killed with its children, and the lease is given back', async (on) => {
    const { expect } = on;
    const job = await aJob(cli, on, LOG_TERM);

    process.kill(guardOf(job), 'SIGKILL');
    const ended = await job.started.ended;

    expect(job.isGone()).toBe(true);
    expect(ended.exitCode).toBe(137);
    expect((await viewOf(cli, job.key))?.phase).toBe('free');
  });
});
