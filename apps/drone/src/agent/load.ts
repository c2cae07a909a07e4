/**
 * Looks at the machine and at the backends every {@link LOOK_MS}, for the heartbeats. What cannot be found out is left
 * out: a heartbeat must never fail because of it.
 */
import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { Log } from '../config.ts';
import { groupOf, inMount, mountOf } from '../warden/limits.ts';
import { membersBy, readProcesses, type ProcessStat } from '../warden/processes.ts';

const LOOK_MS = 10_000;
/** As many as a heartbeat may have: those that use the most memory. */
const USAGES_MAX = 500;
const CPUS_MAX = 65_536;

/** How much of the machine is in use. */
export interface MachineUse {
  readonly cpuShare: number;
  readonly processors: number;
  readonly memoryUsedBytes: number;
  readonly memoryBytes: number;
  readonly diskUsedBytes: number;
  readonly diskBytes: number;
}

/** Of all processors, since the machine was started. */
interface CpuTimes {
  readonly busyMs: number;
  readonly allMs: number;
  readonly processors: number;
}

interface LoadWatchOptions {
  readonly stateDir: string;
  readonly backends: () => readonly MeasuredBackend[];
  readonly nowMs: () => number;
  readonly log: Log;
}

export class LoadWatch {
  readonly #options: LoadWatchOptions;
  readonly #meter = new BackendMeter();
  #timer: NodeJS.Timeout | undefined;
  #cpu = cpuTimes();
  #machine: MachineUse | undefined;
  #usage: BackendUse[] | undefined;

  constructor(options: LoadWatchOptions) {
    this.#options = options;
  }

  /** The last look; undefined before the second one, which is the first that can tell how busy processors are. */
  get machine(): MachineUse | undefined {
    return this.#machine;
  }

  /** What backends use, once for each look: the next call returns undefined until there was another one. */
  takeUsage(): BackendUse[] | undefined {
    const usage = this.#usage;
    this.#usage = undefined;
    return usage;
  }

  start(): void {
    this.#timer = setInterval(() => void this.look(), LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async look(): Promise<void> {
    const { stateDir, backends, nowMs, log } = this.#options;
    try {
      this.#usage = this.#meter.look(backends(), nowMs()).slice(0, USAGES_MAX).map(limitUse);
      const before = this.#cpu;
      this.#cpu = cpuTimes();
      this.#machine = await machineUse(stateDir, before, this.#cpu);
    } catch (error) {
      log.debug({ err: error }, 'the load could not be found out');
    }
  }
}

function limitUse(use: BackendUse): BackendUse {
  return use.cpus === undefined ? use : { ...use, cpus: Math.min(use.cpus, CPUS_MAX) };
}

/** Undefined where a value is not a number, as on a machine that hides its processors. */
async function machineUse(
  stateDir: string,
  before: CpuTimes,
  now: CpuTimes,
): Promise<MachineUse | undefined> {
  const passedMs = now.allMs - before.allMs;
  if (now.processors === 0 || passedMs <= 0) return undefined;
  const share = (now.busyMs - before.busyMs) / passedMs;
  const { memoryBytes, freeBytes } = memory();
  const disk = await statfs(stateDir);
  const use = {
    cpuShare: Math.round(Math.min(1, Math.max(0, share)) * 1_000) / 1_000,
    processors: now.processors,
    memoryUsedBytes: Math.max(0, memoryBytes - freeBytes),
    memoryBytes,
    // As much as nobody can write any more; some is kept for root.
    diskUsedBytes: Math.max(0, disk.blocks - disk.bavail) * disk.bsize,
    diskBytes: disk.blocks * disk.bsize,
  };
  return Object.values(use).every((value) => Number.isFinite(value) && value >= 0) &&
    Number.isSafeInteger(use.diskBytes)
    ? use
    : undefined;
}

/** Of the machine, or of the container that the drone is in, whichever is less. */
function memory(): { memoryBytes: number; freeBytes: number } {
  const limit = process.constrainedMemory();
  const total = os.totalmem();
  const memoryBytes = limit > 0 ? Math.min(limit, total) : total;
  return { memoryBytes, freeBytes: Math.min(process.availableMemory(), memoryBytes) };
}

function cpuTimes(): CpuTimes {
  const cpus = os.cpus();
  const all = cpus.map(({ times }) => Object.values(times).reduce((sum, each) => sum + each, 0));
  const allMs = all.reduce((sum, each) => sum + each, 0);
  const idleMs = cpus.reduce((sum, { times }) => sum + times.idle, 0);
  return { busyMs: allMs - idleMs, allMs, processors: cpus.length };
}

/** A backend whose first process is known. */
export interface MeasuredBackend {
  readonly backendId: string;
  readonly pid: number;
  readonly isContainer: boolean;
}

export interface BackendUse {
  readonly backendId: string;
  readonly memoryBytes: number;
  /** Processors in use since the look before; left out at the first one. */
  readonly cpus?: number;
}

interface Reading {
  readonly atMs: number;
  readonly cpuUs: number;
  /** Two counts are compared only if they are of the same kind. */
  readonly isOfGroup: boolean;
}

/** How the kernel counts, of which a process is told at its start. */
const AUX_PAGE_BYTES = 6n;
const AUX_TICKS = 17n;

/** Looks at backends again and again: at the control group of each where it has one, else at its processes. */
export class BackendMeter {
  readonly #proc: string;
  readonly #pageBytes: number;
  readonly #tickUs: number;
  #before = new Map<string, Reading>();

  /** `proc` is where the kernel shows processes. */
  constructor(proc = '/proc') {
    this.#proc = proc;
    this.#pageBytes = auxiliary(proc, AUX_PAGE_BYTES) ?? 4_096;
    this.#tickUs = 1_000_000 / (auxiliary(proc, AUX_TICKS) ?? 100);
  }

  /** Those of the backends that can be seen, those that use the most memory first. */
  look(backends: readonly MeasuredBackend[], nowMs: number): BackendUse[] {
    const before = this.#before;
    this.#before = new Map();
    if (backends.length === 0) return [];
    const membersOf = membersBy(readProcesses(this.#proc));
    return backends
      .flatMap((backend) => this.#lookAt(backend, membersOf(backend.pid), { before, nowMs }))
      .sort((a, b) => b.memoryBytes - a.memoryBytes);
  }

  #lookAt(
    { backendId, isContainer }: MeasuredBackend,
    members: readonly ProcessStat[],
    of: { readonly before: ReadonlyMap<string, Reading>; readonly nowMs: number },
  ): BackendUse | [] {
    // The first processes of a command prepare it, outside of its group. A container may make groups of its own inside.
    const inside = isContainer ? members[0] : members.at(-1);
    if (inside === undefined) return [];
    const groups = groupsOf(this.#folderOf(inside.pid), this.#folderOf('self'), (group) =>
      isContainer ? group !== '/' : path.basename(group) === backendId,
    );
    const sum = (field: 'ticks' | 'residentPages'): number =>
      members.reduce((all, member) => all + member[field], 0);
    const groupUs = cpuUsOf(groups);
    const cpuUs = groupUs ?? sum('ticks') * this.#tickUs;
    const reading = { atMs: of.nowMs, cpuUs, isOfGroup: groupUs !== undefined };
    this.#before.set(backendId, reading);
    const cpus = cpusBetween(of.before.get(backendId), reading);
    const memoryBytes = memoryOf(groups) ?? sum('residentPages') * this.#pageBytes;
    return {
      backendId,
      memoryBytes: Math.round(memoryBytes),
      ...(cpus !== undefined && { cpus }),
    };
  }

  #folderOf(pid: number | 'self'): string {
    return path.join(this.#proc, String(pid));
  }
}

/** With three decimals. Less was counted than before when a process has left the backend. */
function cpusBetween(before: Reading | undefined, now: Reading): number | undefined {
  if (before === undefined || before.isOfGroup !== now.isOfGroup) return undefined;
  const passedUs = (now.atMs - before.atMs) * 1_000;
  if (passedUs <= 0) return undefined;
  return Math.max(0, Math.round(((now.cpuUs - before.cpuUs) / passedUs) * 1_000) / 1_000);
}

/** A value of the auxiliary vector, which has pairs of numbers of 64 bits; undefined where that cannot be read. */
function auxiliary(proc: string, wanted: bigint): number | undefined {
  try {
    const vector = readFileSync(path.join(proc, 'self/auxv'));
    for (let at = 0; at + 16 <= vector.length; at += 16) {
      if (vector.readBigUInt64LE(at) === wanted) return Number(vector.readBigUInt64LE(at + 8));
    }
  } catch {
    // No Linux.
  }
  return undefined;
}

/** The folders of a backend's groups; each is left out where the backend has none of its own. */
interface GroupFolders {
  readonly memory?: { readonly version: 1 | 2; readonly folder: string } | undefined;
  readonly cpu?: { readonly version: 1 | 2; readonly folder: string } | undefined;
}

/**
 * The groups that a process is in, as far as `isOwn` tells by their paths that they are the backend's alone.
 * `proc` is the folder of the process in `/proc`, `self` that of this one.
 */
function groupsOf(proc: string, self: string, isOwn: (group: string) => boolean): GroupFolders {
  const second = folderOf(proc, self, { controller: '', isOwn });
  if (second !== undefined) {
    const group = { version: 2, folder: second } as const;
    // Only a group that memory was delegated to has a count of it; processor time is counted in all.
    return hasFile(second, 'memory.current') ? { memory: group, cpu: group } : { cpu: group };
  }
  const of = (controller: string): GroupFolders['memory'] => {
    const folder = folderOf(proc, self, { controller, isOwn });
    return folder === undefined ? undefined : { version: 1, folder };
  };
  return { memory: of('memory'), cpu: of('cpuacct') };
}

function folderOf(
  proc: string,
  self: string,
  of: { readonly controller: string; readonly isOwn: (group: string) => boolean },
): string | undefined {
  const { controller, isOwn } = of;
  try {
    const group = groupOf(proc, (all) =>
      controller === '' ? all === '' : all.split(',').includes(controller),
    );
    const mount = mountOf(self, (type, options) =>
      controller === '' ? type === 'cgroup2' : type === 'cgroup' && options.includes(controller),
    );
    if (group === undefined || mount === undefined || !isOwn(group)) return undefined;
    return inMount(mount, group);
  } catch {
    return undefined; // it has just ended, or this is no Linux
  }
}

/** Without what the kernel keeps of files and gives away when memory is short; undefined when it is not there. */
function memoryOf({ memory }: GroupFolders): number | undefined {
  if (memory === undefined) return undefined;
  const { version, folder } = memory;
  const used = numberIn(
    folder,
    version === 1 ? 'memory.usage_in_bytes' : 'memory.current',
    /^(\d+)$/mu,
  );
  const idle = numberIn(
    folder,
    'memory.stat',
    version === 1 ? /^total_inactive_file (\d+)$/mu : /^inactive_file (\d+)$/mu,
  );
  return used === undefined ? undefined : Math.max(0, used - (idle ?? 0));
}

/** Microseconds of processor time in all; undefined when it is not there. */
function cpuUsOf({ cpu }: GroupFolders): number | undefined {
  if (cpu === undefined) return undefined;
  if (cpu.version === 2) return numberIn(cpu.folder, 'cpu.stat', /^usage_usec (\d+)$/mu);
  const nanoseconds = numberIn(cpu.folder, 'cpuacct.usage', /^(\d+)$/mu);
  return nanoseconds === undefined ? undefined : nanoseconds / 1_000;
}

function numberIn(folder: string, file: string, pattern: RegExp): number | undefined {
  try {
    const digits = pattern.exec(readFileSync(path.join(folder, file), 'utf8'))?.[1];
    return digits === undefined ? undefined : Number(digits);
  } catch {
    return undefined;
  }
}

function hasFile(folder: string, file: string): boolean {
  return numberIn(folder, file, /^(\d+)$/mu) !== undefined;
}
