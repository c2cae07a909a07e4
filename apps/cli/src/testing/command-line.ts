import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitUntil } from '@leasehold/testing';
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

/**
 * Starts `leasehold …` as `npm start` does: built, in a process of its own, with a channel. Its output
 * is kept, unless it goes to a file.
 */
export function startCommand(
  args: readonly string[],
  env: Record<string, string>,
  { input, stdout: file }: { input?: string; stdout?: number } = {},
): Started {
  const child = spawn(process.execPath, [LAUNCHER, ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: [input === undefined ? 'ignore' : 'pipe', file ?? 'pipe', 'pipe', 'ipc'],
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
): Promise<{ up: Started; run: RunFile }> {
  const args = ['up', '--preset', 'fast', '--port', '0', ...more];
  const up = startCommand(args, { LEASEHOLD_HOME: home });
  await waitUntil(
    () => {
      if (up.child.exitCode !== null) throw new Error(`up ended: ${up.said().stderr}`);
      return up.said().stdout.includes('Running.');
    },
    { timeoutMs: 60_000, what: 'leasehold up' },
  );
  return { up, run: readRun(home) };
}

export function readRun(home: string): RunFile {
  return JSON.parse(readFileSync(join(home, 'run.json'), 'utf8')) as RunFile;
}

/**
 * Every process that has to do with this home, by its command line or its environment: also one
 * that nobody remembers.
 */
export function processesOf(home: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/u.test(name))
    .filter((pid) => ['cmdline', 'environ'].some((file) => readProc(pid, file).includes(home)))
    .filter((pid) => Number(pid) !== process.pid)
    .map((pid) => `${pid} ${readProc(pid, 'cmdline').replaceAll('\0', ' ')}`);
}

function readProc(pid: string, file: string): string {
  try {
    return readFileSync(join('/proc', pid, file), 'utf8');
  } catch {
    return '';
  }
}
