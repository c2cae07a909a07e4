import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import { childrenOf, isRunning, processesWith } from '@leasehold/testing';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { testedDrone, type TestedDrone } from '../testing/tested-drone.ts';
import { until } from '../testing/wait.ts';
import { LEASH_MS, startOf, startWarden } from '../testing/warden-fixture.ts';

let drone: TestedDrone;
beforeAll(() => {
  drone = testedDrone();
});
afterAll(() => {
  drone[Symbol.dispose]();
});

describe.concurrent('the leash', () => {
  test('H-frozen-warden ends a warden that is stopped at the hard deadline of a backend, and not before', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    const { marker, request } = markedSleep({ softInMs: 3_000, hardInMs: 3_500 });
    const { hardAtMs } = await link.start(request);

    process.kill(warden.pid, 'SIGSTOP');
    await until('the warden is ended', () => warden.process.signalCode !== null, 30_000);
    const endedAtMs = os.uptime() * 1_000;
    await until('its backend is gone', () => processesWith(marker).length === 0);

    expect(endedAtMs - hardAtMs - LEASH_MS).toBeGreaterThanOrEqual(0);
  });

  test('H-frozen-warden follows a deadline that moved later, and a new one that is earlier than all before', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    const moved = startOf('sleep 600', { softInMs: 6_000, hardInMs: 8_000 });
    await link.start(moved);
    const { backendId, leaseId, softAtMs, hardAtMs } = moved;
    const later = { backendId, leaseId, softAtMs: softAtMs + 60_000, hardAtMs: hardAtMs + 60_000 };
    expect(await link.extend([later])).toEqual([null]);
    const early = await link.start(startOf('sleep 600', { softInMs: 3_000, hardInMs: 3_500 }));

    process.kill(warden.pid, 'SIGSTOP');
    await until('the warden is ended', () => warden.process.signalCode !== null, 30_000);

    const endedAtMs = os.uptime() * 1_000;
    expect(endedAtMs - early.hardAtMs - LEASH_MS).toBeGreaterThanOrEqual(0);
    expect(endedAtMs).toBeLessThan(later.hardAtMs);
  });

  test('that cannot be told ends no warden which runs, and is told a later deadline once it can be', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    const request = startOf('sleep 600', { softInMs: 8_000, hardInMs: 9_000 });
    await link.start(request);
    const { backendId, leaseId, softAtMs, hardAtMs } = request;

    boundFileSize(warden.pid, '0');
    const later = { backendId, leaseId, softAtMs: softAtMs + 60_000, hardAtMs: hardAtMs + 60_000 };
    expect(await link.extend([later])).toEqual([null]);
    await until('its file cannot be written', () => warden.said().includes('EFBIG'));
    boundFileSize(warden.pid, 'unlimited');
    // A nap may end a little late.
    const napEndsAtMs = hardAtMs + LEASH_MS + 500;
    await until('the former deadline is over', () => os.uptime() * 1_000 > napEndsAtMs, 30_000);

    expect(await link.list()).toMatchObject([{ backendId, state: 'running' }]);
  });

  test('is replaced when it is killed, and is gone with the warden', async ({ expect }) => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    await link.start(startOf('sleep 600', { softInMs: 60_000, hardInMs: 61_000 }));
    const former = leashOf(warden);

    process.kill(former, 'SIGKILL');
    await until('another one is there', () => {
      const [pid] = childrenOf(warden.pid, 'leasehold-leash');
      return pid !== undefined && pid !== former;
    });
    const { marker, request } = markedSleep({ softInMs: 3_000, hardInMs: 3_500 });
    await link.start(request);
    const leashes = childrenOf(warden.pid, 'leasehold-leash');
    const naps = leashes.flatMap((pid) => childrenOf(pid, 'sleep'));
    process.kill(warden.pid, 'SIGSTOP');
    await until('the warden is ended', () => warden.process.signalCode !== null, 30_000);

    await until('its backend is gone', () => processesWith(marker).length === 0);
    await until('nothing of it is left', () => ![...leashes, ...naps].some(isRunning));
    expect(leashes).toHaveLength(1);
  });

  test('is replaced as soon as the machine has descriptors again, and the backends run on', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    const { marker, request } = markedSleep({ softInMs: 60_000, hardInMs: 61_000 });
    await link.start(request);
    const former = leashOf(warden);

    boundOpenFiles(warden.pid, 1);
    process.kill(former, 'SIGKILL');
    await until('no other one can be started', () => warden.said().includes('EMFILE'));
    boundOpenFiles(warden.pid, 1_024);
    await until('another one is there', () => {
      const [pid] = childrenOf(warden.pid, 'leasehold-leash');
      return pid !== undefined && pid !== former;
    });

    expect(await link.list()).toMatchObject([{ backendId: request.backendId, state: 'running' }]);
    expect(processesWith(marker)).not.toEqual([]);
  });
});

function leashOf({ pid }: { readonly pid: number }): number {
  const [leash] = childrenOf(pid, 'leasehold-leash');
  if (leash === undefined) throw new Error('there is no leash');
  return leash;
}

/** How many files a process may have open from now on. */
function boundOpenFiles(pid: number, limit: number): void {
  execFileSync('prlimit', [`--pid=${String(pid)}`, `--nofile=${String(limit)}:`]);
}

/** How many bytes a file may have that a process writes from now on. */
function boundFileSize(pid: number, limit: string): void {
  execFileSync('prlimit', [`--pid=${String(pid)}`, `--fsize=${limit}:`]);
}

/** A sleep without a handler, recognisable by its own command line. */
function markedSleep(of: { softInMs: number; hardInMs: number }): {
  marker: string;
  request: ReturnType<typeof startOf>;
} {
  const marker = `leasehold-${randomUUID()}`;
  return {
    marker,
    request: startOf(`exec -a ${marker} sleep 600`, { ...of, command: '/bin/bash' }),
  };
}
