import { randomUUID } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import { waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { CliStage, heldLease } from '../testing/cli-controller.ts';
import { startCommand, type Started } from '../testing/command-line.ts';
import { startByNpx } from '../testing/npx.ts';

/** A process starts and ends meanwhile. */
const POLLING = { timeout: 30_000 };

let cli: CliStage;
beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);
afterAll(() => cli.close());

interface Granted {
  readonly name: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly remainingMs: number;
}

const aKey = (): string => `step-${randomUUID()}`;
const viewOf = (name: string) => cli.api().leases.get.query({ name, namespace: 'steps' });
const waitersOf = async (name: string): Promise<number> =>
  (await cli.api().leases.waiters.query({ name, namespace: 'steps' })).items.length;

/** In a process of its own, as a step of a job. */
const step = (...args: string[]): Started => cli.start('leases', ...args);

describe('leases acquire, renew and release', () => {
  test('hold a lease across processes of a job, with what the holder says of itself', async () => {
    const key = aKey();
    const acquired = await step(
      ...['acquire', `steps/${key}`, '--ttl', '1m', '--holder', 'ci', '--comment', 'deploy'],
      ...['--metadata', '{"build":7}', '--json'],
    ).ended;
    expect(acquired).toMatchObject({ exitCode: 0, stderr: '' });
    const { leaseId, fencingToken, remainingMs } = JSON.parse(acquired.stdout) as Granted;
    expect(remainingMs).toBeGreaterThan(40_000);
    const before = await viewOf(key);
    expect(before).toMatchObject({
      phase: 'held',
      holder: 'ci',
      comment: 'deploy',
      metadata: { build: 7 },
    });

    const renewed = await step('renew', leaseId, '--fencing-token', fencingToken).ended;
    const after = await viewOf(key);
    const release = ['leases', 'release', leaseId, '--fencing-token', fencingToken];
    const released = await cli.run(...release, '--failed');
    const again = await cli.run(...release);

    expect(renewed.stdout).toMatch(/^Renewed: it is held for another (?:4\d|50)(?:\.\d)? s\.$/mu);
    expect(Date.parse(after?.expiresAt ?? '')).toBeGreaterThan(Date.parse(before?.expiresAt ?? ''));
    expect([released.stdout, again.stdout]).toEqual(['Released.\n', 'It was released already.\n']);
    expect([released.exitCode, again.exitCode]).toEqual([0, 0]);
    const { items } = await cli.api().leases.history.query({ name: key, namespace: 'steps' });
    expect(items.map(({ kind }) => kind)).toEqual(['failed', 'granted']);
  });

  test('several are acquired together, and each is released by its own id', async () => {
    const keys = [aKey(), aKey()];
    const scopes = keys.map((key) => `steps/${key}`);

    const { leases } = await cli.answer<{ leases: Granted[] }>('leases', 'acquire', ...scopes);
    const refused = await cli.run('leases', 'acquire', `steps/${aKey()}`, ...scopes);

    expect(leases.map(({ name }) => name)).toEqual(keys);
    expect(refused.exitCode).toBe(6);
    for (const { leaseId, fencingToken } of leases) {
      const ref = [leaseId, '--fencing-token', fencingToken];
      const released = await cli.run('leases', 'release', ...ref);
      expect(released.stdout).toBe('Released.\n');
    }
  });

  test('--env prints what a shell evaluates, and the text says what to keep', async () => {
    const key = aKey();
    const env = await cli.run('leases', 'acquire', `steps/${key}`, '--print-env');
    const { leaseId, fencingToken } = (await viewOf(key)) ?? {};
    const text = await cli.run('leases', 'acquire', `steps/${aKey()}`);

    expect(env.stdout).toBe(
      `LEASEHOLD_LEASE_ID=${String(leaseId)}\nLEASEHOLD_FENCING_TOKEN=${String(fencingToken)}\n`,
    );
    expect(text.stdout).toMatch(/^lease id +[0-9a-f-]{36}$/mu);
    expect(text.stdout).toMatch(/^fencing token +\d+$/mu);
  });

  test('a lease whose token nobody could be told is released', async () => {
    const [unwritten, unread] = [aKey(), aKey()];
    const full = openSync('/dev/full', 'w');
    onTestFinished(() => {
      closeSync(full);
    });
    const acquire = ['leases', 'acquire', '--print-env'];

    const onFullDisk = startCommand([...acquire, `steps/${unwritten}`], cli.env, { stdout: full });
    const withoutReader = step('acquire', '--json', `steps/${unread}`);
    withoutReader.child.stdout?.destroy();

    for (const { ended } of [onFullDisk, withoutReader]) {
      const { exitCode, stderr } = await ended;
      expect(exitCode).toBe(1);
      expect(stderr).toMatch(/could not be written, so nobody has it; it was released\./u);
    }
    for (const name of [unwritten, unread]) {
      const { items } = await cli.api().leases.history.query({ name, namespace: 'steps' });
      expect(items.map(({ kind }) => kind)).toEqual(['failed', 'granted']);
    }
  });

  test('end with 6 if somebody else holds it, and with 1 once it is lost', async () => {
    const key = aKey();
    const { leaseId, fencingToken } = await cli.answer<Granted>(
      ...['leases', 'acquire', `steps/${key}`],
    );
    const held = await cli.refused('leases', 'acquire', `steps/${key}`);
    const late = await cli.refused('leases', 'acquire', `steps/${key}`, '--wait', '100');
    await cli.run('leases', 'revoke', `steps/${key}`, '--force', '--reason', 'wedged');
    const next = await cli.answer<Granted>('leases', 'acquire', `steps/${key}`);
    const ref = [leaseId, '--fencing-token', fencingToken];
    const lost = { exitCode: 1, code: 'lease.lost' };

    expect(held).toEqual({ exitCode: 6, code: 'lease.held' });
    expect(late).toEqual({ exitCode: 6, code: 'lease.wait_timeout' });
    expect(await cli.refused('leases', 'renew', ...ref)).toEqual(lost);
    expect(await cli.refused('leases', 'release', ...ref)).toEqual(lost);
    expect(await cli.refused('leases', 'renew', next.leaseId, '--fencing-token', '1')).toEqual(
      lost,
    );
    expect((await viewOf(key))?.leaseId).toBe(next.leaseId);
  });

  test.each([
    ['acquire', 'steps/a', '--metadata', '{'],
    ['acquire', 'steps/a', '--ttl', '10ms'],
    ['acquire', 'steps/a', 'steps/b', '--print-env'],
    ['renew', 'lease-7', '--fencing-token', '1'],
    ['release', randomUUID(), '--fencing-token', 'x'],
  ])('%s %s %s %s is wrong usage', async (...args) => {
    expect(await cli.refused('leases', ...args)).toEqual({ exitCode: 2, code: 'cli.usage' });
  });

  test('a wait gets the lease in its turn, and one that is ended by a signal leaves nothing behind', async () => {
    const key = aKey();
    const { leaseId, fencingToken } = await heldLease(cli.api(), ['steps'], key);
    const given = step('acquire', `steps/${key}`, '--wait', '1m');
    await waitUntil(async () => (await waitersOf(key)) === 1);
    given.child.kill('SIGTERM');
    const givenUp = await given.ended;
    await waitUntil(async () => (await waitersOf(key)) === 0);
    const waiting = step('acquire', `steps/${key}`, '--wait', '1m', '--json');
    await waitUntil(async () => (await waitersOf(key)) === 1);
    await cli.api().leases.release.mutate({ leaseId, fencingToken });
    const granted = await waiting.ended;

    expect(givenUp).toMatchObject({ exitCode: 143, stdout: '' });
    expect(givenUp.stderr).toContain(`gave up waiting for steps/${key}`);
    const view = await viewOf(key);
    expect(view?.leaseId).toBe((JSON.parse(granted.stdout) as Granted).leaseId);
    expect(view?.remainingMs).toBeGreaterThan(5 * 60_000);
  });
});

describe('started by npx, which passes no signal on,', () => {
  test('a command that runs is stopped when npx has ended', async () => {
    const key = aKey();
    const npx = startByNpx(cli, 'run', `steps/${key}`, '--', 'sleep', '1000');
    await waitUntil(async () => (await viewOf(key))?.phase === 'held');
    npx.kill('SIGTERM');

    await expect.poll(async () => (await viewOf(key))?.phase, POLLING).toBe('free');
  });
});

describe('leases watch', () => {
  test('prints a line for each state, and ends with 0 at Ctrl-C', async () => {
    const key = aKey();
    const lines = (started: Started): string[] => started.said().stdout.trimEnd().split('\n');
    const watch = step('watch', `steps/${key}`);
    const json = step('watch', key, '--namespace', 'steps', '--json');
    const seen = async (count: number): Promise<void> => {
      await waitUntil(() =>
        [watch, json].every((one) => one.said().stdout !== '' && lines(one).length >= count),
      );
    };
    await seen(1);
    const { leaseId, fencingToken } = await heldLease(cli.api(), ['steps'], key);
    await seen(2);
    const metadata = { port: 8_080 };
    await cli.api().leases.update.mutate({ leaseId, fencingToken, metadata });
    await seen(3);
    await cli.api().leases.release.mutate({ leaseId, fencingToken });
    await seen(4);
    for (const one of [watch, json]) one.child.kill('SIGINT');
    const [text, objects] = await Promise.all([watch.ended, json.ended]);

    expect(text).toMatchObject({ exitCode: 0, stderr: '' });
    const [free, held, updated, freed] = text.stdout.trimEnd().split('\n');
    expect([free, freed]).toEqual(['free', 'free']);
    expect(held).toMatch(
      new RegExp(`^held  20\\S+Z  by worker-1  token ${fencingToken}  ${leaseId}$`, 'u'),
    );
    expect(updated).toBe(`${String(held)}  {"port":8080}`);
    expect(objects).toMatchObject({ exitCode: 0, stderr: '' });
    const states = objects.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { holding: unknown });
    expect(states.map(({ holding }) => holding)).toMatchObject([
      null,
      { holder: 'worker-1', leaseId, metadata: null },
      { metadata },
      null,
    ]);
  });
});
