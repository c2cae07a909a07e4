import { closeSync, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';

/**
 * Whether any process of a backend is still there. `gone` is reported only by this: the process that
 * the warden started may end before the namespace that it made is empty.
 */
export interface Census {
  isEmpty(): boolean;
  /** Frees what identifies the processes that are counted. */
  close(): void;
}

/**
 * Counts the processes of the PID namespace that children of a process are born in; undefined when that
 * cannot be read, or is this process's own. Nested namespaces need no check: the kernel ends them with
 * their parent's first process.
 *
 * A namespace is identified by its number, and the kernel reuses the number of one that has ended
 * within milliseconds. The file that is kept open prevents that.
 */
export function namespaceCensus(parentPid: number): Census | undefined {
  const file = readOrUndefined(() =>
    openSync(`/proc/${String(parentPid)}/ns/pid_for_children`, 'r'),
  );
  if (file === undefined) return undefined;
  const close = (): void => closeSync(file);
  const namespace = readOrUndefined(() => readlinkSync(`/proc/self/fd/${String(file)}`));
  if (namespace === undefined || namespace === linkOf(process.pid)) {
    close();
    return undefined;
  }
  return {
    isEmpty: () =>
      !processIds().some((pid) => linkOf(pid) === namespace && livingStatOf(pid) !== undefined),
    close,
  };
}

/** Counts the processes of a process group or session that `leaderPid` began. */
export function groupCensus(leaderPid: number): Census {
  return {
    isEmpty: () =>
      !processIds().some((pid) => {
        const stat = livingStatOf(pid);
        return stat?.groupId === leaderPid || stat?.sessionId === leaderPid;
      }),
    close: () => undefined,
  };
}

function processIds(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0);
}

function linkOf(pid: number): string | undefined {
  return readOrUndefined(() => readlinkSync(`/proc/${String(pid)}/ns/pid`));
}

/**
 * Undefined for a process that does not exist or is a zombie: that has released everything except its
 * number, and may wait forever to be reaped.
 */
function livingStatOf(pid: number): { groupId: number; sessionId: number } | undefined {
  const stat = readOrUndefined(() => readFileSync(`/proc/${String(pid)}/stat`, 'utf8'));
  // The second field is the command in brackets, which may itself hold brackets and blanks.
  const [state, , groupId, sessionId] = stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? [];
  if (state === undefined || state === 'Z' || state === 'X') return undefined;
  return { groupId: Number(groupId), sessionId: Number(sessionId) };
}

/** A process that ends while it is being read has ended. */
function readOrUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
