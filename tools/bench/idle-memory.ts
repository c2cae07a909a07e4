import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { invariant } from '@leasehold/keys-core';
import { childrenOf } from '@leasehold/testing/stack';
import type { Figure } from './rig/figures.ts';
import { residentBytes } from './rig/processes.ts';
import { atMost, megabytes, milliseconds } from './rig/quantities.ts';
import type { Rig } from './rig/rig.ts';
import { median } from './rig/rounds.ts';
import { freePort } from './services/peer-server.ts';

const APPS = ['controller', 'drone', 'cli'];
const IDLE_MS = 15_000;
const LOOKS = 10;
const LOOK_MS = 500;
const START_MS_MAX = 60_000;

/** What an installation takes while nobody uses it: `leasehold up`, with its controller and drone. */
export async function measureIdleMemory(rig: Rig): Promise<Figure[]> {
  for (const app of APPS) {
    await promisify(execFile)(process.execPath, [path.join('tools', 'build', 'bundle.mjs'), app]);
  }
  const { url } = await rig.database('bench_idle');
  const startedAtMs = performance.now();
  const up = spawn(
    process.execPath,
    ['apps/cli/bin/leasehold.mjs', 'up', '--no-console', '--port', String(await freePort())],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: url,
        LEASEHOLD_HOME: path.join(rig.folder, 'idle-home'),
      },
    },
  );
  rig.onClose(async () => {
    if (up.exitCode !== null) return;
    up.kill('SIGINT');
    await once(up, 'exit');
  });
  let said = '';
  up.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  while (!said.includes('Ctrl-C ends')) {
    invariant(up.exitCode === null, `leasehold up runs: ${said}`);
    invariant(performance.now() - startedAtMs < START_MS_MAX, 'leasehold up is ready in time');
    await pause(LOOK_MS / 10);
  }
  const readyMs = performance.now() - startedAtMs;
  await pause(rig.isQuick ? 1_000 : IDLE_MS);
  const upPid = up.pid ?? Number.NaN;
  return [
    {
      what: 'resident memory of an idle controller',
      result: megabytes(await medianBytes(() => pidOf(upPid, 'controller'))),
      required: atMost(150),
    },
    {
      what: 'resident memory of leasehold up itself',
      result: megabytes(await medianBytes(() => upPid)),
      required: atMost(80),
    },
    { what: 'from leasehold up to a running controller and drone', result: milliseconds(readyMs) },
  ];
}

function pidOf(parent: number, app: string): number {
  const [found] = childrenOf(parent, `/${app}/`);
  invariant(found !== undefined, `leasehold up has started the ${app}`);
  return found;
}

async function medianBytes(pidOfProcess: () => number): Promise<number> {
  const seen: number[] = [];
  for (let look = 0; look < LOOKS; look += 1) {
    seen.push(residentBytes(pidOfProcess()));
    await pause(LOOK_MS);
  }
  return median(seen);
}
