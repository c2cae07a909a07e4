import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  chown,
  link,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  writeFile,
} from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  deathOf,
  failedStart,
  keepRunning,
  type Running,
  type RunningHooks,
  type Start,
  type Supervision,
} from '@leasehold/service-kit/supervision';
import { LeaseError, messageOf } from '../../kernel/errors.ts';
import { binariesIn, findBinaries, planRun, type RunPlan } from './run-as.ts';
import {
  type Server,
  type ServerOptions,
  spawnLogged,
  startFailure,
  startServer,
} from './server-process.ts';

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
  /** The folder of the cluster: the requested one, unless only root can reach that. */
  readonly dir: string;
  /** What the operator should know where it is not the requested one. */
  readonly notice: string | undefined;
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
 * Where only root can reach that folder the data is elsewhere: see `dir` and `notice` of what is returned.
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
    return running(server, { plan, password, release, lostPort: isLost ? formerPort : undefined });
  } catch (error) {
    await release();
    throw error;
  }
}

function running(
  server: Server,
  {
    plan,
    password,
    release,
    lostPort,
  }: {
    plan: RunPlan;
    password: string;
    release: () => Promise<void>;
    lostPort: number | undefined;
  },
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
    dir: plan.dir,
    notice: plan.notice,
    url: (database) =>
      `postgresql://${USER}:${password}@127.0.0.1:${String(port)}/${encodeURIComponent(database)}`,
    port,
    lostPort,
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

const PORT_MAX = 65_535;

/** The port of the last start; undefined for a file that has no port. */
async function readPort(file: string): Promise<number | undefined> {
  const text = await readFile(file, 'utf8').catch(() => '');
  const port = /^\d{1,5}\n?$/u.test(text) ? Number(text) : 0;
  return port > 0 && port <= PORT_MAX ? port : undefined;
}

/**
 * Creates the cluster if the data folder is missing or empty, and never removes a file from it.
 * @returns the password of its superuser.
 * @throws {LeaseError} `config.invalid` for a folder with other files.
 */
async function initialise(
  plan: RunPlan,
  dataDir: string,
  { fsync = true }: EmbeddedPostgresOptions,
): Promise<string> {
  const passwordFile = path.join(plan.dir, 'password');
  if (await stat(path.join(dataDir, 'PG_VERSION')).catch(noneIfMissing)) {
    return readFile(passwordFile, 'utf8');
  }
  const found = await readdir(dataDir).catch(noneIfMissing);
  if (found !== undefined && found.length > 0) throw notACluster(dataDir);
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
  // Fails if anything is in it by now.
  await rmdir(dataDir).catch(noneIfMissing);
  await rename(draft, dataDir);
  return password;
}

function notACluster(dataDir: string): LeaseError {
  return new LeaseError(
    'config.invalid',
    `${dataDir} is not empty, and has no PG_VERSION, which every PostgreSQL has: nothing was made there, and nothing removed. ` +
      'Put a backup of it back, or move it away to start without data.',
  );
}

/** For a file that is not there. Any other failure, as of a disk, does not show that. */
function noneIfMissing(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
  throw error;
}

async function orStartFailure<T>(dir: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (error instanceof LeaseError) throw error;
    throw startFailure(dir, messageOf(error), error);
  }
}

/** A process, distinguishable from a later one with the same number. */
interface ProcessMark {
  readonly pid: number;
  /** Its start in kernel ticks since boot; null where the system does not show it. */
  readonly startedAt: string | null;
}

const ORPHAN_STOP_MS = 10_000;

/**
 * Takes the cluster in `dir` for this process. The mark of a dead process is replaced; a
 * postgres that it left behind on `dataDir` is stopped first.
 *
 * @returns a function that releases it.
 * @throws {LeaseError} config.invalid when a living process has it.
 */
async function takeCluster(dir: string, dataDir: string): Promise<() => Promise<void>> {
  const lockFile = path.join(dir, 'owner.json');
  const mine = JSON.stringify(await markOf(process.pid));
  const draft = `${lockFile}.${String(process.pid)}`;
  await writeFile(draft, mine, { mode: 0o600 });
  try {
    while (!(await linked(draft, lockFile))) {
      const found = await readFile(lockFile, 'utf8').catch(noneIfMissing);
      if (found === undefined) continue;
      const owner = parseMark(found);
      if (owner && (await isAlive(owner))) throw inUse(dir, owner.pid);
      // Remove the mark only if it is still that of the dead process.
      if ((await readFile(lockFile, 'utf8').catch(() => '')) === found) {
        await rm(lockFile, { force: true });
      }
    }
  } finally {
    await rm(draft, { force: true });
  }
  const release = async () => {
    if ((await readFile(lockFile, 'utf8').catch(() => '')) === mine) {
      await rm(lockFile, { force: true });
    }
  };
  try {
    await clearPostmaster(dataDir);
  } catch (error) {
    await release();
    throw error;
  }
  return release;
}

function inUse(dir: string, pid: number): LeaseError {
  return new LeaseError(
    'config.invalid',
    `The embedded PostgreSQL in ${dir} is in use by the process ${String(pid)}. ` +
      'Stop that one first, or give this one a LEASEHOLD_HOME of its own.',
  );
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/**
 * Leaves `dataDir` without a postmaster and without a pid file that would keep a new one away. A
 * number in a pid file proves nothing: after a restart it may be any process. Only a process that
 * {@link worksIn} the data folder is taken for the postmaster.
 */
async function clearPostmaster(dataDir: string): Promise<void> {
  const pidFile = path.join(dataDir, 'postmaster.pid');
  const text = await readFile(pidFile, 'utf8').catch(noneIfMissing);
  if (text === undefined) return;
  const pid = Number.parseInt(text, 10);
  if (pid > 1 && (await worksIn(pid, dataDir))) await stopOrphan(pid, dataDir);
  await rm(pidFile, { force: true });
}

async function stopOrphan(pid: number, dataDir: string): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    try {
      process.kill(pid, signal);
      // A stopped process (SIGSTOP) handles signals only when it continues.
      process.kill(pid, 'SIGCONT');
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'ESRCH') return;
      throw new LeaseError(
        'config.invalid',
        `A PostgreSQL (process ${String(pid)}) of another user still runs on ${dataDir}. Stop it first.`,
        { cause },
      );
    }
    for (let waitedMs = 0; waitedMs < ORPHAN_STOP_MS; waitedMs += 20) {
      if (!(await worksIn(pid, dataDir))) return;
      await sleep(20);
    }
  }
}

/**
 * Whether the process lives and `dataDir` is its working folder, as a postmaster's is. Where that is hidden, as from the
 * root of a container, which may not look into processes of other users, its command line tells.
 */
async function worksIn(pid: number, dataDir: string): Promise<boolean> {
  if (!exists(pid)) return false;
  if (process.platform !== 'linux') return true;
  const folder = await readlink(`/proc/${String(pid)}/cwd`).catch((error: unknown) => {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? undefined : namedFolder(pid);
  });
  return folder === (await realpath(dataDir).catch(() => dataDir));
}

/** The data folder in the command line of a PostgreSQL; undefined for any other process. */
async function namedFolder(pid: number): Promise<string | undefined> {
  const line = await readFile(`/proc/${String(pid)}/cmdline`, 'utf8').catch(() => '');
  const [program = '', flag, folder] = line.split('\0');
  if (path.basename(program) !== 'postgres' || flag !== '-D' || !folder) return undefined;
  return realpath(folder).catch(() => folder);
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function isAlive(mark: ProcessMark): Promise<boolean> {
  if (!exists(mark.pid)) return false;
  return mark.startedAt === null || (await markOf(mark.pid)).startedAt === mark.startedAt;
}

async function markOf(pid: number): Promise<ProcessMark> {
  const stat = await readFile(`/proc/${String(pid)}/stat`, 'utf8').catch(() => '');
  // The name before the last `)` may contain spaces; the start is the 20th field after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // A zombie owns nothing.
  if (fields[0] === 'Z') return { pid, startedAt: 'ended' };
  return { pid, startedAt: fields[19] ?? null };
}

function parseMark(text: string): ProcessMark | undefined {
  try {
    return JSON.parse(text) as ProcessMark;
  } catch {
    return undefined;
  }
}

/** How many severe lines of its log are kept to explain its death. */
const LINES_KEPT = 20;
/** Severe lines: those of PostgreSQL's levels above a warning. */
const SEVERE = /\b(?:ERROR|FATAL|PANIC): /u;
const UP_POLL_MS = 100;

export interface SupervisedPostgresOptions {
  /** The folder of the cluster, see {@link startEmbeddedPostgres}. */
  readonly dataDir: string;
  /** Gets what PostgreSQL writes to its log, line by line. */
  readonly log: (line: string) => void;
  readonly hooks: RunningHooks;
  readonly supervision: Supervision;
}

/**
 * Starts PostgreSQL and keeps it running: when it dies it is started again on the same data and the
 * same port, so that clients can simply reconnect.
 * @throws {LeaseError} `config.invalid` when it cannot be started; `store.unavailable` while its disk
 * is full.
 */
export async function supervisePostgres(options: SupervisedPostgresOptions) {
  const { dataDir, log, hooks, supervision } = options;
  const stopping = new AbortController();
  const signal = AbortSignal.any([stopping.signal, supervision.stop]);
  let severeLines: string[] = [];
  let isUp = false;

  async function start(port?: number): Promise<EmbeddedPostgres> {
    severeLines = [];
    const started = await startEmbeddedPostgres({
      dataDir,
      port,
      signal,
      log(line) {
        log(line);
        if (SEVERE.test(line)) severeLines = [...severeLines, line].slice(-LINES_KEPT);
      },
    });
    isUp = true;
    return started;
  }

  const running = (): Running => ({
    stop: () => postgres.stop(),
    ended: postgres.exited.then(() => {
      isUp = false;
      return deathOf('ended', severeLines);
    }),
  });

  async function startAgain(): Promise<Start> {
    try {
      postgres = await start(postgres.port);
      return { outcome: 'running', running: running() };
    } catch (error) {
      return { outcome: 'died', death: failedStart(error) };
    }
  }

  let postgres = await start();
  const kept = keepRunning(running(), {
    name: 'PostgreSQL',
    start: startAgain,
    supervision,
    hooks,
    stopping: stopping.signal,
  });
  return {
    dir: postgres.dir,
    notice: postgres.notice,
    /** The connection string of one of its databases; the same after each restart. */
    url: (database: string): string => postgres.url(database),
    port: postgres.port,
    lostPort: postgres.lostPort,
    /** Of the process that runs now, or ran last. */
    get pid() {
      return postgres.pid;
    },
    /** Fulfilled when it runs, or the signal aborts. */
    async untilUp(waiter: AbortSignal): Promise<void> {
      while (!isUp && !waiter.aborted) await supervision.time.pause(UP_POLL_MS, waiter);
    },
    /** Ends it, also while it is being started again. */
    async stop(): Promise<void> {
      stopping.abort();
      await postgres.stop();
      await kept;
    },
  };
}
