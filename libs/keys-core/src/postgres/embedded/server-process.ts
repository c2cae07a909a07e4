import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseError } from '../../kernel/errors.ts';
import { isDiskFull } from '../database-errors.ts';
import type { RunPlan } from './run-as.ts';

/** A postmaster that accepts connections. */
export interface Server {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly port: number;
  /** Fulfilled when it has ended. */
  readonly exited: Promise<void>;
}

export interface ServerOptions {
  /** The TCP port on 127.0.0.1. By default that of the last start on the same data, or a free one. */
  readonly port?: number | undefined;
  /** `false` loses data in a power cut: for tests only. */
  readonly fsync?: boolean | undefined;
  /** More server settings, by name. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** Gets what PostgreSQL writes to its log, line by line, and what the operator should know. */
  readonly log?: ((line: string) => void) | undefined;
  /** Aborts a start in progress; a running server is not affected. */
  readonly signal?: AbortSignal | undefined;
}

const START_TIMEOUT_MS = 60_000;
const START_POLL_MS = 20;
/** A free port can be taken between the check and the start. */
const PORT_TRIES_MAX = 5;
const ADDRESS_IN_USE = /Address already in use|could not create any TCP\/IP sockets/;
/** After a crash the last children of the old server may hold its memory for a moment. */
const MEMORY_TRIES_MAX = 50;
const MEMORY_RETRY_MS = 100;
const OUTPUT_LINES_MAX = 50;

/**
 * Starts the server on an initialised `dataDir`, and returns when it accepts connections.
 *
 * @throws {LeaseError} config.invalid, naming the port or the folder; store.unavailable when the disk
 * is full.
 */
export async function startServer(
  plan: RunPlan,
  dataDir: string,
  options: ServerOptions & { readonly formerPort?: number | undefined },
): Promise<Server> {
  let { formerPort } = options;
  let portTries = 0;
  let memoryTries = 0;
  for (;;) {
    const port = options.port ?? formerPort ?? (await freePort());
    const attempt = await tryStart(plan, dataDir, { ...options, port });
    if ('child' in attempt) return attempt;
    if (ADDRESS_IN_USE.test(attempt.output)) {
      formerPort = undefined;
      if (options.port === undefined && ++portTries < PORT_TRIES_MAX) continue;
      throw new LeaseError(
        'config.invalid',
        `The port ${String(port)} of 127.0.0.1 is in use, so PostgreSQL cannot listen on it. Stop what uses it, or choose another port.`,
      );
    }
    if (
      attempt.output.includes('pre-existing shared memory block') &&
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
  options: ServerOptions & { port: number },
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
  const exited = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
    child.once('error', () => resolve());
  });
  const { pid } = child;
  for (
    let waitedMs = 0;
    pid !== undefined &&
    options.signal?.aborted !== true &&
    child.exitCode === null &&
    child.signalCode === null &&
    waitedMs < START_TIMEOUT_MS;
    waitedMs += START_POLL_MS
  ) {
    if (await saysReady(dataDir, pid)) return { child, pid, port: options.port, exited };
    await Promise.race([exited, sleep(START_POLL_MS)]);
  }
  child.kill('SIGKILL');
  await exited;
  return { output: output() };
}

function settingsFor({ port, fsync = true, settings }: ServerOptions & { port: number }) {
  return {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    log_checkpoints: 'off',
    ...(fsync ? {} : { fsync: 'off', full_page_writes: 'off' }),
    ...settings,
  };
}

/** The postmaster writes its state into the eighth line of its pid file, for programs like this one. */
async function saysReady(dataDir: string, pid: number): Promise<boolean> {
  const text = await readFile(path.join(dataDir, 'postmaster.pid'), 'utf8').catch(() => '');
  const lines = text.split('\n');
  return Number(lines[0]) === pid && lines[7]?.trim() === 'ready';
}

/** Starts a program of PostgreSQL; the end of its output is kept for error messages. */
export function spawnLogged(
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
    stream.setEncoding('utf8').on('data', (chunk: string) => {
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

const MOVE =
  'or put LEASEHOLD_HOME somewhere else, or point DATABASE_URL at a PostgreSQL 15 or newer';

const REASONS: readonly { pattern: RegExp; say: (dir: string) => string }[] = [
  {
    pattern: /EROFS|Read-only file system/,
    say: (dir) => `${dir} is on a read-only file system. Make it writable, ${MOVE}.`,
  },
  {
    pattern: /EACCES|EPERM|Permission denied|Operation not permitted|has wrong ownership/,
    say: (dir) => `${dir} may not be read and written by this user. Give it to this user, ${MOVE}.`,
  },
  {
    pattern: /ENOTDIR|EEXIST|Not a directory/,
    say: (dir) => `${dir} cannot be a folder: a file is in the way. Move it, ${MOVE}.`,
  },
  {
    pattern: /database files are incompatible with server/,
    say: (dir) =>
      `${dir} was written by another major version of PostgreSQL. Dump it with that version and load it into a new folder, ${MOVE}.`,
  },
];

/**
 * The error for the folder `dir`, with a message that says what to do. `output` is what
 * the program printed, or the text of the failed call.
 */
export function startFailure(dir: string, output: string, given?: unknown): LeaseError {
  const cause = given ?? new Error(output);
  if (isDiskFull(cause)) {
    const message = `The disk that holds ${dir} is full. Free some space, ${MOVE}.`;
    return new LeaseError('store.unavailable', message, { cause });
  }
  const reason = REASONS.find(({ pattern }) => pattern.test(output));
  const message = reason
    ? reason.say(dir)
    : `The embedded PostgreSQL in ${dir} did not start: ${lastLines(output)}`;
  return new LeaseError('config.invalid', message, { cause });
}

function lastLines(output: string): string {
  const lines = output.trim().split('\n').slice(-3);
  return lines.join(' ') || 'it printed nothing.';
}
