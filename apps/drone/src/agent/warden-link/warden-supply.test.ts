import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { createEar } from '../../testing/warden-fixture.ts';
import { wardenSource } from './warden-supply.ts';

const needs = { replyTimeoutMs: () => 1_000, mayEndSilent: () => Promise.resolve(true) };

test('a warden of an earlier version is neither commanded nor ended: an error says what to do', async () => {
  const stateDir = mkdtempSync(path.join(os.tmpdir(), 'lh-earlier-'));
  const earlier = spawn(
    process.execPath,
    ['-e', 'setInterval(() => undefined, 1000)', 'warden', stateDir],
    { stdio: 'ignore' },
  );
  const record = {
    socketPath: path.join(stateDir, 'warden.sock'),
    clockId: 'c1',
    pid: earlier.pid,
  };
  writeFileSync(path.join(stateDir, 'warden.json'), JSON.stringify(record));
  const source = wardenSource({
    stateDir,
    command: ['/bin/false'],
    searchPath: '',
    nowMs: () => 0,
  });

  await expect(source.supply(createEar(), needs)).rejects.toThrow('of an earlier version');

  expect(earlier.exitCode ?? earlier.signalCode).toBeNull();
  earlier.kill('SIGKILL');
  rmSync(stateDir, { recursive: true, force: true, maxRetries: 10 });
});
