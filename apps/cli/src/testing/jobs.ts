/** Commands under `leasehold leases run`, built, and what is seen of them. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isRunning, waitUntil, type FaultProxy } from '@leasehold/testing';
import type { TestContext } from 'vitest';
import type { CliStage } from './cli-controller.ts';
import { startCommand, type Started } from './command-line.ts';

/** A scope that no other test uses. */
export const aKey = (): string => `job-${randomUUID()}`;

/** What the controller shows of the lease `run/KEY`. */
export function viewOf(cli: CliStage, key: string) {
  return cli.api().leases.get.query({ name: key, namespace: 'run' });
}

/** When a lease is over that nobody renews any more. */
export async function expiryMsOf(cli: CliStage, key: string): Promise<number> {
  return Date.parse((await viewOf(cli, key))?.expiresAt ?? '');
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
export async function aJob(
  cli: CliStage,
  { onTestFinished: whenOver }: Pick<TestContext, 'onTestFinished'>,
  onTerm: string,
  ...options: string[]
): Promise<Job> {
  const key = aKey();
  const network = await cli.front();
  const file = join(cli.folder, key);
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

/** What a job does at SIGTERM. */
export const LOG_TERM = 'echo term >>"$0"';

/** The guard of a run: the parent of the job's shell. */
export function guardOf({ pids }: Pick<Job, 'pids'>): number {
  const stat = readFileSync(`/proc/${String(pids[0])}/stat`, 'utf8');
  return Number(/\) \S (\d+) /u.exec(stat)?.[1]);
}
