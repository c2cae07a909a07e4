/**
 * `leasehold leases run`, built, against a controller as it ships: what a command under a lease is
 * told, and that it never outlives the lease.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isRunning, waitUntil, type FaultProxy } from '@leasehold/testing';
import {
  afterAll,
  beforeAll,
  describe,
  expect,
  onTestFinished,
  test,
  type TestContext,
} from 'vitest';
import { CliStage, heldLease } from './testing/cli-controller.ts';
import { startCommand, type Ended, type Started } from './testing/command-line.ts';

let cli: CliStage;
let folder: string;

beforeAll(async () => {
  cli = await CliStage.open();
  folder = await mkdtemp(join(tmpdir(), 'leasehold-run-'));
}, 60_000);

afterAll(async () => {
  await cli.close();
  await rm(folder, { recursive: true, maxRetries: 10 });
});

/** A scope that no other test uses. */
const aKey = (): string => `job-${randomUUID()}`;

const run = (...args: string[]): Promise<Ended> => cli.run('leases', 'run', ...args);
const viewOf = (key: string): ReturnType<ReturnType<typeof cli.api>['leases']['get']['query']> =>
  cli.api().leases.get.query({ name: key, namespace: 'run' });

async function eventsOf(key: string): Promise<{ kind: string; reason: string | null }[]> {
  const { items } = await cli.api().leases.history.query({ name: key, namespace: 'run' });
  return items.map(({ kind, reason }) => ({ kind, reason })).reverse();
}

/** A job that notes its processes, one of them in the background, and goes on until it is killed. */
interface Job {
  readonly key: string;
  /** Between its command line and the controller. */
  readonly network: FaultProxy;
  readonly started: Started;
  /** Of the shell and of what it has started. */
  readonly pids: readonly number[];
  /** What the job has written so far. */
  readonly notes: () => Promise<string>;
  /** When any process of it last wrote that it runs, by the clock of the database. */
  readonly lastBeatMs: () => Promise<number>;
  readonly isGone: () => boolean;
}

/** `onTerm` is what the job does at SIGTERM, as a shell's trap. */
async function aJob(
  { onTestFinished: whenOver }: Pick<TestContext, 'onTestFinished'>,
  onTerm: string,
  ...options: string[]
): Promise<Job> {
  const key = aKey();
  const network = await cli.front();
  const file = join(folder, key);
  const script = `
    trap '${onTerm}' TERM
    (trap '' TERM; while :; do date +%s%3N >>"$0.child"; sleep 0.05; done) &
    echo "pids $$ $!" >>"$0"
    while :; do date +%s%3N >>"$0.own"; sleep 0.05; done`;
  const started = startCommand(
    ['leases', 'run', `run/${key}`, ...options, '--', 'sh', '-c', script, file],
    { ...cli.env, LEASEHOLD_URL: network.url },
  );
  // If the test has not ended the job, its guard does.
  whenOver(() => void started.child.kill('SIGKILL'));
  const notes = (): Promise<string> => readFile(file, 'utf8').catch(() => '');
  const found = await waitUntil(
    async () => {
      if (started.child.exitCode !== null) throw new Error(started.said().stderr);
      return /^pids (\d+) (\d+)\n/u.exec(await notes());
    },
    { what: 'the job' },
  );
  const beatsMs = (): Promise<number[]> =>
    Promise.all(
      [`${file}.own`, `${file}.child`].map(async (beats) =>
        Number((await readFile(beats, 'utf8')).trim().split('\n').at(-1)),
      ),
    );
  const lastBeatMs = async (): Promise<number> => Math.max(...(await beatsMs()));
  await waitUntil(async () => Math.min(...(await beatsMs())) > 0, { what: 'the first beats' });
  const pids = [Number(found[1]), Number(found[2])];
  return { key, network, started, pids, notes, lastBeatMs, isGone: () => !pids.some(isRunning) };
}

/** When a lease is over that nobody renews any more. */
async function expiryMsOf(key: string): Promise<number> {
  return Date.parse((await viewOf(key))?.expiresAt ?? '');
}

/** The guard of a run: the parent of the job's shell. */
function guardOf({ pids }: Pick<Job, 'pids'>): number {
  const stat = readFileSync(`/proc/${String(pids[0])}/stat`, 'utf8');
  return Number(/\) \S (\d+) /u.exec(stat)?.[1]);
}

const LOG_TERM = 'echo term >>"$0"';
const SAVE_AND_EXIT = 'echo saved >>"$0"; exit 0';

describe('a command under several leases', () => {
  test('holds all of them, and finds each with its token', async () => {
    const keys = [aKey(), aKey()];
    const scopes = keys.map((key) => `run/${key}`);

    const ended = await run(...scopes, '--', 'sh', '-c', 'printf %s "$LEASEHOLD_LEASES"');

    expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
    const leases = JSON.parse(ended.stdout) as { key: string; fencingToken: string }[];
    expect(leases.map(({ key }) => key)).toEqual(keys);
    const views = await Promise.all(keys.map(viewOf));
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
    expect(await viewOf(free)).toBeNull();
  });

  test('is killed when one of them is revoked', async () => {
    const keys = [aKey(), aKey()];
    const scopes = keys.map((key) => `run/${key}`);
    const started = cli.start('leases', 'run', ...scopes, '--', 'sleep', '1000');
    onTestFinished(() => void started.child.kill('SIGKILL'));
    const lease = await waitUntil(() => viewOf(keys[1] ?? ''));

    await cli
      .api()
      .leases.revoke.mutate({ leaseId: lease.leaseId, mode: 'force', reason: 'maintenance' });

    expect((await started.ended).exitCode).toBe(125);
    await waitUntil(async () => (await viewOf(keys[0] ?? ''))?.phase === 'free');
  });

  describe('of which one is lost', () => {
    /** Whose guard is stopped, and does not carry out the kill; without it, the command is killed as the TTL ends. */
    async function aStoppedJob(env = cli.env) {
      // In the order in which they are released.
      const [kept, lost] = [aKey(), aKey()];
      const file = join(folder, lost);
      const job = ['sh', '-c', 'echo "$$" >"$0"; exec sleep 1000', file];
      const started = startCommand(
        ['leases', 'run', '--ttl', '18000', `run/${kept}`, `run/${lost}`, '--', ...job],
        env,
      );
      onTestFinished(() => void started.child.kill('SIGKILL'));
      const notes = (): Promise<string> => readFile(file, 'utf8').catch(() => '');
      const pid = Number(await waitUntil(async () => /^\d+\n/u.exec(await notes())?.[0]));
      const guard = guardOf({ pids: [pid] });
      const leaseId = (await viewOf(lost))?.leaseId ?? '';

      process.kill(guard, 'SIGSTOP');
      await cli.api().leases.revoke.mutate({ leaseId, mode: 'force', reason: 'maintenance' });
      await waitUntil(() => started.said().stderr.includes('the command is killed'));
      return { kept, pid, started, goOn: () => process.kill(guard, 'SIGCONT') };
    }

    test('keeps the others until it has been killed', async () => {
      const { kept, pid, started, goOn } = await aStoppedJob();

      const { expiresAt } = (await viewOf(kept)) ?? {};
      await waitUntil(async () => ((await viewOf(kept))?.expiresAt ?? '') > (expiresAt ?? 'x'));
      expect(isRunning(pid)).toBe(true);
      goOn();

      expect((await started.ended).exitCode).toBe(125);
      expect(isRunning(pid)).toBe(false);
      expect((await viewOf(kept))?.phase).toBe('free');
    });

    test('says for how long the others may stay held where no controller answers their release', async () => {
      const network = await cli.front();
      const { started, goOn } = await aStoppedJob({ ...cli.env, LEASEHOLD_URL: network.url });

      network.drop();
      goOn();

      const { stderr } = await started.ended;
      expect(stderr).toContain(
        'could not be released: no controller answered. What is still held of them expires in at most 18.0 s.',
      );
    });
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
    const view = await viewOf(key);

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

  test('that is ended by a signal ends with 128 plus the number of the signal', async () => {
    expect((await run(`run/${aKey()}`, '--', 'sh', '-c', 'kill -TERM $$')).exitCode).toBe(143);
  });

  test.for([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('receives %s, as do its children', async ([signal, exitCode], on) => {
    const job = await aJob(on, 'exit 143');

    job.started.child.kill(signal);

    expect((await job.started.ended).exitCode).toBe(exitCode);
    expect(job.isGone()).toBe(true);
    expect((await viewOf(job.key))?.phase).toBe('free');
  });

  test.for(['SIGINT', 'SIGTERM'] as const)(
    'receives %s alone with --single-child, and its children end with it',
    async (signal, { expect: expectHere, onTestFinished: whenOver }) => {
      const file = join(folder, aKey());
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
    const file = join(folder, aKey());
    const script = 'set -m; sleep 300 >/dev/null 2>&1 & echo $! >"$0"';

    const ended = await run(`run/${aKey()}`, '--', 'sh', '-c', script, file);

    expect(ended.exitCode).toBe(0);
    expect(isRunning(Number(await readFile(file, 'utf8')))).toBe(false);
  });
});

describe('a command without a lease', () => {
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

  test('that does not exist takes no lease, and ends as in a shell', async () => {
    const key = aKey();

    expect((await run(`run/${key}`, '--', 'no-such-command')).exitCode).toBe(127);
    expect((await run(`run/${key}`, '--', '/etc/passwd')).exitCode).toBe(126);
    expect(await viewOf(key)).toBeNull();
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
    const job = await aJob(on, LOG_TERM, '--ttl', '6000');

    job.network.drop();
    const expiryMs = await expiryMsOf(job.key);
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
    const job = await aJob(on, LOG_TERM);
    const { leaseId } = (await viewOf(job.key)) ?? { leaseId: '' };

    await cli.api().leases.revoke.mutate({ leaseId, mode: 'force', reason: 'wedged' });
    const ended = await job.started.ended;

    expect(job.isGone()).toBe(true);
    expect(await job.notes()).not.toContain('term');
    expect(ended.exitCode).toBe(125);
    expect(ended.stderr).toContain(`run/${job.key} was revoked (wedged)`);
  });

  test('is asked to stop when the lease is revoked gracefully', async (on) => {
    const { expect } = on;
    const job = await aJob(on, SAVE_AND_EXIT);
    const { leaseId } = (await viewOf(job.key)) ?? { leaseId: '' };

    await cli.api().leases.revoke.mutate({ leaseId, mode: 'graceful', reason: 'move over' });
    const ended = await job.started.ended;

    expect(await job.notes()).toContain('saved\n');
    expect(ended.exitCode).toBe(125);
    expect(ended.stderr).toContain(`run/${job.key} is being revoked (move over)`);
    expect((await viewOf(job.key))?.phase).toBe('free');
  });
});

describe.concurrent('a command whose command line', () => {
  test('is killed is sent SIGTERM, and is gone with its children before the lease expires', async (on) => {
    const { expect } = on;
    const job = await aJob(on, LOG_TERM, '--ttl', '6000');

    job.started.child.kill('SIGKILL');
    const expiryMs = await expiryMsOf(job.key);
    await waitUntil(async () => (await job.notes()).includes('term'));
    await waitUntil(job.isGone);

    expect(await job.lastBeatMs()).toBeLessThan(expiryMs);
  });

  test('is stopped is killed in time, and the command line reports it when it continues', async (on) => {
    const { expect } = on;
    const job = await aJob(on, LOG_TERM, '--ttl', '6000');

    job.started.child.kill('SIGSTOP');
    const expiryMs = await expiryMsOf(job.key);
    await waitUntil(job.isGone);
    job.started.child.kill('SIGCONT');
    const ended = await job.started.ended;

    expect(await job.lastBeatMs()).toBeLessThan(expiryMs);
    expect(ended.exitCode).toBe(125);
  });

  test('is stopped by Ctrl-Z is stopped with it, and continues with it', async (on) => {
    const { expect } = on;
    const job = await aJob(on, LOG_TERM, '--ttl', '60000');
    const stateOf = (pid: number): string | undefined =>
      /\) (\S) /u.exec(readFileSync(`/proc/${String(pid)}/stat`, 'utf8'))?.[1];

    job.started.child.kill('SIGTSTP');
    // A SIGCONT before the command line has stopped itself is lost. A shell that is just starting a program
    // waits for it in state D instead of T.
    await waitUntil(
      () =>
        stateOf(job.started.child.pid ?? 0) === 'T' &&
        job.pids.every((pid) => /[TD]/u.test(stateOf(pid) ?? '')),
    );
    job.started.child.kill('SIGCONT');
    await waitUntil(() => job.pids.every((pid) => /[SR]/u.test(stateOf(pid) ?? '')));
    job.started.child.kill('SIGINT');

    expect((await job.started.ended).exitCode).toBe(130);
  });

  test('loses its guard is killed with its children, and the lease is given back', async (on) => {
    const { expect } = on;
    const job = await aJob(on, LOG_TERM);

    process.kill(guardOf(job), 'SIGKILL');
    const ended = await job.started.ended;

    expect(job.isGone()).toBe(true);
    expect(ended.exitCode).toBe(137);
    expect((await viewOf(job.key))?.phase).toBe('free');
  });

  test('has a guard that hangs is killed without it', async (on) => {
    const { expect } = on;
    const job = await aJob(on, LOG_TERM, '--ttl', '6000');
    const guard = guardOf(job);

    process.kill(guard, 'SIGSTOP');
    job.network.drop();
    const expiryMs = await expiryMsOf(job.key);
    await waitUntil(job.isGone);

    expect(await job.lastBeatMs()).toBeLessThan(expiryMs);
    job.network.heal();
    expect((await job.started.ended).exitCode).toBe(125);
    expect(isRunning(guard)).toBe(false);
  });
});
