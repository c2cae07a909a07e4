/**
 * The processes of this machine, as the kernel shows them in `/proc`: which of a backend are left, what each uses,
 * and which are a container's.
 */
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from 'node:fs';
import { outOfMemoryKills } from './limits.ts';

/**
 * Whether any process of a backend is still there. `gone` is reported only by this: the process that
 * the warden started may end before the namespace that it made is empty.
 */
export interface Census {
  /** @throws {Error} when that cannot be seen now, because there is no descriptor or no memory. */
  isEmpty(): boolean;
  /** Ends what init, which has ended, has left. The kernel does so in a namespace. */
  kill(): void;
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
  const file = readIfThere(() => openSync(`/proc/${String(parentPid)}/ns/pid_for_children`, 'r'));
  if (file === undefined) return undefined;
  const close = (): void => closeSync(file);
  const namespace = readIfThere(() => readlinkSync(`/proc/self/fd/${String(file)}`));
  if (namespace === undefined || namespace === namespaceOf(process.pid)) {
    close();
    return undefined;
  }
  return {
    isEmpty: () =>
      !processIds().some(
        (pid) =>
          namespaceOf(pid, readUnlessShort) === namespace &&
          livingFields(pid, readUnlessShort) !== undefined,
      ),
    kill: () => undefined,
    close,
  };
}

/** Counts the processes of a process group or session that `leaderPid` began, which still lives. */
export function groupCensus(leaderPid: number): Census {
  const startedAt = startedAtOf(leaderPid);
  const members = (): number[] => {
    // A number that is not in use any more, not even for a group, may have been given to a stranger.
    const now = startedAtOf(leaderPid);
    if (now !== undefined && now !== startedAt) return [];
    return processIds().filter((pid) => {
      const [, , groupId, sessionId] = livingFields(pid, readUnlessShort) ?? [];
      return Number(groupId) === leaderPid || Number(sessionId) === leaderPid;
    });
  };
  return {
    isEmpty: () => members().length === 0,
    kill: () => {
      for (const pid of members()) {
        try {
          signalIfThere(pid, 'SIGKILL');
        } catch {
          // It is another user's by now, and still counts.
        }
      }
    },
    close: () => undefined,
  };
}

/** One process, at the moment of a look. */
export interface ProcessStat {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** Of processor time, in all: its own, and that of its children which have ended. */
  readonly ticks: number;
  readonly residentPages: number;
}

/** All processes; none where there is no `/proc`. */
export function readProcesses(folder = '/proc'): ProcessStat[] {
  try {
    return processIds(folder).flatMap((pid) => statOf(pid, folder) ?? []);
  } catch {
    return [];
  }
}

/**
 * For any number of first processes: a process, all that it has started, and what they have started; those of its
 * group and session too. The first one comes first, and those that were started last come last.
 */
export function membersBy(stats: readonly ProcessStat[]): (pid: number) => ProcessStat[] {
  const byPid = new Map(stats.map((stat) => [stat.pid, stat]));
  const children = groupedBy(stats, ({ parent }) => parent);
  const groups = groupedBy(stats, ({ group }) => group);
  const sessions = groupedBy(stats, ({ session }) => session);
  return (pid) => {
    const first = byPid.get(pid);
    const found = new Set(first === undefined ? [] : [first]);
    for (const stat of [...(groups.get(pid) ?? []), ...(sessions.get(pid) ?? [])]) found.add(stat);
    // What is added while it is gone through is gone through too.
    for (const stat of found) for (const child of children.get(stat.pid) ?? []) found.add(child);
    for (const child of children.get(pid) ?? []) found.add(child);
    return [...found];
  };
}

/**
 * A process, all that it has started, and what they have started, as the kernel lists children: no other process is
 * looked at. Fewer than {@link membersBy} finds, and only the process itself where the kernel keeps no such lists.
 */
export function startedBy(pid: number): ReadonlySet<number> {
  const found = new Set([pid]);
  // What is added while it is gone through is gone through too.
  for (const one of found) for (const child of childrenOf(one)) found.add(child);
  return found;
}

function childrenOf(pid: number): number[] {
  const folder = `/proc/${String(pid)}/task`;
  const threads = readIfThere(() => readdirSync(folder)) ?? [];
  return threads.flatMap((thread) => {
    const list = readIfThere(() => readFileSync(`${folder}/${thread}/children`, 'utf8')) ?? '';
    return list
      .split(' ')
      .map(Number)
      .filter((child) => child > 0);
  });
}

function groupedBy(
  stats: readonly ProcessStat[],
  keyOf: (stat: ProcessStat) => number,
): ReadonlyMap<number, readonly ProcessStat[]> {
  const groups = new Map<number, ProcessStat[]>();
  for (const stat of stats) {
    const key = keyOf(stat);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [stat]);
    else group.push(stat);
  }
  return groups;
}

/** Undefined for a process that has just ended. */
function statOf(pid: number, folder: string): ProcessStat | undefined {
  const fields = statFields(pid, folder)?.map(Number);
  if (fields === undefined) return undefined;
  const [parent = 0, group = 0, session = 0] = fields.slice(1, 4);
  const ticks = fields.slice(11, 15).reduce((sum, each) => sum + each, 0);
  return { pid, parent, group, session, ticks, residentPages: fields[21] ?? 0 };
}

/**
 * The first process of a container; when it ends, the kernel ends all others. It is found without the engine: by the
 * control group that an engine makes for each container, whose path has the container's id in it. So a container can
 * be stopped when the engine hangs.
 */
export interface MainProcess {
  readonly containerId: string;
  readonly pid: number;
  /** When it was started: with the number, this identifies a process. */
  readonly startedAt: string;
  /** Its control group as `/proc` has it, one line for each hierarchy. */
  readonly cgroup: string;
}

/** Where control groups of the second version are mounted, alone or beside those of the first. */
const UNIFIED_ROOTS = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'];
const MEMORY_ROOT = '/sys/fs/cgroup/memory';

/** Every living process of a container, as far as this process sees it; not those of its engine. */
export function processesOf(containerId: string, ageMsMax = 0): number[] {
  return [...cgroupsOfAll(ageMsMax)]
    .filter(([pid, cgroup]) => isIn(containerId, cgroup) && startedAtOf(pid) !== undefined)
    .map(([pid]) => pid);
}

let lastLook = { atMs: Number.NEGATIVE_INFINITY, cgroups: new Map<number, string>() };

/**
 * The control group of every process. While an engine hangs, many containers may be looked for at every
 * tick: they may share a look that is a little old, from whose silence nobody concludes anything.
 */
function cgroupsOfAll(ageMsMax: number): ReadonlyMap<number, string> {
  const nowMs = performance.now();
  if (nowMs - lastLook.atMs >= ageMsMax) {
    const found = processIds().flatMap((pid): [number, string][] => {
      const cgroup = cgroupOf(pid);
      return cgroup === undefined ? [] : [[pid, cgroup]];
    });
    lastLook = { atMs: nowMs, cgroups: new Map(found) };
  }
  return lastLook.cgroups;
}

/** Undefined when there is no process, or none that is the first of a PID namespace of its own. */
export function mainProcessOf(containerId: string, ageMsMax = 0): MainProcess | undefined {
  for (const pid of processesOf(containerId, ageMsMax)) {
    const startedAt = startedAtOf(pid);
    const cgroup = cgroupOf(pid);
    if (startedAt !== undefined && cgroup !== undefined && isFirstOfNamespace(pid)) {
      return { containerId, pid, startedAt, cgroup };
    }
  }
  return undefined;
}

/** Whether it is still that process, and not a zombie. */
export function isLiving({ pid, startedAt }: MainProcess): boolean {
  return startedAtOf(pid) === startedAt;
}

/** Whether this process may signal it. */
export function mayKill({ pid }: MainProcess): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isCode(error, 'ESRCH');
  }
}

/** Sends a signal to it if it still lives. @throws {Error} when this process may not. */
export function signalMain(main: MainProcess, signal: NodeJS.Signals): void {
  if (isLiving(main)) signalIfThere(main.pid, signal);
}

/**
 * Kills every process of a container: in one step where the kernel can, and otherwise its first
 * process, which ends all others. Where that is not known yet, each process that is found.
 * @throws {Error} when this process may not.
 */
export function killContainer(
  containerId: string,
  main: MainProcess | undefined,
  ageMsMax = 0,
): void {
  if (main === undefined) {
    for (const pid of processesOf(containerId, ageMsMax)) {
      // A look may be a little old: the number must still be a process of it.
      if (isIn(containerId, cgroupOf(pid))) signalIfThere(pid, 'SIGKILL');
    }
  } else if (isLiving(main) && !killGroup(main)) signalIfThere(main.pid, 'SIGKILL');
}

/** How often the kernel has killed a process of it because memory ran out; undefined if that is not known. */
export function killsForMemory(main: MainProcess): number | undefined {
  return outOfMemoryKills([
    ...unifiedFolders(main).map((folder) => `${folder}/memory.events`),
    ...main.cgroup.split('\n').flatMap((line) => {
      const path = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/u.exec(line)?.[1];
      return path === undefined ? [] : [`${MEMORY_ROOT}${path}/memory.oom_control`];
    }),
  ]);
}

function killGroup(main: MainProcess): boolean {
  return unifiedFolders(main).some((folder) => {
    try {
      writeFileSync(`${folder}/cgroup.kill`, '1', { flag: 'r+' });
      return true;
    } catch {
      return false;
    }
  });
}

/** Where its group of the second version may be; none if that is not its own, but shared with others. */
function unifiedFolders({ cgroup, containerId }: MainProcess): string[] {
  const path = /^0::(\/.+)$/mu.exec(cgroup)?.[1];
  return path?.includes(containerId) !== true ? [] : UNIFIED_ROOTS.map((root) => `${root}${path}`);
}

/** The process that watches a container for its engine may have the id in its group too. */
function isIn(containerId: string, cgroup: string | undefined): boolean {
  return cgroup?.includes(containerId) === true && !cgroup.includes(`conmon-${containerId}`);
}

function isFirstOfNamespace(pid: number): boolean {
  const status = readIfThere(() => readFileSync(`/proc/${String(pid)}/status`, 'utf8'));
  const ids = /^NSpid:\s+(.*)$/mu.exec(status ?? '')?.[1]?.split(/\s+/u) ?? [];
  return ids.length > 1 && ids.at(-1) === '1';
}

function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!isCode(error, 'ESRCH')) throw error;
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** @throws {Error} where there is no `/proc`. */
function processIds(folder = '/proc'): number[] {
  return readdirSync(folder)
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0);
}

function namespaceOf(pid: number, reading: Reading = readIfThere): string | undefined {
  return reading(() => readlinkSync(`/proc/${String(pid)}/ns/pid`));
}

function cgroupOf(pid: number): string | undefined {
  return readIfThere(() => readFileSync(`/proc/${String(pid)}/cgroup`, 'utf8'));
}

function startedAtOf(pid: number): string | undefined {
  return livingFields(pid)?.[19];
}

/**
 * Undefined for a process that does not exist or is a zombie: that has released everything except its
 * number, and may wait forever to be reaped.
 */
function livingFields(pid: number, reading?: Reading): string[] | undefined {
  const fields = statFields(pid, '/proc', reading);
  return fields?.[0] === 'Z' || fields?.[0] === 'X' ? undefined : fields;
}

/** What its `stat` says, from its state on; undefined for a process that does not exist. */
function statFields(
  pid: number,
  folder: string,
  reading: Reading = readIfThere,
): string[] | undefined {
  const stat = reading(() => readFileSync(`${folder}/${String(pid)}/stat`, 'utf8'));
  // The second field is the command in brackets, which may itself hold brackets and blanks.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

type Reading = (read: () => string) => string | undefined;

/** As {@link readIfThere}, where a process that cannot be looked at now must not be taken for one that has ended. */
function readUnlessShort(read: () => string): string | undefined {
  try {
    return read();
  } catch (error) {
    if (['EMFILE', 'ENFILE', 'ENOMEM'].some((code) => isCode(error, code))) throw error;
    return undefined;
  }
}

/** A process that ends while it is being read has ended. */
function readIfThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Whether a process has been seen to be gone. */
export type IsGone = (process: { readonly pid: number; isGone(): boolean }) => boolean;

/** How often what fails at ticks is told of: there are many in each second. */
const PROBLEM_MS = 10_000;

interface ProblemOptions {
  readonly nowMs: () => number;
  readonly onProblem: (problem: string) => void;
}

/** Tells of problems of one kind, now and then while there are some. */
export function seldomProblem({ nowMs, onProblem }: ProblemOptions): (problem: string) => void {
  let tellAtMs = Number.NEGATIVE_INFINITY;
  return (problem) => {
    if (nowMs() < tellAtMs) return;
    tellAtMs = nowMs() + PROBLEM_MS;
    onProblem(problem);
  };
}

/**
 * A look that fails, because there is no descriptor or no memory, has not seen that anything is gone. It must keep no
 * backend from its deadlines: not this one, which is killed at them all the same, and no other.
 */
export function tolerantLook(options: ProblemOptions): IsGone {
  const tell = seldomProblem(options);
  return (process) => {
    try {
      return process.isGone();
    } catch (error) {
      tell(`what is left of process ${String(process.pid)} cannot be seen: ${String(error)}`);
      return false;
    }
  };
}
