import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '@leasehold/testing';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { supervising, supervisingNew } from '../../testing/supervised-postgres.ts';
import { supervisePostgres } from './embedded-postgres.ts';

/** One cluster for all tests that start it: to make one takes longer than any of them. */
let folder: string;
let dataDir: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leasehold-supervised-'));
  dataDir = join(folder, 'postgres');
  await mkdir(dataDir, { mode: 0o700 });
});

afterAll(() => rm(folder, { recursive: true, maxRetries: 10 }));

test('the port stays the same from start to start; when another program has it, a new one does', async () => {
  const options = supervising(dataDir);
  const portFile = join(dataDir, 'port');
  // Between a stop and the next start nobody is given this one.
  const port = await freePort();
  await writeFile(portFile, String(port));
  const first = await supervisePostgres(options);
  await first.stop();
  const second = await supervisePostgres(options);
  await second.stop();
  const other = createServer();
  onTestFinished(() => void other.close());
  await once(other.listen(port, '127.0.0.1'), 'listening');
  const third = await supervisePostgres(options);
  onTestFinished(() => third.stop());

  expect(first).toMatchObject({ port, lostPort: undefined });
  expect(second).toMatchObject({ port, lostPort: undefined });
  expect(third.lostPort).toBe(port);
  expect(third.port).not.toBe(port);
  // Not by a fourth start: until then somebody else may have been given the new one.
  expect(await readFile(portFile, 'utf8')).toBe(`${String(third.port)}\n`);
});

test.each([
  [
    'that has files and no cluster',
    () => Promise.resolve(),
    /data is not empty, and has no PG_VERSION/u,
  ],
  [
    'whose PG_VERSION cannot be read',
    (data: string) => symlink('PG_VERSION', join(data, 'PG_VERSION')),
    /ELOOP/u,
  ],
])('a data folder %s is refused, and left as it is', async (_what, damage, message) => {
  const options = await supervisingNew();
  const data = join(options.dataDir, 'data');
  await mkdir(data, { recursive: true, mode: 0o700 });
  await writeFile(join(data, 'precious'), 'data');
  await writeFile(join(options.dataDir, 'password'), 'its password');
  await damage(data);

  await expect(supervisePostgres(options)).rejects.toMatchObject({
    code: 'config.invalid',
    message: expect.stringMatching(message) as string,
  });

  expect(await readFile(join(data, 'precious'), 'utf8')).toBe('data');
  expect(await readFile(join(options.dataDir, 'password'), 'utf8')).toBe('its password');
});

test('a stop while PostgreSQL is being restarted leaves no PostgreSQL process', async () => {
  const { restarted, ...options } = supervising(dataDir);
  const database = await supervisePostgres(options);
  onTestFinished(() => database.stop());
  process.kill(database.pid, 'SIGKILL');
  await restarted;

  await database.stop();

  expect(workersIn(join(dataDir, 'data'))).toEqual([]);
});

/** Processes whose working folder is the data folder, as that of every PostgreSQL process is. */
function workersIn(data: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/u.test(pid) && readlinkSync(join('/proc', pid, 'cwd')) === data;
    } catch {
      return false;
    }
  });
}
