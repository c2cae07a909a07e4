/** `leasehold leases run`, built: what happens rarely, and what the gate shows for one signal or one lease. */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isRunning, waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { CliStage } from './testing/cli-controller.ts';
import { startCommand, type Ended } from './testing/command-line.ts';
import { aJob, aKey, expiryMsOf, guardOf, LOG_TERM, viewOf } from './testing/jobs.ts';

let cli: CliStage;

beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);

afterAll(() => cli.close());

const run = (...args: string[]): Promise<Ended> => cli.run('leases', 'run', ...args);

describe('a command under several leases', () => {
  describe('of which one is lost', () => {
    /** Whose guard is stopped, and does not carry out the kill; without it, the command is killed as the TTL ends. */
    async function aStoppedJob(env = cli.env) {
      // In the order in which they are released.
      const [kept, lost] = [aKey(), aKey()];
      const file = join(cli.folder, lost);
      const job = ['sh', '-c', 'echo "$$" >"$0"; exec sleep 1000', file];
      const started = startCommand(
        ['leases', 'run', '--ttl', '18000', `run/${kept}`, `run/${lost}`, '--', ...job],
        env,
      );
      onTestFinished(() => void started.child.kill('SIGKILL'));
      const notes = (): Promise<string> => readFile(file, 'utf8').catch(() => '');
      const pid = Number(await waitUntil(async () => /^\d+\n/u.exec(await notes())?.[0]));
      const guard = guardOf({ pids: [pid] });
      const leaseId = (await viewOf(cli, lost))?.leaseId ?? '';

      process.kill(guard, 'SIGSTOP');
      await cli.api().leases.revoke.mutate({ leaseId, mode: 'force', reason: 'maintenance' });
      await waitUntil(() => started.said().stderr.includes('the command is killed'));
      return { kept, pid, started, goOn: () => process.kill(guard, 'SIGCONT') };
    }

    test('keeps the others until it has been killed', async () => {
      const { kept, pid, started, goOn } = await aStoppedJob();

      const { expiresAt } = (await viewOf(cli, kept)) ?? {};
      await waitUntil(
        async () => ((await viewOf(cli, kept))?.expiresAt ?? '') > (expiresAt ?? 'x'),
      );
      expect(isRunning(pid)).toBe(true);
      goOn();

      expect((await started.ended).exitCode).toBe(125);
      expect(isRunning(pid)).toBe(false);
      expect((await viewOf(cli, kept))?.phase).toBe('free');
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
});

describe('a command under a lease', () => {
  test('that is ended by a signal ends with 128 plus the number of the signal', async () => {
    expect((await run(`run/${aKey()}`, '--', 'sh', '-c', 'kill -TERM $$')).exitCode).toBe(143);
  });

  test.for([
    ['SIGINT', 130],
    ['SIGHUP', 129],
  ] as const)('receives %s, as do its children', async ([signal, exitCode], on) => {
    const job = await aJob(cli, on, 'exit 143');

    job.started.child.kill(signal);

    expect((await job.started.ended).exitCode).toBe(exitCode);
    expect(job.isGone()).toBe(true);
    expect((await viewOf(cli, job.key))?.phase).toBe('free');
  });
});

describe.concurrent('a command whose command line', () => {
  test('is stopped is killed in time, and the command line reports it when it continues', async (on) => {
    const { expect } = on;
    const job = await aJob(cli, on, LOG_TERM, '--ttl', '6000');

    job.started.child.kill('SIGSTOP');
    const expiryMs = await expiryMsOf(cli, job.key);
    await waitUntil(job.isGone);
    job.started.child.kill('SIGCONT');
    const ended = await job.started.ended;

    expect(await job.lastBeatMs()).toBeLessThan(expiryMs);
    expect(ended.exitCode).toBe(125);
  });

  test('is stopped by Ctrl-Z is stopped with it, and continues with it', async (on) => {
    const { expect } = on;
    const job = await aJob(cli, on, LOG_TERM, '--ttl', '60000');
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

  test('has a guard that hangs is killed without it', async (on) => {
    const { expect } = on;
    const job = await aJob(cli, on, LOG_TERM, '--ttl', '6000');
    const guard = guardOf(job);

    process.kill(guard, 'SIGSTOP');
    job.network.drop();
    const expiryMs = await expiryMsOf(cli, job.key);
    await waitUntil(job.isGone);

    expect(await job.lastBeatMs()).toBeLessThan(expiryMs);
    job.network.heal();
    expect((await job.started.ended).exitCode).toBe(125);
    expect(isRunning(guard)).toBe(false);
  });
});
