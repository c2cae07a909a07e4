import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { createDatabase } from '../migrate.ts';
import { supervisePostgres, type SupervisedPostgresOptions } from './embedded-postgres.ts';

const HOUR_MS = 3_600_000;

interface Setup extends SupervisedPostgresOptions {
  readonly gaveUp: unknown[];
  /** Fulfilled when the first pause is over, and the next start begins. */
  readonly restarted: Promise<void>;
}

/** Time passes only in pauses, each of which lasts an hour. */
async function setUp(): Promise<Setup> {
  const folder = await mkdtemp(join(tmpdir(), 'leasehold-supervised-'));
  onTestFinished(() => rm(folder, { recursive: true, maxRetries: 10 }));
  let nowMs = 0;
  const gaveUp: unknown[] = [];
  let restart = (): void => undefined;
  const restarted = new Promise<void>((resolve) => (restart = resolve));
  return {
    dataDir: join(folder, 'postgres'),
    log: () => undefined,
    gaveUp,
    restarted,
    hooks: {
      restarting: () => undefined,
      restarted: () => undefined,
      gaveUp: (_name, death) => gaveUp.push(death),
    },
    supervision: {
      random: () => 0,
      stop: new AbortController().signal,
      time: {
        nowMs: () => nowMs,
        pause() {
          nowMs += HOUR_MS;
          restart();
          return Promise.resolve();
        },
      },
    },
  };
}

test('H-restart-count: PostgreSQL that is killed once an hour is started again each time', async () => {
  const { gaveUp, ...options } = await setUp();
  const database = await supervisePostgres(options);
  onTestFinished(() => database.stop());

  for (let deaths = 0; deaths < 6; deaths += 1) {
    const { pid } = database;
    process.kill(pid, 'SIGKILL');
    await waitUntil(() => database.pid !== pid || gaveUp.length > 0);
  }

  expect(gaveUp).toEqual([]);
  await expect(createDatabase(database.url('leasehold'))).resolves.toBe(true);
});

test('the port stays the same from start to start; when another program has it, a new one does', async () => {
  const options = await setUp();
  const portFile = join(options.dataDir, 'port');
  // Between a stop and the next start nobody is given this one.
  const port = await freePort();
  await mkdir(options.dataDir, { mode: 0o700 });
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

test('a file without a port does not matter, whatever is in it', async () => {
  const options = await setUp();
  await mkdir(options.dataDir, { mode: 0o700 });
  for (const kept of ['', 'x', '0', '65536', '-1']) {
    await writeFile(join(options.dataDir, 'port'), kept);
    const database = await supervisePostgres(options);
    await database.stop();

    expect(database, kept).toMatchObject({ lostPort: undefined });
  }
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
  const options = await setUp();
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

test('an empty data folder is used', async () => {
  const options = await setUp();
  await mkdir(join(options.dataDir, 'data'), { recursive: true, mode: 0o700 });

  const database = await supervisePostgres(options);
  onTestFinished(() => database.stop());

  await expect(createDatabase(database.url('leasehold'))).resolves.toBe(true);
  expect(database).toMatchObject({ dir: options.dataDir, notice: undefined });
});

test('a stop while PostgreSQL is being restarted leaves no PostgreSQL process', async () => {
  const { restarted, ...options } = await setUp();
  const database = await supervisePostgres(options);
  process.kill(database.pid, 'SIGKILL');
  await restarted;

  await database.stop();

  expect(workersIn(join(options.dataDir, 'data'))).toEqual([]);
});

/** Processes whose working folder is the data folder, as that of every PostgreSQL process is. */
function workersIn(dataDir: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/u.test(pid) && readlinkSync(join('/proc', pid, 'cwd')) === dataDir;
    } catch {
      return false;
    }
  });
}
