import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findCommand, ownHome, ownUserName } from './processes.ts';

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leasehold-find-'));
  await mkdir(join(folder, 'folder'));
  await writeFile(join(folder, 'tool'), '#!/bin/sh\n');
  await writeFile(join(folder, 'text'), 'text');
  await symlink('loop', join(folder, 'loop'));
  await chmod(join(folder, 'tool'), 0o755);
});

afterAll(() => rm(folder, { recursive: true, maxRetries: 10 }));

describe('findCommand', () => {
  test('finds a name in the folders of PATH: the first file that may be run', () => {
    expect(findCommand('tool', `/nowhere:${folder}`)).toEqual({
      outcome: 'found',
      path: join(folder, 'tool'),
    });
  });

  test('takes a name with a slash for a path', () => {
    expect(findCommand(join(folder, 'tool'), '')).toMatchObject({ outcome: 'found' });
    expect(findCommand('./tool', folder)).toEqual({ outcome: 'not_found' });
  });

  test('passes over entries of PATH that cannot be looked at, as shells do', () => {
    const long = `/${'a'.repeat(300)}`;
    const deep = '/a'.repeat(5_000);
    const looping = join(folder, 'loop');
    const odd = [long, deep, looping, join(folder, 'text'), '/proc/1/root', ''].join(':');

    expect(findCommand('tool', `${odd}:${folder}`)).toEqual({
      outcome: 'found',
      path: join(folder, 'tool'),
    });
    expect(findCommand('nothing', odd)).toEqual({ outcome: 'not_found' });
    expect(findCommand('a'.repeat(300), folder)).toEqual({ outcome: 'not_found' });
  });

  test('takes a path that cannot be looked at, or is a folder, for one that may not be executed', () => {
    const odd = [`./${'a'.repeat(300)}`, join(folder, 'loop', 'tool'), folder];

    for (const path of odd) expect(findCommand(path, '')).toEqual({ outcome: 'not_executable' });
  });

  test('distinguishes a file that may not be executed from one that does not exist', () => {
    expect(findCommand('text', folder)).toEqual({ outcome: 'not_executable' });
    expect(findCommand('folder', folder)).toEqual({ outcome: 'not_found' });
    expect(findCommand('', folder)).toEqual({ outcome: 'not_found' });
  });
});

/** What a container tells that runs as a user that it has no name for. */
const read = (): never => {
  throw new Error(
    'A system error occurred: uv_os_get_passwd returned ENOENT (no such file or directory)',
  );
};

test('a user that the machine has no name for is named by its number', () => {
  expect(ownUserName(read)).toBe(`uid ${String(process.getuid?.())}`);
  expect(ownUserName()).toBe(userInfo().username);
});

test('a user that the machine knows no home of has none', () => {
  expect(ownHome(read)).toEqual({});
  expect(ownHome()).toEqual({ HOME: homedir() });
});
