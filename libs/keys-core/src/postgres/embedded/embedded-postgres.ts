import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chown, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseError, messageOf } from '../../kernel/errors.ts';
import { binariesIn, findBinaries } from './binaries.ts';
import { startFailure } from './failures.ts';
import { takeCluster } from './ownership.ts';
import { planRun, type RunPlan } from './run-as.ts';
import { spawnLogged, startServer, type Server, type ServerOptions } from './server-process.ts';

/**
 * How to start a PostgreSQL of our own. Only the binaries are those of the package: its class installs signal handlers for
 * the whole process, and handles neither a stale pid file, nor an orphan, nor a folder that its user may not enter.
 */
export interface EmbeddedPostgresOptions extends ServerOptions {
  /** The folder of the cluster. Made if missing; existing data in it is used. */
  readonly dataDir: string;
  /** Another PostgreSQL of this machine: the folder that holds its `bin`. */
  readonly nativeDir?: string | undefined;
}

/** A running PostgreSQL of our own. It ends with this process, however that ends. */
export interface EmbeddedPostgres {
  /** The connection string of one of its databases, with the password. */
  url(database: string): string;
  readonly port: number;
  /** The port of the start before, if another program has it now. */
  readonly lostPort: number | undefined;
  readonly pid: number;
  /** Fulfilled when the server has ended, for any reason. */
  readonly exited: Promise<void>;
  /** Ends its sessions, writes what is to be written, and waits until it is gone. Safe to repeat. */
  stop(): Promise<void>;
  /** `kill -9`, as a crash would. */
  kill(): void;
}

const USER = 'leasehold';
const FAST_STOP_MS = 15_000;
const IMMEDIATE_STOP_MS = 5_000;

/**
 * Starts the PostgreSQL that npm installed, on `dataDir`, and returns when it accepts connections.
 * Listens only on 127.0.0.1; the password is in `dataDir/password`, which nobody else may read.
 * Its port stays the same from start to start, unless another program has it: `dataDir/port` keeps it.
 * A server that a killed process left behind on the same data is stopped first.
 *
 * @throws {LeaseError} config.invalid, naming the folder or the port and what to do about it;
 * store.unavailable when the disk is full, see `isDiskFull`.
 */
export async function startEmbeddedPostgres(
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  const asked = path.resolve(options.dataDir);
  const found =
    options.nativeDir === undefined ? await findBinaries() : binariesIn(options.nativeDir);
  const plan = await orStartFailure(asked, () => planRun(found, asked));
  if (plan.notice) options.log?.(plan.notice);
  const dataDir = path.join(plan.dir, 'data');
  const release = await orStartFailure(plan.dir, () => takeCluster(plan.dir, dataDir));
  try {
    const password = await orStartFailure(plan.dir, () => initialise(plan, dataDir, options));
    const portFile = path.join(plan.dir, 'port');
    const formerPort = await readPort(portFile);
    const server = await startServer(plan, dataDir, { ...options, formerPort });
    const { port } = server;
    if (port !== formerPort) {
      await orStartFailure(plan.dir, () => writeFile(portFile, `${String(port)}\n`));
    }
    const isLost = options.port === undefined && formerPort !== undefined && port !== formerPort;
    return running(server, { password, release, lostPort: isLost ? formerPort : undefined });
  } catch (error) {
    await release();
    throw error;
  }
}

function running(
  server: Server,
  {
    password,
    release,
    lostPort,
  }: { password: string; release: () => Promise<void>; lostPort: number | undefined },
): EmbeddedPostgres {
  const { child, pid, port } = server;
  // Where the kernel cannot end it with us, an orderly exit of this process does.
  const endWithUs = () => child.kill('SIGINT');
  process.once('exit', endWithUs);
  const exited = server.exited.then(async () => {
    process.off('exit', endWithUs);
    await release();
  });
  const endsWithin = (ms: number) =>
    Promise.race([exited.then(() => true), sleep(ms, false, { ref: false })]);
  return {
    url: (database) =>
      `postgresql://${USER}:${password}@127.0.0.1:${String(port)}/${encodeURIComponent(database)}`,
    ...{ port, lostPort, pid, exited },
    async stop() {
      child.kill('SIGINT');
      if (await endsWithin(FAST_STOP_MS)) return;
      child.kill('SIGQUIT');
      if (await endsWithin(IMMEDIATE_STOP_MS)) return;
      child.kill('SIGKILL');
      await exited;
    },
    kill: () => child.kill('SIGKILL'),
  };
}

const PORT_MAX = 65_535;

/** The port of the last start; undefined for a file that has no port. */
async function readPort(file: string): Promise<number | undefined> {
  const text = await readFile(file, 'utf8').catch(() => '');
  const port = /^\d{1,5}\n?$/u.test(text) ? Number(text) : 0;
  return port > 0 && port <= PORT_MAX ? port : undefined;
}

/** Makes the cluster unless there is one. @returns its password. */
async function initialise(
  plan: RunPlan,
  dataDir: string,
  { fsync = true }: EmbeddedPostgresOptions,
): Promise<string> {
  const passwordFile = path.join(plan.dir, 'password');
  if (await stat(path.join(dataDir, 'PG_VERSION')).catch(() => undefined)) {
    return readFile(passwordFile, 'utf8');
  }
  const password = randomBytes(24).toString('base64url');
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (plan.user) await chown(passwordFile, plan.user.uid, plan.user.gid);
  // Made beside its place and then renamed: an interrupted one is not taken for a cluster.
  const draft = path.join(plan.dir, 'data.new');
  await rm(draft, { recursive: true, force: true });
  const { child, output } = spawnLogged(
    plan,
    plan.binaries.initdb,
    [
      ['--pgdata', draft],
      ['--username', USER],
      ['--pwfile', passwordFile],
      ['--auth', 'scram-sha-256'],
      ['--encoding', 'UTF8'],
      ['--locale', 'C'],
      fsync ? [] : ['--no-sync'],
    ].flat(),
  );
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw startFailure(plan.dir, output());
  await rm(dataDir, { recursive: true, force: true });
  await rename(draft, dataDir);
  return password;
}

async function orStartFailure<T>(dir: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (error instanceof LeaseError) throw error;
    throw startFailure(dir, messageOf(error), error);
  }
}
