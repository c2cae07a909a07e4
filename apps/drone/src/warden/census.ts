import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/**
 * Whether any process of a backend is still there. `gone` is said only on this: the process that
 * the warden started may end before the namespace that it made is empty.
 */
export interface Census {
  isEmpty(): boolean;
}

/**
 * Counts the processes of a PID namespace, named by the link that `/proc/PID/ns/pid` shows. Nested
 * namespaces need no look: the kernel ends them with their parent's first process.
 */
export function namespaceCensus(namespaceLink: string): Census {
  return {
    isEmpty: () => !processIds().some((pid) => linkOf(pid) === namespaceLink && isLiving(pid)),
  };
}

/** Counts the processes of a process group or session that `leaderPid` began. */
export function groupCensus(leaderPid: number): Census {
  return {
    isEmpty: () =>
      !processIds().some((pid) => {
        const stat = statOf(pid);
        return (
          stat !== undefined &&
          isAlive(stat.state) &&
          (stat.groupId === leaderPid || stat.sessionId === leaderPid)
        );
      }),
  };
}

/** The namespace that children of a process are born in; undefined when it cannot be read. */
export function childNamespaceOf(pid: number): string | undefined {
  return readOrUndefined(() => readlinkSync(`/proc/${String(pid)}/ns/pid_for_children`));
}

function processIds(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0);
}

function linkOf(pid: number): string | undefined {
  return readOrUndefined(() => readlinkSync(`/proc/${String(pid)}/ns/pid`));
}

function isLiving(pid: number): boolean {
  const stat = statOf(pid);
  return stat !== undefined && isAlive(stat.state);
}

/** A zombie has released everything except its number, and may wait forever to be reaped. */
function isAlive(state: string): boolean {
  return state !== 'Z' && state !== 'X';
}

function statOf(pid: number): { state: string; groupId: number; sessionId: number } | undefined {
  const stat = readOrUndefined(() => readFileSync(`/proc/${String(pid)}/stat`, 'utf8'));
  // The second field is the command in brackets, which may itself hold brackets and blanks.
  const [state, , groupId, sessionId] = stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? [];
  if (state === undefined) return undefined;
  return { state, groupId: Number(groupId), sessionId: Number(sessionId) };
}

/** A process that ends while it is looked at is one that has ended. */
function readOrUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
