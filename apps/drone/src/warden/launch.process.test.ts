import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { processesWith } from '../testing/processes.ts';
import { until } from '../testing/wait.ts';
import { startOf } from '../testing/warden-fixture.ts';
import { probeLaunchMeans, toolFinder } from './isolation.ts';
import { BackendProcess } from './launch.ts';

let logFolder: string;
beforeAll(() => {
  logFolder = mkdtempSync(path.join(os.tmpdir(), 'lh-logs-'));
});
afterAll(() => {
  rmSync(logFolder, { recursive: true, force: true });
});

const nowMs = (): number => os.uptime() * 1_000;
const findTool = toolFinder('');

function without(...names: string[]): (name: string) => string | undefined {
  return (name) => (names.includes(name) ? undefined : findTool(name));
}

describe.each([
  { machine: 'without namespaces', find: without('unshare'), detail: /descendants that leave/u },
  {
    machine: 'without namespaces and without setpriv',
    find: without('unshare', 'setpriv', 'env'),
    detail: /may outlive/u,
  },
])('a machine $machine', ({ find, detail }) => {
  test('is told apart, and says what it has instead', async () => {
    const means = await probeLaunchMeans(find);

    expect(means.isolation).toBe('process-group');
    expect(means.detail).toMatch(detail);
  });

  test('stops a program by its stop signal and tells its exit code', async () => {
    const means = await probeLaunchMeans(find);
    const marker = `leasehold-${randomUUID()}`;
    const script = `trap 'exit 7' USR1; : ${marker}; touch ${logFolder}/${marker}; while :; do sleep 0.05; done`;
    const backend = await BackendProcess.prepare(startOf(script, { stopSignal: 'SIGUSR1' }), {
      means,
      logFolder,
      nowMs,
    });
    backend.release();
    await until(
      'the program runs',
      () =>
        processesWith(`touch ${logFolder}`).length > 0 && processesWith('sleep 0.05').length > 0,
    );

    backend.signalStop();
    await until('the backend is gone', () => backend.isGone());

    expect(backend.exitCode).toBe(7);
    expect(processesWith(marker)).toEqual([]);
  });

  test('kills the whole group of a program that has ended or is killed', async () => {
    const means = await probeLaunchMeans(find);
    const marker = `leasehold-${randomUUID()}`;
    const request = startOf(`bash -c 'exec -a ${marker} sleep 600' & exit 5`, {
      command: '/bin/bash',
    });
    const ended = await BackendProcess.prepare(request, { means, logFolder, nowMs });
    const killed = await BackendProcess.prepare(
      startOf(`exec -a ${marker} sleep 600`, { command: '/bin/bash' }),
      { means, logFolder, nowMs },
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

test('a program that was never let go never runs', async () => {
  const means = await probeLaunchMeans(findTool);
  const marker = `leasehold-${randomUUID()}`;
  const backend = await BackendProcess.prepare(startOf(`touch ${logFolder}/${marker}; sleep 600`), {
    means,
    logFolder,
    nowMs,
  });

  backend.kill();
  await until('it is gone', () => backend.isGone());

  expect(processesWith(marker)).toEqual([]);
});
