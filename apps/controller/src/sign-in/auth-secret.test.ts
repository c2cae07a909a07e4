import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { readAuthSecret } from './auth-secret.ts';

let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'auth-secret-'));
  onTestFinished(() => rm(home, { recursive: true, maxRetries: 10 }));
});

test('controllers that start on one home at once agree on one secret, for its owner alone', async () => {
  const secrets = await Promise.all(
    Array.from({ length: 8 }, () => readAuthSecret({ authSecret: null, home })),
  );

  expect(new Set(secrets).size).toBe(1);
  expect(secrets[0]).toMatch(/^[\w-]{43}$/u);
  expect((await stat(join(home, 'auth-secret'))).mode & 0o777).toBe(0o600);
  expect(await readdir(home)).toEqual(['auth-secret']);
  expect(await readAuthSecret({ authSecret: null, home })).toBe(secrets[0]);
});

test('a configured secret is used, and none is written', async () => {
  expect(await readAuthSecret({ authSecret: 'x'.repeat(32), home })).toBe('x'.repeat(32));
  expect(await readdir(home)).toEqual([]);
});

test('a damaged file is refused and left as it is', async () => {
  await writeFile(join(home, 'auth-secret'), 'short');

  await expect(readAuthSecret({ authSecret: null, home })).rejects.toMatchObject({
    code: 'config.invalid',
  });
  expect(await readFile(join(home, 'auth-secret'), 'utf8')).toBe('short');
});
