import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  chooseSocketPath,
  readWardenRecord,
  writeAgentRecord,
  writeWardenRecord,
} from './records.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'lh-path-'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

describe("the warden's socket", () => {
  test('is in the state folder, which is for its owner alone', () => {
    const stateDir = path.join(folder, 'state');

    expect(chooseSocketPath(stateDir)).toBe(path.join(stateDir, 'warden.sock'));
    expect(statSync(stateDir).mode & 0o777).toBe(0o700);
  });

  test('is in a short private folder when the state folder is too deep for the kernel', () => {
    vi.stubEnv('TMPDIR', folder);
    const deep = path.join(folder, 'deep/'.repeat(30));
    const socketPath = chooseSocketPath(deep);

    expect(Buffer.byteLength(socketPath)).toBeLessThan(108);
    expect(statSync(path.dirname(socketPath)).mode & 0o777).toBe(0o700);
    expect(chooseSocketPath(deep)).toBe(socketPath);
  });

  test('is in another folder where the name is taken by somebody else', () => {
    vi.stubEnv('TMPDIR', folder);
    const deep = path.join(folder, 'deep/'.repeat(30));
    const taken = path.dirname(chooseSocketPath(deep));
    rmSync(taken, { recursive: true });
    writeFileSync(taken, '');

    const socketPath = chooseSocketPath(deep);

    expect(path.dirname(socketPath)).not.toBe(taken);
    expect(statSync(path.dirname(socketPath)).mode & 0o777).toBe(0o700);
  });

  test('is found again by its record, and a record that cannot be read is ignored', () => {
    const record = { socketPath: '/x/warden.sock', clockId: 'c1', pid: 7, secret: 's' };
    expect(readWardenRecord(folder)).toBeUndefined();

    writeWardenRecord(folder, record);
    expect(readWardenRecord(folder)).toEqual(record);

    writeFileSync(path.join(folder, 'warden.json'), '{"socketPath":');
    expect(readWardenRecord(folder)).toBeUndefined();
  });
});

test('a record that cannot be written leaves no draft', () => {
  mkdirSync(path.join(folder, 'agent.json'));

  const write = (): void => writeAgentRecord(folder, { pid: 1, version: '1', build: null });

  expect(write).toThrow('agent.json');
  expect(readdirSync(folder)).toEqual(['agent.json']);
});
