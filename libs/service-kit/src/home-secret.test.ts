import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { AUTH_SECRET, readHomeSecret } from './environment.ts';

let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'home-secret-'));
  onTestFinished(() => rm(home, { recursive: true, maxRetries: 10 }));
});

test('processes that start on one home at once agree on one secret, for its owner alone', async () => {
  const secrets = await Promise.all(
    Array.from({ length: 8 }, () => readHomeSecret(AUTH_SECRET, { configured: null, home })),
  );

  expect(new Set(secrets).size).toBe(1);
  expect(secrets[0]).toMatch(/^[\w-]{43}$/u);
  expect((await stat(join(home, 'auth-secret'))).mode & 0o777).toBe(0o600);
  expect(await readdir(home)).toEqual(['auth-secret']);
  expect(await readHomeSecret(AUTH_SECRET, { configured: null, home })).toBe(secrets[0]);
});

test('a configured secret is used, and none is written', async () => {
  expect(await readHomeSecret(AUTH_SECRET, { configured: 'x'.repeat(32), home })).toBe(
    'x'.repeat(32),
  );
  expect(await readdir(home)).toEqual([]);
});

test('a damaged file is refused and left as it is', async () => {
  await writeFile(join(home, 'auth-secret'), 'short');

  await expect(readHomeSecret(AUTH_SECRET, { configured: null, home })).rejects.toThrow(
    'cannot be used (it is damaged): set LEASEHOLD_AUTH_SECRET',
  );
  expect(await readFile(join(home, 'auth-secret'), 'utf8')).toBe('short');
});
