import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findCommand } from './find-command.ts';

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leasehold-find-'));
  await mkdir(join(folder, 'folder'));
  await writeFile(join(folder, 'tool'), '#!/bin/sh\n');
  await writeFile(join(folder, 'text'), 'text');
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

  test('distinguishes a file that may not be executed from one that does not exist', () => {
    expect(findCommand('text', folder)).toEqual({ outcome: 'not_executable' });
    expect(findCommand('folder', folder)).toEqual({ outcome: 'not_found' });
    expect(findCommand('', folder)).toEqual({ outcome: 'not_found' });
  });
});
