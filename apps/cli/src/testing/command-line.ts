import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLineOf, processesWith, waitUntil } from '@leasehold/testing/stack';
import type { RunFile } from '../home.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/leasehold.mjs', import.meta.url));

/** What a command line said and how it ended. */
export interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command line that runs. */
export interface Started {
  readonly child: ChildProcess;
  /** What it has said so far. */
  readonly said: () => { stdout: string; stderr: string };
  readonly ended: Promise<Ended>;
}

export interface CommandOptions {
  /** Its standard input. */
  readonly input?: string;
  /** Files that its output goes to, instead of being kept. */
  readonly stdout?: number;
  readonly stderr?: number;
  /** Goes before the command line. */
  readonly prefix?: readonly string[];
}

/** Starts `leasehold …` as `npm start` does: built, in a process of its own, with a channel. */
export function startCommand(
  args: readonly string[],
  env: Record<string, string>,
  { input, prefix = [], ...files }: CommandOptions = {},
): Started {
  const [command = '', ...words] = [...prefix, process.execPath, LAUNCHER, ...args];
  const child = spawn(command, words, {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: [
      input === undefined ? 'ignore' : 'pipe',
      files.stdout ?? 'pipe',
      files.stderr ?? 'pipe',
      'ipc',
    ],
  });
  child.stdin?.end(input);
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (exitCode) => {
      resolve({ exitCode, stdout, stderr });
    });
  });
  return { child, said: () => ({ stdout, stderr }), ended };
}

/** Runs `leasehold …` to its end. */
export function runCommand(args: readonly string[], env: Record<string, string>): Promise<Ended> {
  return startCommand(args, env).ended;
}

/** Starts `leasehold up` on free ports and waits until everything answers. */
export async function startUp(
  home: string,
  more: readonly string[] = [],
  variables: Readonly<Record<string, string>> = {},
): Promise<{ up: Started; run: RunFile }> {
  const up = startCommand([...UP_ARGS, ...more], { LEASEHOLD_HOME: home, ...variables });
  await untilRunning(up);
  return { up, run: readRun(home) };
}

/** How tests run `leasehold up`. */
export const UP_ARGS = ['up', '--preset', 'fast', '--port', '0'] as const;

/** Waits until everything that a `leasehold up` runs answers. */
export async function untilRunning(up: Started): Promise<void> {
  await waitUntil(
    () => {
      if (up.child.exitCode !== null) throw new Error(`up ended: ${up.said().stderr}`);
      return up.said().stdout.includes('Running.');
    },
    { timeoutMs: 60_000, what: 'leasehold up' },
  );
}

export function readRun(home: string): RunFile {
  return JSON.parse(readFileSync(join(home, 'run.json'), 'utf8')) as RunFile;
}

/** Kills a part of a run. Never `kill(0)`: that is the whole process group of the test. */
export function killPart(pid: number | null): void {
  if (pid === null) throw new Error('this part does not run');
  process.kill(pid, 'SIGKILL');
}

/**
 * Every process that has to do with this home, by its command line or its environment: also a
 * forgotten one.
 */
export function processesOf(home: string): string[] {
  const pids = new Set([...processesWith(home), ...processesWith(home, 'environ')]);
  return [...pids].map((pid) => `${String(pid)} ${commandLineOf(pid)}`);
}
