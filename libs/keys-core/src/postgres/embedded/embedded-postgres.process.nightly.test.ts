import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { freePort, waitUntil } from '@leasehold/testing';
import {
  startEmbeddedPostgres,
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
} from './embedded-postgres.ts';
import { findBinaries } from './run-as.ts';

const run = promisify(execFile);
const isRoot = process.getuid?.() === 0;
const PROGRAM = path.join(import.meta.dirname, 'hold-for-test.ts');

let folder: string;
let cleanups: (() => unknown)[];

beforeEach(async () => {
  // Not the temporary folder of this run: the tests depend on what other users may enter.
  folder = await mkdtemp('/tmp/leasehold-embedded-');
  await chmod(folder, 0o755);
  cleanups = [];
});

afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  await rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

async function start(options: Partial<EmbeddedPostgresOptions> = {}): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({
    dataDir: path.join(folder, 'postgres'),
    fsync: false,
    ...options,
  });
  cleanups.push(() => server.stop());
  return server;
}

describe('the embedded PostgreSQL', () => {
  test('keeps its data from one start to the next', async () => {
    const first = await start();
    await query(first, 'create table kept as select 42 as answer');
    await first.stop();

    const second = await start();

    expect(await query(second, 'select answer from kept')).toEqual([{ answer: 42 }]);
  });

  test('listens only on the loopback address, and asks for the password', async () => {
    const server = await start();
    const wrong = new URL(server.url('postgres'));
    wrong.password = 'wrong';

    expect(await query(server, 'show listen_addresses')).toEqual([
      { listen_addresses: '127.0.0.1' },
    ]);
    expect(await query(server, 'show unix_socket_directories')).toEqual([
      { unix_socket_directories: '' },
    ]);
    await expect(queryAt(wrong.href, 'select')).rejects.toThrow(/password authentication failed/);
  });

  test('keeps the password and the data where nobody else may read them', async () => {
    await start();

    const modes = await Promise.all(
      ['postgres/password', 'postgres/data'].map(
        async (name) => (await stat(path.join(folder, name))).mode & 0o777,
      ),
    );

    expect(modes).toEqual([0o600, 0o700]);
  });

  test('starts again after kill -9 of the server, with what was committed', async () => {
    const first = await start({ fsync: true });
    await query(first, 'create table kept as select 42 as answer');
    first.kill();
    await first.exited;

    const second = await start();

    expect(await query(second, 'select answer from kept')).toEqual([{ answer: 42 }]);
  });

  test('starts although the number in the pid file now belongs to another process', async () => {
    const first = await start();
    await first.stop();
    const pidFile = path.join(folder, 'postgres', 'data', 'postmaster.pid');
    await writeFile(pidFile, `${String(process.pid)}\n${folder}\n0\n1\n\n127.0.0.1\n`);

    const second = await start();

    expect(await query(second, 'select 1 as one')).toEqual([{ one: 1 }]);
  });

  test('stops the orphan of a killed parent, and starts a new server in its place', async () => {
    const parent = await startParent(path.join(folder, 'postgres'));
    const orphanPid = parent.postgresPid;
    // A stopped process cannot end with its parent: it is an orphan until somebody kills it.
    process.kill(orphanPid, 'SIGSTOP');
    parent.child.kill('SIGKILL');
    await once(parent.child, 'exit');
    expect(isAlive(orphanPid)).toBe(true);

    const next = await start();

    expect(next.pid).not.toBe(orphanPid);
    expect(await query(next, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(isAlive(orphanPid)).toBe(false);
  });

  test('ends with its parent, even if that is killed', async () => {
    const parent = await startParent(path.join(folder, 'postgres'));
    parent.child.kill('SIGKILL');

    const gone = await waitUntil(() => !isAlive(parent.postgresPid), {
      what: 'the end of the server whose parent was killed',
    });

    expect(gone).toBe(true);
  });

  test('refuses a data folder that a living process uses, and does not disturb that process', async () => {
    const first = await start();

    await expect(start()).rejects.toMatchObject({
      code: 'config.invalid',
      message: expect.stringContaining(`in use by the process ${String(process.pid)}`) as string,
    });
    expect(await query(first, 'select 1 as one')).toEqual([{ one: 1 }]);
  });

  test('starts over when the first start was interrupted', async () => {
    await mkdir(path.join(folder, 'postgres', 'data.new'), { recursive: true });
    await writeFile(path.join(folder, 'postgres', 'data.new', 'PG_VERSION'), '18\n');
    await writeFile(path.join(folder, 'postgres', 'password'), 'of the start that was cut off');

    const server = await start();

    expect(await query(server, 'select 1 as one')).toEqual([{ one: 1 }]);
  });

  test('names the requested port when it is in use', async () => {
    const blocker = createServer().listen(0, '127.0.0.1');
    await once(blocker, 'listening');
    cleanups.push(() => blocker.close());
    const { port } = blocker.address() as AddressInfo;

    await expect(start({ port })).rejects.toMatchObject({
      code: 'config.invalid',
      message: expect.stringContaining(`port ${String(port)}`) as string,
    });
  });

  test('uses the requested port', async () => {
    const port = await freePort();

    const server = await start({ port });

    expect(server.port).toBe(port);
  });

  test('reports a file that is in the way of its folder', async () => {
    await writeFile(path.join(folder, 'postgres'), '');

    await expect(start()).rejects.toMatchObject({
      code: 'config.invalid',
      message: expect.stringContaining('a file is in the way') as string,
    });
  });
});

describe.runIf(isRoot)('the embedded PostgreSQL, started by root', () => {
  test('runs as an ordinary user', async () => {
    const server = await start();

    const status = await readFile(`/proc/${String(server.pid)}/status`, 'utf8');
    expect(status).not.toMatch(/^Uid:\s+0\s/m);
    expect(status).toMatch(/^CapEff:\s+0+$/m);
  });

  test('reaches its data below a folder that others may not enter', async () => {
    await chmod(folder, 0o700);

    const server = await start();

    const status = await readFile(`/proc/${String(server.pid)}/status`, 'utf8');
    expect(status).not.toMatch(/^Uid:\s+0\s/m);
    expect(await query(server, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect((await stat(path.join(folder, 'postgres', 'data'))).isDirectory()).toBe(true);
  });

  test('runs a copy of its binaries when they are in a folder that others may not enter', async () => {
    const nativeDir = path.join(folder, 'closed', 'native');
    await mkdir(path.dirname(nativeDir), { mode: 0o700 });
    await run('cp', ['-al', (await findBinaries()).nativeDir, nativeDir]);

    const server = await start({ nativeDir });

    const program = await readlink(`/proc/${String(server.pid)}/exe`);
    const open = path.resolve(program, '../../../..');
    cleanups.unshift(() => rm(open, { recursive: true, force: true }));
    expect(program).toMatch(/^\/var\/lib\/leasehold\/[^/]+\/[^/]+\/native\/bin\/postgres$/u);
    expect(await query(server, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect((await stat(path.join(folder, 'postgres', 'data'))).isDirectory()).toBe(true);
  });

  test('puts its data elsewhere when the kernel allows no capability, and reports where', async () => {
    await chmod(folder, 0o700);

    const parent = await startParent(path.join(folder, 'postgres'), CONFINED);

    const { dir, notice } = placeOf(parent);
    expect((await stat(path.join(dir, 'data'))).isDirectory()).toBe(true);
    expect(notice).toContain(`its data is in ${dir}.`);
    expect(parent.lines).toContain(notice);
    await stopParent(parent);
  });

  test('finds the data that it has put elsewhere, also when its binaries are in another folder', async () => {
    await chmod(folder, 0o700);
    const nativeDir = path.join(folder, 'native');
    await run('cp', ['-al', (await findBinaries()).nativeDir, nativeDir]);
    const dataDir = path.join(folder, 'postgres');
    const first = await startParent(dataDir, CONFINED);
    const { dir } = placeOf(first);
    await queryAt(await urlOf(dir), 'create table kept as select 42 as answer');
    await stopParent(first);

    const second = await startParent(dataDir, CONFINED, nativeDir);

    expect(placeOf(second).dir).toBe(dir);
    expect(await queryAt(await urlOf(dir), 'select answer from kept')).toEqual([{ answer: 42 }]);
    await stopParent(second);
  });

  test('stops the orphan of a killed parent though it may not look into processes of other users', async () => {
    const dataDir = path.join(folder, 'postgres');
    const parent = await startParent(dataDir);
    const orphanPid = parent.postgresPid;
    process.kill(orphanPid, 'SIGSTOP');
    parent.child.kill('SIGKILL');
    await once(parent.child, 'exit');

    const next = await startParent(dataDir, ['setpriv', '--bounding-set=-sys_ptrace']);

    expect(next.postgresPid).toBeGreaterThan(0);
    expect(isAlive(orphanPid)).toBe(false);
    await stopParent(next);
  });

  test('runs as an ordinary user if that user starts it', async () => {
    await mkdir(path.join(folder, 'home'));
    await run('chown', ['nobody', path.join(folder, 'home')]);

    const parent = await startParent(path.join(folder, 'home', 'postgres'), AS_NOBODY);

    expect(parent.lines.join('\n')).toContain('ready');
    expect((await stat(path.join(folder, 'home', 'postgres', 'data'))).uid).toBe(await nobody());
    await stopParent(parent);
  });

  test('names the folder that an ordinary user may not write', async () => {
    const parent = await startParent(path.join(folder, 'postgres'), AS_NOBODY);

    expect(parent.lines.join('\n')).toMatch(
      /config\.invalid .*postgres may not be read and written/,
    );
  });

  test.each([
    ['full', 'size=8m', /store\.unavailable The disk that holds .* is full/],
    ['read-only', 'ro', /config\.invalid .* is on a read-only file system/],
  ])('reports that the disk is %s', async (_name, mountOptions, expected) => {
    // In a mount namespace of its own, so that the mount is gone with the process.
    const script = `mount -t tmpfs -o ${mountOptions} tmpfs "${folder}" && exec "$@"`;

    const parent = await startParent(path.join(folder, 'postgres'), [
      'unshare',
      '--mount',
      'sh',
      '-c',
      script,
      'sh',
    ]);

    expect(parent.lines.join('\n')).toMatch(expected);
  });
});

const AS_NOBODY = ['setpriv', '--reuid', 'nobody', '--clear-groups'];
/** As root is in a container, unless it is given more. */
const CONFINED = ['setpriv', '--bounding-set=-dac_read_search', '--inh-caps=-dac_read_search'];

async function nobody(): Promise<number> {
  return Number((await run('id', ['-u', 'nobody'])).stdout);
}

interface Parent {
  readonly child: ChildProcess;
  /** What it printed until it was ready, or until it ended. */
  readonly lines: string[];
  readonly postgresPid: number;
}

/** Starts the server in a process of its own; `prefix` goes before its command line. */
async function startParent(
  dataDir: string,
  prefix: string[] = [],
  nativeDir?: string,
): Promise<Parent> {
  const folders = nativeDir === undefined ? [dataDir] : [dataDir, nativeDir];
  const command = [...prefix, process.execPath, '--import', 'tsx', PROGRAM, ...folders];
  const child = spawn(command[0] ?? '', command.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] });
  cleanups.push(() => child.kill('SIGKILL'));
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => (printed += chunk));
  }
  const ended = once(child, 'exit');
  await Promise.race([
    ended,
    waitUntil(() => /^ready \d/m.test(printed), {
      timeoutMs: 30_000,
      what: 'the start of the server',
    }),
  ]);
  return {
    child,
    lines: printed.split('\n'),
    postgresPid: Number(/^ready (\d+)/m.exec(printed)?.[1]),
  };
}

/** Where the server of a parent has its data, outside of the folder of this test: it is removed after the test. */
function placeOf({ lines }: Parent): { readonly dir: string; readonly notice: string } {
  const told = lines.find((line) => line.startsWith('runs '))?.slice('runs '.length);
  if (told === undefined) throw new Error(`The server does not run:\n${lines.join('\n')}`);
  const place = JSON.parse(told) as { dir: string; notice: string };
  expect(place.dir).toMatch(/^\/var\/lib\/leasehold\/[^/]+\/cluster$/u);
  cleanups.unshift(() => rm(path.dirname(place.dir), { recursive: true, force: true }));
  return place;
}

/** The address of the server that runs on a cluster, by what is kept there. */
async function urlOf(dir: string): Promise<string> {
  const password = await readFile(path.join(dir, 'password'), 'utf8');
  const port = await readFile(path.join(dir, 'port'), 'utf8');
  return `postgresql://leasehold:${password}@127.0.0.1:${port.trim()}/postgres`;
}

async function stopParent({ child, postgresPid }: Parent): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
  await waitUntil(() => !isAlive(postgresPid), { what: 'the end of the server' });
}

/** Whether the process runs; a zombie does not. */
function isAlive(pid: number): boolean {
  try {
    return readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8') !== '';
  } catch {
    return false;
  }
}

function query(server: EmbeddedPostgres, text: string): Promise<unknown[]> {
  return queryAt(server.url('postgres'), text);
}

async function queryAt(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}
