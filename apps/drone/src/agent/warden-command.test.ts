import { mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createEar } from '../testing/warden-fixture.ts';
import { wardenSource } from './warden-command.ts';

const needs = { replyTimeoutMs: () => 1_000, mayEndSilent: () => Promise.resolve(true) };

function aStateDir(): string {
  const stateDir = mkdtempSync(path.join(os.tmpdir(), 'lh-supply-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true, force: true, maxRetries: 10 }));
  return stateDir;
}

test.each([
  [['/bin/sh', '-c', 'echo "Error: ENOSPC" >&2; exit 1'], 'ended (exit code 1): Error: ENOSPC'],
  [['/bin/sh', '-c', 'kill -KILL $$'], 'ended (SIGKILL): its log is empty'],
  [['/nowhere/node'], 'ended (spawn /nowhere/node ENOENT)'],
])('a warden that ends before it answers is not waited for: %s', async (command, problem) => {
  const stateDir = aStateDir();
  const source = wardenSource({ stateDir, command, searchPath: '', nowMs: () => 0 });

  await expect(source.supply(createEar(), needs)).rejects.toThrow(problem);
});

/** How often this process has a file open. */
function openCount(file: string): number {
  const links = readdirSync('/proc/self/fd').map((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`);
    } catch {
      return ''; // closed meanwhile
    }
  });
  return links.filter((link) => link === file).length;
}

test('no warden is started where its log cannot be written, and no file stays open', async () => {
  const stateDir = aStateDir();
  symlinkSync('/dev/full', path.join(stateDir, 'warden.log'));
  const command = ['/bin/sh', '-c', 'sleep 30'];
  const source = wardenSource({ stateDir, command, searchPath: '', nowMs: () => 0 });

  await expect(source.supply(createEar(), needs)).rejects.toThrow('ENOSPC');
  expect(openCount('/dev/full')).toBe(0);
});
