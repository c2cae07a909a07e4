import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findPrevious } from './find-previous.ts';
import recorded from './previous.json' with { type: 'json' };

const AUTHOR = ['-c', 'user.name=a test', '-c', 'user.email=test@leasehold.example'];

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-previous-'));
  await git('init', '--quiet');
});
afterEach(() => rm(folder, { recursive: true }));

async function git(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('git', [...AUTHOR, ...args], { cwd: folder });
  return stdout.trim();
}

async function commit(): Promise<string> {
  await git('commit', '--quiet', '--allow-empty', '--message=a commit');
  return git('rev-parse', 'HEAD');
}

describe('the previous version', () => {
  test('is the newest tag before this commit, on the commit of a release too', async () => {
    await commit();
    const former = await commit();
    await git('tag', '--annotate', '--message=a release', 'v0.1.0');
    await commit();
    await git('tag', '--annotate', '--message=a release', 'v0.2.0');

    expect(await findPrevious(folder)).toEqual({ name: 'v0.1.0', commit: former });
  });

  test('is the recorded commit without a tag, and if the clone lacks it, the error tells how to get it', async () => {
    await commit();
    await commit();

    await expect(findPrevious(folder)).rejects.toThrow(
      new RegExp(`commit ${recorded.commit}\\).*git fetch --unshallow --tags`, 'u'),
    );
  });

  test('of this clone can be found', async () => {
    expect((await findPrevious()).commit).toMatch(/^[0-9a-f]{40}$/u);
  });
});
