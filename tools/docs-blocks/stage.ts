/** What the pages assume: `npm start` runs, in a folder of its own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { waitUntil } from '@leasehold/testing';

export const REPOSITORY = path.resolve(import.meta.dirname, '../..');

export interface Stage {
  /** Where commands run; `.leasehold` is in it. */
  readonly folder: string;
  readonly controllerUrl: string;
  readonly databaseUrl: string;
  /** Of an API token of the role `client`. */
  readonly token: string;
  /** Replaces the address in the pages with the one that runs here. */
  adapt(text: string): string;
  close(): Promise<void>;
}

/** Where `npm start` listens, as the pages show it. */
const SHOWN_ADDRESS = /\b(?:127\.0\.0\.1|localhost):4600\b/gu;

/** Starts `leasehold up`, as `npm start` does. The caller that starts it closes it. */
export async function setStage(): Promise<Stage> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-docs-'));
  const home = path.join(folder, '.leasehold');
  const launcher = path.join(REPOSITORY, 'apps', 'cli', 'bin', 'leasehold.mjs');
  const up = spawn(process.execPath, [launcher, 'up', '--preset', 'fast', '--port', '0'], {
    env: { PATH: process.env['PATH'], LEASEHOLD_HOME: home },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  await running(up);
  const run = await readJson(path.join(home, 'run.json'));
  const credentials = await readJson(path.join(home, 'credentials.json'));
  const controllerUrl = run['controllerUrl'] ?? '';
  return {
    folder,
    controllerUrl,
    databaseUrl: run['databaseUrl'] ?? '',
    token: credentials['client'] ?? '',
    adapt: (text) => text.replaceAll(SHOWN_ADDRESS, new URL(controllerUrl).host),
    async close() {
      const ended = once(up, 'exit');
      up.kill('SIGTERM');
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

async function running(up: ChildProcess): Promise<void> {
  let printed = '';
  for (const stream of [up.stdout, up.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => (printed += text));
  }
  await waitUntil(() => up.exitCode !== null || printed.includes('Running.'), {
    timeoutMs: 60_000,
    what: 'leasehold up',
  });
  if (up.exitCode !== null) throw new Error(`leasehold up ended: ${printed}`);
}

async function readJson(file: string): Promise<Record<string, string>> {
  return JSON.parse(await readFile(file, 'utf8')) as Record<string, string>;
}
