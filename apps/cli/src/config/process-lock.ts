import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import {
  identityOf,
  isErrorCode,
  isRunning,
  type ProcessIdentity,
} from '../up/processes/process-identity.ts';

/** What came of {@link tryLock}. */
export type LockAnswer =
  | { readonly outcome: 'locked'; readonly unlock: () => void }
  | { readonly outcome: 'held'; readonly owner: ProcessIdentity };

/**
 * Locks a path for this process, until it ends or unlocks it. A lock whose process is gone, also by
 * `kill -9`, is taken over: it names its process so exactly that a later process with the same number
 * is not mistaken for it.
 */
export function tryLock(lockPath: string): LockAnswer {
  const self = identityOf(process.pid) ?? { pid: process.pid, startedAt: null };
  const draftPath = `${lockPath}.${randomUUID()}`;
  writeFileSync(draftPath, JSON.stringify(self), { mode: 0o600 });
  try {
    // `link` fails when the lock exists, and the file is complete from its first moment.
    while (!tryLink(draftPath, lockPath)) {
      const owner = readOwner(lockPath);
      if (owner !== undefined && isRunning(owner)) return { outcome: 'held', owner };
      takeAway(lockPath, owner);
    }
  } finally {
    rmSync(draftPath, { force: true });
  }
  const unlock = (): void => {
    if (readOwner(lockPath)?.pid === process.pid) rmSync(lockPath, { force: true });
  };
  return { outcome: 'locked', unlock };
}

/** The process that holds a lock now. */
export function lockOwner(lockPath: string): ProcessIdentity | undefined {
  const owner = readOwner(lockPath);
  return owner !== undefined && isRunning(owner) ? owner : undefined;
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
