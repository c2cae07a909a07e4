import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { lockHome, runningUpOf } from './home.ts';
import { identityOf, isRunning, signalProcess } from './processes.ts';

let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'home-lock-'));
});

afterEach(async () => {
  await rm(home, { recursive: true, maxRetries: 10 });
});

describe('lockHome', () => {
  test('refuses a second holder and names the process of the first', () => {
    const release = lockHome(home);

    expect(() => lockHome(home)).toThrow(`as process ${String(process.pid)}`);
    release();
  });

  test('is free again after release, and leaves no file behind', async () => {
    lockHome(home)();

    expect(runningUpOf(home)).toBeUndefined();
    expect(await readdir(home)).toEqual([]);
  });

  test('takes over the lock of a process that is gone, even when its number is in use again', () => {
    const path = join(home, 'up.lock');
    writeFileSync(path, JSON.stringify({ pid: process.pid, startedAt: 'another boot/1' }));

    const release = lockHome(home);

    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(identityOf(process.pid));
    release();
  });

  test('takes over an incomplete lock file', () => {
    writeFileSync(join(home, 'up.lock'), '{"pi');

    const release = lockHome(home);

    expect(runningUpOf(home)?.pid).toBe(process.pid);
    release();
  });
});

test('a lock that cannot be read is not taken over, and says nothing of whether up runs', async () => {
  // As one of another user, which root can read.
  await mkdir(join(home, 'up.lock'));
  const unreadable = expect.objectContaining({
    code: 'home.unreadable',
    message: expect.stringContaining('up.lock cannot be read') as string,
  }) as Error;

  expect(() => lockHome(home)).toThrow(unreadable);
  expect(() => runningUpOf(home)).toThrow(unreadable);
  expect(await readdir(home)).toEqual(['up.lock']);
});

test('a home that cannot be written is not said to be locked', () => {
  // Nobody, not even root, makes files there.
  const ofSystem = '/sys';

  expect(() => lockHome(ofSystem)).toThrow(
    expect.objectContaining({
      code: 'home.unusable',
      message: expect.stringContaining('/sys cannot be written') as string,
    }) as Error,
  );
});

describe('process identity', () => {
  test('a process that has ended is not running, and a signal to it does nothing', async () => {
    const child = spawn('sleep', ['60']);
    const identity = identityOf(child.pid ?? 0);
    expect(identity).toBeDefined();
    if (identity === undefined) return;

    signalProcess(identity, 'SIGKILL');
    await once(child, 'exit');

    expect(isRunning(identity)).toBe(false);
    expect(() => {
      signalProcess(identity, 'SIGTERM');
    }).not.toThrow();
  });
});
