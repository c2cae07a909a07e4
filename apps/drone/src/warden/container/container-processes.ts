/**
 * The processes of a container, found without its engine: by the control group that an engine makes for
 * each container, whose path has the container's id in it. So a container can be stopped when the engine hangs.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { outOfMemoryKills } from '../limits/control-groups.ts';

/** The first process of a container. When it ends, the kernel ends all others. */
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
    const found = readdirSync('/proc').flatMap((name): [number, string][] => {
      const pid = Number(name);
      const cgroup = Number.isInteger(pid) && pid > 0 ? cgroupOf(pid) : undefined;
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
  const status = readIfThere(`/proc/${String(pid)}/status`);
  const ids = /^NSpid:\s+(.*)$/mu.exec(status ?? '')?.[1]?.split(/\s+/u) ?? [];
  return ids.length > 1 && ids.at(-1) === '1';
}

function cgroupOf(pid: number): string | undefined {
  return readIfThere(`/proc/${String(pid)}/cgroup`);
}

/** Undefined for a process that does not exist or is a zombie. */
function startedAtOf(pid: number): string | undefined {
  const stat = readIfThere(`/proc/${String(pid)}/stat`);
  // The second field is the command in brackets, which may itself hold brackets and blanks.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? [];
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
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

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
