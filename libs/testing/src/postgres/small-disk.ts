import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** A file system of a few megabytes. Only processes that are started with `prefix` see it. */
export interface SmallDisk {
  /** Where it is, for processes that see it. */
  readonly folder: string;
  /** The same folder, for all other processes of this user. */
  readonly outside: string;
  /** Goes before the command line of a process that is to see it. */
  readonly prefix: readonly string[];
  /** Writes until there is no space left. */
  fill(): Promise<void>;
  /** Gives back the space that {@link fill} took. */
  free(): Promise<void>;
  /** Removes it. Processes that use it must have ended. */
  remove(): Promise<void>;
}

const BALLAST = 'ballast';
const CHUNK_BYTES = 64 * 1_024;
/** Mounts it in a namespace that lives for as long as the process does. */
const HOLD =
  'mount -t tmpfs -o "size=$1,mode=1777" tmpfs "$2" && echo mounted && exec sleep infinity';

/**
 * Makes a file system of `megabytes` in memory, in a mount namespace of its own: it is gone with its
 * processes, whatever ends the test. An ordinary user needs user namespaces for it.
 * @throws {Error} that names what this machine lacks.
 */
export async function createSmallDisk(megabytes: number): Promise<SmallDisk> {
  const folder = await mkdtemp(path.join(tmpdir(), 'leasehold-disk-'));
  const isRoot = process.getuid?.() === 0;
  const asUser = isRoot ? [] : ['--user', '--map-current-user', '--keep-caps'];
  const shell = ['sh', '-c', HOLD, 'sh', `${String(megabytes)}m`, folder];
  const holder = spawn('unshare', [...asUser, '--mount', ...shell], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let problem = '';
  holder.stderr.setEncoding('utf8').on('data', (text: string) => (problem += text));
  const exited = once(holder, 'exit');
  await Promise.race([once(holder.stdout, 'data'), exited]);
  if (holder.exitCode !== null) {
    await rm(folder, { recursive: true, maxRetries: 10 });
    throw new Error(
      `this machine allows no mount of ours: run the test as root, or allow user namespaces\n${problem}`,
    );
  }
  const pid = String(holder.pid);
  const userOf = isRoot ? [] : ['--user', '--preserve-credentials'];
  const outside = `/proc/${pid}/root${folder}`;
  return {
    folder,
    outside,
    prefix: ['nsenter', '--target', pid, ...userOf, '--mount', `--wd=${folder}`],
    async fill() {
      const ballast = await open(path.join(outside, BALLAST), 'a');
      try {
        for (const bytes of [CHUNK_BYTES, 1]) await writeUntilFull(ballast, bytes);
      } finally {
        await ballast.close();
      }
    },
    free: () => rm(path.join(outside, BALLAST), { force: true }),
    async remove() {
      holder.kill('SIGKILL');
      await exited;
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

async function writeUntilFull(
  file: Awaited<ReturnType<typeof open>>,
  bytes: number,
): Promise<void> {
  const chunk = Buffer.alloc(bytes);
  for (;;) {
    try {
      await file.write(chunk);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return;
      throw error;
    }
  }
}
