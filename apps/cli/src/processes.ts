/** Processes of this machine: which one a number means, whose this one is, locks that end with their process, sessions, the terminal and the browser. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  accessSync,
  constants,
  linkSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir, hostname, userInfo } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';

/**
 * One process, told apart from a later one with the same number: the kernel's time of its start,
 * together with the boot that it belongs to. `startedAt` is null where the system does not report
 * it; then only the number identifies the process.
 */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startedAt: string | null;
}

/** The identity of a process that runs now; undefined when it does not exist, or is a zombie. */
export function identityOf(pid: number): ProcessIdentity | undefined {
  if (!isSignalable(pid)) return undefined;
  if (process.platform !== 'linux') return { pid, startedAt: null };
  const fields = statFieldsOf(String(pid));
  if (fields === undefined || isEnded(fields[0] ?? '')) return undefined;
  const bootId = readOrUndefined('/proc/sys/kernel/random/boot_id')?.trim() ?? '';
  return { pid, startedAt: `${bootId}/${fields[19] ?? ''}` };
}

/** What `/proc` says about a process, from its state on; undefined when it says nothing. */
function statFieldsOf(pid: string): string[] | undefined {
  const stat = readOrUndefined(`/proc/${pid}/stat`);
  // The name of the program is in parentheses and may hold anything, also parentheses.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** Whether a process of this state has ended, and is merely not waited for yet. */
function isEnded(state: string): boolean {
  return state === 'Z' || state === 'X';
}

/** Whether this very process runs, not merely one with its number. */
export function isRunning(identity: ProcessIdentity): boolean {
  const now = identityOf(identity.pid);
  return now?.startedAt === identity.startedAt;
}

/** Sends a signal to this very process; does nothing when it is gone. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): void {
  if (!isRunning(identity)) return;
  try {
    process.kill(identity.pid, signal);
  } catch (error) {
    if (!isErrorCode(error, 'ESRCH')) throw error;
  }
}

function isSignalable(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isErrorCode(error, 'EPERM');
  }
}

function readOrUndefined(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** What came of {@link tryLock}. */
type LockAnswer =
  | { readonly outcome: 'locked'; readonly unlock: () => void }
  | { readonly outcome: 'held'; readonly owner: ProcessIdentity };

/**
 * Locks a path for this process, until it ends or unlocks it. A lock whose process is gone, also by
 * `kill -9`, is taken over: it names its process so exactly that a later process with the same number
 * is not mistaken for it.
 * @throws what the system says of a lock that cannot be read: it may be another user's, and held.
 */
export function tryLock(lockPath: string): LockAnswer {
  const self = identityOf(process.pid) ?? { pid: process.pid, startedAt: null };
  const draftPath = `${lockPath}.${randomUUID()}`;
  const text = JSON.stringify(self);
  writeFileSync(draftPath, text, { mode: 0o600 });
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
    if (readOrUndefined(lockPath) === text) rmSync(lockPath, { force: true });
  };
  return { outcome: 'locked', unlock };
}

/** The process that holds a lock now. @throws what the system says of a lock that cannot be read. */
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
  let isJudged = false;
  try {
    isJudged = JSON.stringify(readOwner(asidePath)) === JSON.stringify(judged);
  } finally {
    if (!isJudged) tryLink(asidePath, lockPath);
    rmSync(asidePath, { force: true });
  }
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

/** Undefined without a lock, and of one that says nothing. */
function readOwner(path: string): ProcessIdentity | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (isErrorCode(error, 'ENOENT')) return undefined;
    throw error;
  }
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null) return undefined;
    const { pid, startedAt } = value as Partial<ProcessIdentity>;
    return typeof pid === 'number' ? { pid, startedAt: startedAt ?? null } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Signals every process of the session that `leaderPid` began: its process group at once, and where
 * /proc shows them, those that made groups of their own, as shells with job control do.
 * @returns whether one of them was alive. Where there is no /proc, one that has ended and was not
 * waited for counts as alive.
 */
export function signalSession(leaderPid: number, signal: NodeJS.Signals): boolean {
  const isGroupThere = trySignal(-leaderPid, signal);
  const members = livingMembers(leaderPid);
  if (members === undefined) return isGroupThere;
  for (const { pid, groupId } of members) {
    if (groupId !== leaderPid) trySignal(pid, signal);
  }
  return members.length > 0;
}

interface Member {
  readonly pid: number;
  readonly groupId: number;
}

function livingMembers(leaderPid: number): Member[] | undefined {
  let names: string[];
  try {
    names = readdirSync('/proc').filter((name) => /^\d+$/u.test(name));
  } catch {
    return undefined;
  }
  if (names.length === 0) return undefined;
  return names.flatMap((name) => {
    const [state = '', , groupId, sessionId] = statFieldsOf(name) ?? [];
    if (Number(sessionId) !== leaderPid || isEnded(state)) return [];
    return [{ pid: Number(name), groupId: Number(groupId) }];
  });
}

/** @returns whether there was a process that may be signalled. */
function trySignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    // Gone; or somebody else's, such as what sudo starts.
    if (isErrorCode(error, 'ESRCH') || isErrorCode(error, 'EPERM')) return false;
    throw error;
  }
}

/** Whether an error of the operating system carries this code. */
export function isErrorCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === code;
}

/** What there is under a command's name: a file to run, one that may not be run, or nothing. */
type FoundCommand =
  | { readonly outcome: 'found'; readonly path: string }
  | { readonly outcome: 'not_executable' | 'not_found' };

/**
 * Looks for a command as shells do: a name with a slash is a path, any other is looked up in the
 * folders of `searchPath`. A folder that cannot be searched is passed over; a path that is there, or cannot be
 * looked at, may not be executed.
 */
export function findCommand(name: string, searchPath: string): FoundCommand {
  if (name.includes('/')) {
    const kind = kindOf(name);
    if (kind === 'file' && isExecutable(name)) return { outcome: 'found', path: name };
    return { outcome: kind === 'missing' ? 'not_found' : 'not_executable' };
  }
  const files = searchPath
    .split(delimiter)
    .map((folder) => join(folder === '' ? '.' : folder, name))
    .filter((path) => kindOf(path) === 'file');
  const path = files.find(isExecutable);
  if (path !== undefined) return { outcome: 'found', path };
  return { outcome: files.length > 0 ? 'not_executable' : 'not_found' };
}

function kindOf(path: string): 'file' | 'other' | 'missing' {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return 'missing';
    return found.isFile() ? 'file' : 'other';
  } catch {
    // Such as EACCES, ENAMETOOLONG or ELOOP.
    return 'other';
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The holder of what a command acquires, unless it names another: `ada@build-7`. */
export function ownHolder(): string {
  return `${ownUserName()}@${hostname()}`;
}

/** The name of the user that runs this process, or its number: containers often run as one that has no name. */
export function ownUserName(read: () => { readonly username: string } = userInfo): string {
  try {
    return read().username;
  } catch {
    return `uid ${String(process.getuid?.() ?? 'unknown')}`;
  }
}

/** HOME of the user that runs this process. Nothing, where neither the environment nor the machine knows a home of theirs. */
export function ownHome(read: () => string = homedir): { readonly HOME?: string } {
  try {
    return { HOME: read() };
  } catch {
    return {};
  }
}

/** What opens an address; `xdg-open` on any other system. */
const OPENERS: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  darwin: ['open'],
  win32: ['cmd', '/c', 'start', ''],
};

/** Where there is no browser, the printed address is all. */
export function openInBrowser(url: string): void {
  const [program = '', ...args] = OPENERS[process.platform] ?? ['xdg-open'];
  const opener = spawn(program, [...args, url], { stdio: 'ignore', detached: true });
  opener.on('error', () => undefined);
  opener.unref();
}

/**
 * Reads a line from a terminal without showing what is typed. The end of the input is an empty answer. After
 * Ctrl-C nothing is answered: `interrupted` is called, once the terminal is as it was.
 */
export function readSecret(input: NodeJS.ReadableStream, interrupted: () => void): Promise<string> {
  const output = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input, output, terminal: true });
  return new Promise((resolve) => {
    const answer = (text: string): void => {
      resolve(text);
      lines.close();
    };
    const end = (): void => answer('');
    lines.once('line', answer).once('close', end);
    lines.once('SIGINT', () => {
      lines.off('close', end).close();
      interrupted();
    });
  });
}
