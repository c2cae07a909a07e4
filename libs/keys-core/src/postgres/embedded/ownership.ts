import { link, readFile, readlink, realpath, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LeaseError } from '../../kernel/errors.ts';

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
export async function takeCluster(dir: string, dataDir: string): Promise<() => Promise<void>> {
  const lockFile = path.join(dir, 'owner.json');
  const mine = JSON.stringify(await markOf(process.pid));
  const draft = `${lockFile}.${String(process.pid)}`;
  await writeFile(draft, mine, { mode: 0o600 });
  try {
    while (!(await linked(draft, lockFile))) {
      const found = await readFile(lockFile, 'utf8').catch(() => undefined);
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
 * number in a pid file proves nothing: after a restart it may be any process. Only a process whose
 * working folder is the data folder is taken for the postmaster.
 */
async function clearPostmaster(dataDir: string): Promise<void> {
  const pidFile = path.join(dataDir, 'postmaster.pid');
  const text = await readFile(pidFile, 'utf8').catch(() => undefined);
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

/** Whether the process lives and `dataDir` is its working folder, as a postmaster's is. */
async function worksIn(pid: number, dataDir: string): Promise<boolean> {
  if (!exists(pid)) return false;
  if (process.platform !== 'linux') return true;
  const folder = await readlink(`/proc/${String(pid)}/cwd`).catch(() => undefined);
  return folder === (await realpath(dataDir).catch(() => dataDir));
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
