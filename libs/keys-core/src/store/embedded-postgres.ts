import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chown, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import path from 'node:path';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseError } from '../kernel/errors.ts';
import { findBinaries } from './embedded-postgres/binaries.ts';
import { startFailure } from './embedded-postgres/failures.ts';
import { takeCluster } from './embedded-postgres/ownership.ts';
import { planRun, type RunPlan } from './embedded-postgres/run-as.ts';

/** How to start a PostgreSQL of our own. */
export interface EmbeddedPostgresOptions {
  /** The folder of the cluster. Made if missing; the data in it is used if there is some. */
  readonly dataDir: string;
  /** The TCP port on 127.0.0.1. A free one is chosen unless one is demanded. */
  readonly port?: number | undefined;
  /** `false` loses data in a power cut: for tests only. */
  readonly fsync?: boolean | undefined;
  /** Server settings besides, by name. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** Gets what PostgreSQL writes to its log, line by line, and what the operator should know. */
  readonly log?: ((line: string) => void) | undefined;
}

/** A running PostgreSQL of our own. It ends with this process, whatever ends this process. */
export interface EmbeddedPostgres {
  /** The connection string of one of its databases, with the password. */
  url(database: string): string;
  readonly port: number;
  readonly pid: number;
  /** Fulfilled when the server has ended, for whatever reason. */
  readonly exited: Promise<void>;
  /** Ends its sessions, writes what is to be written, and waits until it is gone. Safe to repeat. */
  stop(): Promise<void>;
  /** `kill -9`, as a crash would. */
  kill(): void;
}

const USER = 'leasehold';
const START_TIMEOUT_MS = 60_000;
const START_POLL_MS = 20;
/** A free port can be taken between the look and the start. */
const PORT_TRIES_MAX = 5;
/** After a crash the last children of the old server may hold its memory for a moment. */
const MEMORY_TRIES_MAX = 50;
const MEMORY_RETRY_MS = 100;
const FAST_STOP_MS = 15_000;
const IMMEDIATE_STOP_MS = 5_000;
const OUTPUT_LINES_MAX = 50;

/**
 * Starts the PostgreSQL that npm installed, on `dataDir`, and returns when it takes connections.
 * Listens on 127.0.0.1 alone; the password lies in `dataDir/password`, which nobody else may read.
 * A server that a killed process left behind on the same data is stopped first.
 *
 * @throws {LeaseError} config.invalid, naming the folder or the port and what to do about it.
 */
export async function startEmbeddedPostgres(
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  const asked = path.resolve(options.dataDir);
  const found = await findBinaries();
  const plan = await orStartFailure(asked, () => planRun(found, asked));
  if (plan.notice) options.log?.(plan.notice);
  const dataDir = path.join(plan.dir, 'data');
  const release = await orStartFailure(plan.dir, () => takeCluster(plan.dir, dataDir));
  try {
    const password = await orStartFailure(plan.dir, () => initialise(plan, dataDir, options));
    const server = await startServer(plan, dataDir, options);
    return running(server, { password, release });
  } catch (error) {
    await release();
    throw error;
  }
}

interface Server {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly port: number;
  readonly exited: Promise<void>;
}

function running(
  server: Server,
  { password, release }: { password: string; release: () => Promise<void> },
): EmbeddedPostgres {
  const { child, pid, port } = server;
  // Where the kernel cannot be asked to end it with us, an orderly exit does.
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
    port,
    pid,
    exited,
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
  // Made beside its place and moved there whole: an interrupted one is not taken for a cluster.
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

async function startServer(
  plan: RunPlan,
  dataDir: string,
  options: EmbeddedPostgresOptions,
): Promise<Server> {
  let portTries = 0;
  let memoryTries = 0;
  for (;;) {
    const port = options.port ?? (await freePort());
    const attempt = await tryStart(plan, dataDir, { ...options, port });
    if ('child' in attempt) return attempt;
    if (/Address already in use|could not create any TCP\/IP sockets/.test(attempt.output)) {
      if (options.port === undefined && ++portTries < PORT_TRIES_MAX) continue;
      throw new LeaseError(
        'config.invalid',
        `The port ${String(port)} of 127.0.0.1 is in use, so PostgreSQL cannot listen on it. Stop what uses it, or choose another port.`,
      );
    }
    if (
      /pre-existing shared memory block/.test(attempt.output) &&
      ++memoryTries < MEMORY_TRIES_MAX
    ) {
      await sleep(MEMORY_RETRY_MS);
      continue;
    }
    throw startFailure(plan.dir, attempt.output);
  }
}

async function tryStart(
  plan: RunPlan,
  dataDir: string,
  options: EmbeddedPostgresOptions & { port: number },
): Promise<Server | { output: string }> {
  const settings = Object.entries(settingsFor(options)).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ]);
  const { child, output } = spawnLogged(
    plan,
    plan.binaries.postgres,
    ['-D', dataDir, ...settings],
    options.log,
  );
  let ended = false;
  const exited = new Promise<void>((resolve) => {
    const end = () => {
      ended = true;
      resolve();
    };
    child.once('close', end);
    child.once('error', end);
  });
  const { pid } = child;
  for (
    let waitedMs = 0;
    !ended && pid !== undefined && waitedMs < START_TIMEOUT_MS;
    waitedMs += START_POLL_MS
  ) {
    if (await saysReady(dataDir, pid)) return { child, pid, port: options.port, exited };
    await Promise.race([exited, sleep(START_POLL_MS)]);
  }
  child.kill('SIGKILL');
  await exited;
  return { output: output() };
}

function settingsFor({ port, fsync = true, settings }: EmbeddedPostgresOptions & { port: number }) {
  return {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    log_checkpoints: 'off',
    ...(fsync ? {} : { fsync: 'off', full_page_writes: 'off' }),
    ...settings,
  };
}

/** The postmaster writes its state into the eighth line of its pid file, for such as us. */
async function saysReady(dataDir: string, pid: number): Promise<boolean> {
  const text = await readFile(path.join(dataDir, 'postmaster.pid'), 'utf8').catch(() => '');
  const lines = text.split('\n');
  return Number(lines[0]) === pid && lines[7]?.trim() === 'ready';
}

function spawnLogged(
  plan: RunPlan,
  program: string,
  programArgs: readonly string[],
  log?: (line: string) => void,
): { child: ChildProcess; output: () => string } {
  const { file, args, options } = plan.command(program, programArgs);
  const child = spawn(file, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const lines: string[] = [];
  child.once('error', (error) => lines.push(error.message));
  for (const stream of [child.stdout, child.stderr]) {
    let rest = '';
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      const parts = (rest + chunk).split('\n');
      rest = parts.pop() ?? '';
      for (const line of parts) {
        lines.push(line);
        if (lines.length > OUTPUT_LINES_MAX) lines.shift();
        log?.(line);
      }
    });
  }
  return { child, output: () => lines.join('\n') };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

async function orStartFailure<T>(dir: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (error instanceof LeaseError) throw error;
    throw startFailure(dir, error instanceof Error ? error.message : String(error), error);
  }
}
