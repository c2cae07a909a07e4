import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freePort } from '../network/free-port.ts';
import { programFile } from '../program-file.ts';
import { waitUntil } from '../wait-until.ts';

/** A real PgBouncer of a test's own, in transaction mode, in front of the server of a URL. */
export interface TestPgBouncer {
  /** The same address, through the pooler. */
  readonly url: string;
  /** Sessions that it opens with the server for each database and role, at most. */
  readonly poolSize: number;
  /** `kill -9`, and waits until it is gone. */
  kill(): Promise<void>;
  /** Starts it again, at the same address. */
  restart(): Promise<void>;
  /** Ends it and removes its files. */
  stop(): Promise<void>;
}

export interface PgBouncerOptions {
  /** By default 6, of far more clients. */
  readonly poolSize?: number | undefined;
  /** Further lines of its configuration. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

const HOST = '127.0.0.1';
const POOL_SIZE = 6;
/** It refuses to run as root. */
const NOBODY = ['--reuid', '65534', '--regid', '65534', '--clear-groups'];
const SAID_CHARS_MAX = 4_000;

/** Starts one, and waits until it accepts connections. */
export async function startPgBouncer(
  target: string,
  { poolSize = POOL_SIZE, settings = {} }: PgBouncerOptions = {},
): Promise<TestPgBouncer> {
  const file = programFile('pgbouncer', 'pgbouncer');
  const folder = await mkdtemp(path.join(tmpdir(), 'leasehold-pgbouncer-'));
  const port = await freePort();
  const config = path.join(folder, 'pgbouncer.ini');
  await writeConfig(folder, { target: new URL(target), port, poolSize, settings });
  let child: ChildProcess | undefined;
  let said = '';

  async function launch(): Promise<void> {
    const asUser = process.getuid?.() === 0 ? NOBODY : [];
    // Ended with the process that runs the tests, however that ends.
    const started = spawn('setpriv', ['--pdeathsig', 'KILL', ...asUser, '--', file, config], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child = started;
    started.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-SAID_CHARS_MAX);
    });
    await waitUntil(
      () => {
        if (started.exitCode !== null) throw new Error(`PgBouncer did not start\n${said}`);
        return accepts(port);
      },
      { what: 'PgBouncer accepts connections' },
    );
  }

  async function kill(): Promise<void> {
    const ended = child;
    child = undefined;
    if (ended?.exitCode !== null || ended.signalCode !== null) return;
    ended.kill('SIGKILL');
    await once(ended, 'exit');
  }

  await launch();
  return {
    url: throughPort(target, port),
    poolSize,
    kill,
    restart: launch,
    async stop() {
      await kill();
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

function throughPort(target: string, port: number): string {
  const url = new URL(target);
  [url.hostname, url.port] = [HOST, String(port)];
  return url.href;
}

async function writeConfig(
  folder: string,
  of: Required<PgBouncerOptions> & { readonly target: URL; readonly port: number },
): Promise<void> {
  const { target, port, poolSize, settings } = of;
  const users = path.join(folder, 'users.txt');
  const user = decodeURIComponent(target.username);
  await writeFile(users, `"${user}" "${decodeURIComponent(target.password)}"\n`);
  const lines = Object.entries({
    listen_addr: HOST,
    listen_port: String(port),
    unix_socket_dir: '',
    auth_type: 'scram-sha-256',
    auth_file: users,
    pool_mode: 'transaction',
    default_pool_size: String(poolSize),
    max_client_conn: '500',
    ...settings,
  }).map(([name, value]) => `${name} = ${value}`);
  const databases = `* = host=${target.hostname} port=${target.port}`;
  await writeFile(
    path.join(folder, 'pgbouncer.ini'),
    ['[databases]', databases, '[pgbouncer]', ...lines, ''].join('\n'),
  );
  // For the user that it runs as. The password is that of a test's own database.
  for (const one of [folder, users]) await chmod(one, 0o755);
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, HOST);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
