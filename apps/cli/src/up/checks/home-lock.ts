import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { refusal } from '../../failures/failure.ts';
import {
  identityOf,
  isErrorCode,
  isRunning,
  type ProcessIdentity,
} from '../processes/process-identity.ts';

/**
 * Makes this process the one `leasehold up` of a home directory, until it ends or calls the
 * returned function. A lock whose process is gone, also by `kill -9`, is taken over: it names its
 * process so exactly that a later process with the same number is not mistaken for it.
 *
 * @throws {CliFailure} `up.running` when another one runs.
 */
export function lockHome(home: string): () => void {
  const lockPath = join(home, 'up.lock');
  const self = identityOf(process.pid) ?? { pid: process.pid, startedAt: null };
  const draftPath = join(home, `up.lock.${randomUUID()}`);
  writeFileSync(draftPath, JSON.stringify(self), { mode: 0o600 });
  try {
    // `link` fails when the lock exists, and the file is complete from its first moment.
    while (!tryLink(draftPath, lockPath)) {
      const owner = readOwner(lockPath);
      if (owner !== undefined && isRunning(owner)) throw alreadyRunning(home, owner);
      takeAway(lockPath, owner);
    }
  } finally {
    rmSync(draftPath, { force: true });
  }
  return () => {
    if (readOwner(lockPath)?.pid === process.pid) rmSync(lockPath, { force: true });
  };
}

/** Whether a `leasehold up` of this home runs now. */
export function runningUpOf(home: string): ProcessIdentity | undefined {
  const owner = readOwner(join(home, 'up.lock'));
  return owner !== undefined && isRunning(owner) ? owner : undefined;
}

function alreadyRunning(home: string, owner: ProcessIdentity): Error {
  return refusal(
    'up.running',
    `leasehold up runs already for ${home}, as process ${String(owner.pid)}.`,
    'Use that one, end it with Ctrl-C, or set LEASEHOLD_HOME to another directory.',
  );
}

/**
 * Removes a lock that was judged to be dead. By renaming, so that only one of two processes that
 * judged so removes it; the renamed lock is read again, because a third process may have locked in
 * between: then it gets its lock back.
 */
function takeAway(lockPath: string, judged: ProcessIdentity | undefined): void {
  const asidePath = `${lockPath}.${randomUUID()}`;
  try {
    renameSync(lockPath, asidePath);
  } catch (error) {
    if (isErrorCode(error, 'ENOENT')) return;
    throw error;
  }
  const taken = readOwner(asidePath);
  if (JSON.stringify(taken) !== JSON.stringify(judged)) tryLink(asidePath, lockPath);
  rmSync(asidePath, { force: true });
}

function tryLink(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (isErrorCode(error, 'EEXIST')) return false;
    throw error;
  }
}

function readOwner(path: string): ProcessIdentity | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (typeof value !== 'object' || value === null) return undefined;
    const { pid, startedAt } = value as Partial<ProcessIdentity>;
    return typeof pid === 'number' ? { pid, startedAt: startedAt ?? null } : undefined;
  } catch {
    return undefined;
  }
}
