/** Servers of other projects, from the distribution's packages, for the time of a measurement. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, constants } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/** A program and the Debian package that it comes with. */
export interface PeerProgram {
  readonly command: string;
  readonly debianPackage: string;
  /** The service that the package would start from the next boot on. */
  readonly service: string;
}

export interface PeerServer {
  readonly pid: number;
  /** Ends it at once: its data is thrown away. */
  stop(): Promise<void>;
}

const READY_MS_MAX = 10_000;
const LOOK_MS = 50;
const STDERR_CHARS_MAX = 2_000;

/**
 * Where a program is. Installs its package when it is missing and this user may, which takes a
 * minute at most and starts no service. @returns undefined when it is still missing; a line on
 * stderr says what to install.
 */
export async function provide(program: PeerProgram): Promise<string | undefined> {
  const found = await findInPath(program.command);
  if (found !== undefined) return found;
  if (await mayInstall()) {
    process.stderr.write(`installing Debian's ${program.debianPackage} …\n`);
    // The package would start a service of its own; the server here belongs to this run alone.
    const environment = { DEBIAN_FRONTEND: 'noninteractive', SYSTEMD_OFFLINE: '1', RUNLEVEL: '1' };
    const install = ['install', '-y', '--no-install-recommends', program.debianPackage];
    await run('apt-get', ['update'], environment);
    await run('apt-get', install, environment);
    await run('systemctl', ['disable', program.service], environment);
  }
  const installed = await findInPath(program.command);
  if (installed === undefined) {
    process.stderr.write(
      `skipped: ${program.command} is missing; install Debian's ${program.debianPackage}\n`,
    );
  }
  return installed;
}

/** Starts a server and waits until `isReady` is true. @throws when it ends, or does not answer within 10 s. */
export async function startPeerServer(
  file: string,
  args: readonly string[],
  isReady: () => Promise<boolean>,
): Promise<PeerServer> {
  const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-STDERR_CHARS_MAX);
  });
  const ended = once(child, 'exit');
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await ended;
  };
  const endsAtMs = performance.now() + READY_MS_MAX;
  while (!(await isReady())) {
    const isOver = child.exitCode !== null || child.signalCode !== null;
    if (isOver || performance.now() > endsAtMs) {
      await stop();
      throw new Error(`${file} does not answer: ${errors}`);
    }
    await pause(LOOK_MS);
  }
  return { pid: child.pid ?? Number.NaN, stop };
}

/** A port of this machine that nobody uses at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function findInPath(command: string): Promise<string | undefined> {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter);
  for (const folder of [...folders, '/usr/sbin', '/usr/local/sbin']) {
    const file = path.join(folder, command);
    const isThere = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (folder !== '' && isThere) return file;
  }
  return undefined;
}

async function mayInstall(): Promise<boolean> {
  return process.getuid?.() === 0 && (await findInPath('apt-get')) !== undefined;
}

/** A failure shows itself: the program is still missing, or its service is there. */
async function run(command: string, args: readonly string[], env: NodeJS.ProcessEnv) {
  const child = spawn(command, args, {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await once(child, 'exit').catch((error: unknown) => {
    process.stderr.write(`${command}: ${String(error)}\n`);
  });
}
