import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { processesWith } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../testing/wait.ts';
import { startOf } from '../testing/warden-fixture.ts';
import { probeLaunchMeans, toolFinder, type LaunchMeans } from './isolation.ts';
import { BackendProcess } from './launch.ts';
import type { CommandStart } from './protocol.ts';

let stateDir: string;
let workshop: string;
beforeAll(() => {
  stateDir = mkdtempSync(path.join(os.tmpdir(), 'lh-launch-'));
  workshop = path.join(stateDir, 'view');
  mkdirSync(workshop);
});
afterAll(() => {
  rmSync(stateDir, { recursive: true, force: true, maxRetries: 10 });
});

const nowMs = (): number => os.uptime() * 1_000;
const findTool = toolFinder('');

function probed(find = findTool): Promise<LaunchMeans> {
  return probeLaunchMeans({ find, stateDir, workshop, isRoot: process.getuid?.() === 0 });
}

function prepared(request: CommandStart, means: LaunchMeans): Promise<BackendProcess> {
  const context = { means, stateDir, logFolder: stateDir, workshop, hidden: [stateDir], nowMs };
  return BackendProcess.prepare(request, context);
}

function without(...names: string[]): (name: string) => string | undefined {
  return (name) => (names.includes(name) ? undefined : findTool(name));
}

describe.each([
  {
    machine: 'without namespaces',
    find: without('unshare'),
    detail: /what leaves the process group/u,
  },
  {
    machine: 'without namespaces and without setpriv',
    find: without('unshare', 'setpriv', 'env'),
    detail: /may outlive/u,
  },
])('a machine $machine', ({ find, detail }) => {
  test('is recognised, and the facts report what is missing', async () => {
    const means = await probed(find);

    expect(means.facts).toMatchObject({ pidNamespace: false, privateProc: false });
    expect(means.facts.detail).toMatch(detail);
  });

  test('stops a program by its stop signal and reports its exit code', async () => {
    const means = await probed(find);
    const marker = `leasehold-${randomUUID()}`;
    const script = `trap 'exit 7' USR1; : ${marker}; touch ${stateDir}/${marker}; while :; do sleep 0.05; done`;
    const backend = await prepared(startOf(script, { stopSignal: 'SIGUSR1' }), means);
    backend.release();
    await until('the program runs', () => existsSync(path.join(stateDir, marker)));

    backend.signalStop();
    await until('the backend is gone', () => backend.isGone());

    expect(backend.exitCode).toBe(7);
    expect(processesWith(marker)).toEqual([]);
  });

  test('kills the whole group and session of a program that has ended or is killed', async () => {
    const means = await probed(find);
    const marker = `leasehold-${randomUUID()}`;
    const sleeps = `bash -c 'exec -a ${marker} sleep 600' &`;
    // The second is in a group of its own.
    const request = startOf(`${sleeps} set -m; ${sleeps} exit 5`, { command: '/bin/bash' });
    const ended = await prepared(request, means);
    const killed = await prepared(
      startOf(`set -m; ${sleeps} exec -a ${marker} sleep 600`, { command: '/bin/bash' }),
      means,
    );
    ended.release();
    killed.release();
    await until('the one ends by itself', () => ended.isGone());
    expect(ended.exitCode).toBe(5);

    killed.kill();
    await until('the other is gone', () => killed.isGone());

    expect(processesWith(marker)).toEqual([]);
  });
});

test.each([
  { with: 'what this machine has', find: findTool },
  { with: 'no namespaces', find: without('unshare') },
])('a program that has only just been released is stopped, with $with', async ({ find }) => {
  const means = await probed(find);
  const backends = await Promise.all(
    Array.from({ length: 20 }, () => prepared(startOf('while :; do sleep 0.05; done'), means)),
  );

  for (const backend of backends) {
    backend.release();
    backend.signalStop();
  }
  await until('all are gone', () => backends.every((backend) => backend.isGone()));

  expect(new Set(backends.map(({ exitCode }) => exitCode))).toEqual(new Set([143]));
});

test('a backend that has ended is gone, even when others have started since', async () => {
  const means = await probed();
  const ended = await Promise.all(
    Array.from({ length: 8 }, () => prepared(startOf('exit 3'), means)),
  );
  for (const backend of ended) backend.release();
  await until('they have ended', () =>
    ended.every(({ pid, exitCode }) => exitCode === 3 && !existsSync(`/proc/${String(pid)}`)),
  );

  // The kernel gives them the numbers of the namespaces that it has freed.
  const others = await Promise.all(
    Array.from({ length: 24 }, () => prepared(startOf('sleep 600'), means)),
  );
  const areGone = ended.map((backend) => backend.isGone());
  for (const backend of others) backend.kill();
  await until('the others are gone', () => others.every((backend) => backend.isGone()));

  expect(areGone).toEqual(ended.map(() => true));
});

test('a backend whose first process somebody kills tells by what it was killed', async () => {
  const means = await probed();
  const [other, stopped] = await Promise.all([
    prepared(startOf('sleep 600'), means),
    prepared(startOf('sleep 600'), means),
  ]);
  for (const backend of [other, stopped]) backend.release();

  // As a group: in a namespace of its own it is a child of the process that made that.
  process.kill(-other.pid, 'SIGKILL');
  stopped.kill();
  await until('they are gone', () => [other, stopped].every((backend) => backend.isGone()));

  expect([other, stopped].map(({ exitCode, detail }) => ({ exitCode, detail }))).toEqual([
    { exitCode: null, detail: 'its first process was killed by SIGKILL, and not by Leasehold' },
    { exitCode: null, detail: null },
  ]);
});

// util-linux before 2.38 ignores SIGTERM before it forks; before 2.36 SIGTERM ends it, and with it the namespace.
test.each([
  {
    of: 'hands on that it ignores SIGTERM',
    isIsolated: true,
    run: 'trap "" TERM INT; exec unshare "$@"',
  },
  { of: 'is ended by SIGTERM itself', isIsolated: false, run: 'unshare "$@" & wait' },
])('a program gets its stop signal also where unshare $of', async ({ isIsolated, run }) => {
  const unshare = path.join(stateDir, `unshare-${randomUUID()}`);
  writeFileSync(unshare, `#!/bin/sh\n${run}\n`, { mode: 0o755 });
  const here = await probed();
  const means = await probed((name) => (name === 'unshare' ? unshare : findTool(name)));
  const backend = await prepared(startOf('while :; do sleep 0.05; done'), means);

  backend.release();
  backend.signalStop();
  await until('it has ended', () => backend.isGone());

  expect(means.facts.pidNamespace).toBe(isIsolated && here.facts.pidNamespace);
  expect(backend.exitCode).toBe(143);
});

test('a program that was never released never runs', async () => {
  const means = await probed();
  const marker = `leasehold-${randomUUID()}`;
  const backend = await prepared(startOf(`touch ${stateDir}/${marker}; sleep 600`), means);

  backend.kill();
  await until('it is gone', () => backend.isGone());

  expect(processesWith(marker)).toEqual([]);
});

test.each([
  { what: 'whose limit the kernel refuses', script: 'exit 0', pids: -5 },
  { what: 'whose command the kernel refuses', script: '#'.repeat(200_000), pids: 30 },
])('of a backend $what neither a control group nor a folder is left', async ({ script, pids }) => {
  const means = await probed();
  const limits = { memoryBytes: 2 ** 26, pids, cpus: null, fileBytes: 2 ** 20, together: 1 };
  const request = startOf(script, { limits });
  const others = means.groups.make('to-find-them', { ...limits, pids: 30 });
  others.remove();
  const folders = [
    path.join(stateDir, 'tmp', request.backendId),
    ...others.joins.map((file) => path.join(path.dirname(path.dirname(file)), request.backendId)),
  ];

  // Where no control group bounds processes, the kernel is not asked for that limit.
  const isRefused = pids > 0 || means.groups.bounds('pids');
  const start = prepared(request, means);
  await (isRefused ? expect(start).rejects.toThrow() : start.then((backend) => backend.kill()));

  await until('nothing is left', () => !folders.some((folder) => existsSync(folder)));
});
