/**
 * What bounds a backend: its control groups, in which the kernel bounds its processes, memory and processors together,
 * and what the shell that becomes the program does before.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { nameOfStateFolder } from '../records.ts';
import type { CommandLimits, UserIds } from './protocol.ts';

const SELF = '/proc/self';
const CONTROLLERS = ['pids', 'memory', 'cpu'] as const;
type Controller = (typeof CONTROLLERS)[number];

/** The leaf of version 2 that the drone's own processes are in. */
const OWN_LEAF = 'drone';
/** A share of the processors is that of each of these periods. */
const CPU_PERIOD_US = 100_000;

interface Base {
  readonly version: 1 | 2;
  /** The outermost group that the drone may change: its own, and all below. */
  readonly above: string;
  /** Where the groups of backends are. */
  readonly folder: string;
}

/** The groups of one backend. */
export interface BackendGroups {
  /** The files by which a process joins them: it writes 0. */
  readonly joins: readonly string[];
  /** What the kernel has ended a process of it for, in words for an operator; undefined if it has not. */
  exceeded(): string | undefined;
  /** For a backend that is gone. What cannot be removed is removed by the next warden. */
  remove(): void;
}

/**
 * The control groups of backends, one for each backend and controller. They are made below the drone's own, where
 * it may make some:
 *
 *   version 2:  a folder beside the drone's, when that is named `drone` and what is above both is the
 *               drone's alone, as systemd makes it with `Delegate=` and `DelegateSubgroup=drone`
 *   version 1:  a folder in the drone's own
 */
export class ControlGroups {
  readonly #bases: ReadonlyMap<Controller, Base>;

  private constructor(bases: ReadonlyMap<Controller, Base>) {
    this.#bases = bases;
  }

  /** Finds out by trying what may be bounded here. Nothing runs yet: groups that were left are removed. */
  static find(stateDir: string): ControlGroups {
    const name = nameOfStateFolder(stateDir);
    const bases = new Map<Controller, Base>();
    for (const controller of CONTROLLERS) {
      const base =
        attempt(() => baseOfFirst(controller, name)) ??
        attempt(() => baseOfSecond(controller, SELF));
      if (base !== undefined && isUsable(base, controller)) bases.set(controller, base);
    }
    for (const { folder } of bases.values()) removeLeft(folder);
    return new ControlGroups(bases);
  }

  bounds(controller: Controller): boolean {
    return this.#bases.has(controller);
  }

  /** The groups that the drone's user may change, each with all that are in it. */
  get folders(): readonly string[] {
    return [...new Set([...this.#bases.values()].map(({ above }) => above))];
  }

  /** Nothing runs any more, and nothing will. */
  close(): void {
    for (const { folder } of this.#bases.values()) attempt(() => rmdirSync(folder));
  }

  /** @throws {Error} when a limit cannot be set; then no group is left. */
  make(backendId: string, limits: CommandLimits): BackendGroups {
    const groups = new Map(
      [...this.#bases].map(([controller, { folder }]) => [
        controller,
        path.join(folder, backendId),
      ]),
    );
    const all = [...new Set(groups.values())];
    const remove = (): void => {
      for (const group of all) attempt(() => rmdirSync(group));
    };
    try {
      for (const [controller, { version }] of this.#bases) {
        makeGroup(groups.get(controller) ?? '', settingsOf(controller, version, limits));
      }
    } catch (cause) {
      remove();
      throw cause;
    }
    const memory = groups.get('memory');
    const events = ['memory.events', 'memory.oom_control'];
    return {
      joins: all.map((group) => path.join(group, 'cgroup.procs')),
      exceeded: () => {
        if (memory === undefined) return undefined;
        const kills = outOfMemoryKills(events.map((file) => path.join(memory, file))) ?? 0;
        return kills === 0 ? undefined : memoryReached(limits);
      },
      remove,
    };
  }
}

const MEBIBYTE = 1_048_576;

function memoryReached({ memoryBytes }: CommandLimits): string {
  const mebibytes = Math.round((memoryBytes / MEBIBYTE) * 10) / 10;
  return `memory limit ${String(mebibytes)} MiB reached (memoryMax): the kernel killed a process of it`;
}

/** @throws {Error} when it cannot be made or does not take one of the settings; it may be there then. */
function makeGroup(group: string, settings: readonly Setting[]): void {
  mkdirSync(group, { recursive: true });
  for (const [file, value] of settings) {
    const place = path.join(group, file);
    if (existsSync(place) || !OF_SWAP.has(file)) writeFileSync(place, value);
  }
}

type Setting = readonly [file: string, value: string];

/** Not there where the kernel counts no swap. Without them a backend could take as much of it as there is. */
const OF_SWAP = new Set(['memory.swap.max', 'memory.memsw.limit_in_bytes']);

function settingsOf(
  controller: Controller,
  version: 1 | 2,
  { memoryBytes, pids, cpus }: CommandLimits,
): Setting[] {
  const quota = cpus === null ? null : String(Math.round(cpus * CPU_PERIOD_US));
  switch (controller) {
    case 'pids':
      return [['pids.max', String(pids)]];
    case 'memory':
      return version === 1
        ? [
            ['memory.limit_in_bytes', String(memoryBytes)],
            // Of memory and swap together.
            ['memory.memsw.limit_in_bytes', String(memoryBytes)],
          ]
        : [
            ['memory.max', String(memoryBytes)],
            ['memory.swap.max', '0'],
            // Of a backend that has lost a process, nothing is left that could answer wrongly.
            ['memory.oom.group', '1'],
          ];
    case 'cpu':
      if (quota === null) return [];
      return version === 1
        ? [['cpu.cfs_quota_us', quota]]
        : [['cpu.max', `${quota} ${String(CPU_PERIOD_US)}`]];
  }
}

/**
 * How often the kernel has killed a process of a group because memory ran out, by the first of these files that is
 * there: `memory.events` of version 2 or `memory.oom_control` of version 1. Undefined if that is not known.
 */
export function outOfMemoryKills(files: readonly string[]): number | undefined {
  const text = files
    .map((file) => attempt(() => readFileSync(file, 'utf8')))
    .find((found) => found !== undefined);
  const count = /^oom_kill (\d+)$/mu.exec(text ?? '')?.[1];
  return count === undefined ? undefined : Number(count);
}

function baseOfFirst(controller: Controller, name: string): Base | undefined {
  const own = groupOf(SELF, (controllers) => controllers.split(',').includes(controller));
  const place = mountOf(SELF, (type, options) => type === 'cgroup' && options.includes(controller));
  if (own === undefined || place === undefined) return undefined;
  const above = inMount(place, own);
  const folder = path.join(above, name);
  // Those of wardens that were killed; one that has groups in it stays, and one in use is made again.
  for (const other of readdirSync(above)) {
    if (/^leasehold-[0-9a-f]{12}$/u.test(other)) attempt(() => rmdirSync(path.join(above, other)));
  }
  mkdirSync(folder, { recursive: true });
  return { version: 1, above, folder };
}

/** Where groups of version 2 may be made by the process of this folder of `/proc`. */
export function baseOfSecond(controller: Controller, self: string): Base | undefined {
  const own = groupOf(self, (controllers) => controllers === '');
  const place = mountOf(self, (type) => type === 'cgroup2');
  if (own === undefined || place === undefined || path.basename(own) !== OWN_LEAF) return undefined;
  const above = path.dirname(inMount(place, own));
  const isOthers = readFileSync(path.join(above, 'cgroup.procs'), 'utf8') !== '';
  if (isOthers) return undefined;
  const folder = path.join(above, 'backends');
  mkdirSync(folder, { recursive: true });
  for (const each of [above, folder]) {
    writeFileSync(path.join(each, 'cgroup.subtree_control'), `+${controller}`);
  }
  return { version: 2, above, folder };
}

function isUsable({ version, folder }: Base, controller: Controller): boolean {
  const probe = path.join(folder, 'probe');
  const limits: CommandLimits = {
    memoryBytes: 2 ** 30,
    pids: 100,
    cpus: 1,
    fileBytes: 0,
    together: 1,
  };
  const isSet = attempt(() => {
    makeGroup(probe, settingsOf(controller, version, limits));
    return true;
  });
  attempt(() => rmdirSync(probe));
  return isSet === true;
}

function removeLeft(folder: string): void {
  const entries = attempt(() => readdirSync(folder, { withFileTypes: true })) ?? [];
  for (const entry of entries) {
    if (entry.isDirectory()) attempt(() => rmdirSync(path.join(folder, entry.name)));
  }
}

/** Undefined where the kernel, or who set up the machine, does not allow it. */
function attempt<Result>(work: () => Result): Result | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

/** Descriptors of one process. */
const FILES_MAX = 65_536;
/** Shells count the length of files in these. */
const BLOCK_BYTES = 512;

interface LimitedStart {
  readonly limits: CommandLimits;
  readonly user: UserIds | null;
  /** Whether the processes of each backend are counted for themselves, in a user namespace of its own. */
  readonly isUserNamespace: boolean;
  /** What control groups bound. */
  readonly bounds: (controller: Controller) => boolean;
}

/**
 * What the shell that becomes the program does before: limits of each process, and, where there are no
 * control groups, what comes closest to theirs. A limit that is lower already stays.
 *
 * The kernel counts processes by user. Where programs have users of their own, all backends of a
 * program are counted together; where they share the drone's, they cannot be bounded so.
 */
export function shellLimits({ limits, user, isUserNamespace, bounds }: LimitedStart): string {
  const { memoryBytes, fileBytes, pids, together } = limits;
  const lines = [
    'ulimit -c 0',
    `ulimit -n ${String(FILES_MAX)}`,
    `ulimit -f ${String(Math.ceil(fileBytes / BLOCK_BYTES))}`,
  ];
  if (!bounds('memory')) lines.push(`ulimit -d ${String(Math.ceil(memoryBytes / 1_024))}`);
  const count = isUserNamespace ? pids : pids * together;
  if (!bounds('pids') && (isUserNamespace || user !== null)) {
    // Some shells have it under one letter, some under the other.
    lines.push(`ulimit -u ${String(count)} || ulimit -p ${String(count)}`);
  }
  return lines.join('\n');
}

/** What this machine cannot bound for each backend, in words for an operator. */
export function limitLacks(bounds: (controller: Controller) => boolean): string[] {
  const lacking = [
    ...(bounds('pids') ? [] : ['processes']),
    ...(bounds('memory') ? [] : ['memory']),
    ...(bounds('cpu') ? [] : ['processors']),
  ];
  return lacking.length === 0
    ? []
    : [`control groups to bound ${lacking.join(', ')} of each backend`];
}

/** The path of a process's group in a hierarchy, as its `cgroup` file has it. */
export function groupOf(
  process: string,
  isWanted: (controllers: string) => boolean,
): string | undefined {
  for (const line of readFileSync(path.join(process, 'cgroup'), 'utf8').split('\n')) {
    const [, controllers, group] = /^\d+:([^:]*):(.*)$/u.exec(line) ?? [];
    if (controllers !== undefined && isWanted(controllers)) return group;
  }
  return undefined;
}

interface Mount {
  readonly root: string;
  readonly folder: string;
}

/** Where a process sees a hierarchy. */
export function mountOf(
  process: string,
  isWanted: (type: string, options: string[]) => boolean,
): Mount | undefined {
  for (const line of readFileSync(path.join(process, 'mountinfo'), 'utf8').split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , root, folder] = before.split(' ');
    const [type = '', , options = ''] = after.split(' ');
    if (root !== undefined && folder !== undefined && isWanted(type, options.split(','))) {
      return { root, folder };
    }
  }
  return undefined;
}

/** A container sees a part of the hierarchy, mounted as if it were the whole. */
export function inMount({ root, folder }: Mount, group: string): string {
  return path.join(folder, group.startsWith(root) ? group.slice(root.length) : group);
}

/** What a warden has open at most: for each backend its pipes, its log and what counts its processes. */
const FILES_PER_BACKEND = 6;
const FILES_OF_WARDEN = 100;

/** Why a warden cannot have as many backends as its drone may, for an operator; undefined where it can, or nobody knows. */
export function openFilesProblem(pid: number, capacity: number): string | undefined {
  const allowed = openFilesMax(pid);
  const needed = FILES_OF_WARDEN + capacity * FILES_PER_BACKEND;
  if (allowed === undefined || allowed >= needed) return undefined;
  return `a capacity of ${String(capacity)} may need ${String(needed)} open files, and ${String(allowed)} are allowed: raise \`ulimit -Hn\` or \`LimitNOFILE\``;
}

function openFilesMax(pid: number): number | undefined {
  try {
    const limits = readFileSync(`/proc/${String(pid)}/limits`, 'utf8');
    const allowed = /^Max open files\s+(\d+)/mu.exec(limits)?.[1];
    return allowed === undefined ? undefined : Number(allowed);
  } catch {
    return undefined;
  }
}
