/** What the processes of a control group use together, by the kernel's own count. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { groupOf, inMount, mountOf } from '../../warden/limits/group-folders.ts';

/** The folders of a backend's groups; each is left out where the backend has none of its own. */
export interface GroupFolders {
  readonly memory?: { readonly version: 1 | 2; readonly folder: string } | undefined;
  readonly cpu?: { readonly version: 1 | 2; readonly folder: string } | undefined;
}

/**
 * The groups that a process is in, as far as `isOwn` tells by their paths that they are the backend's alone.
 * `proc` is the folder of the process in `/proc`, `self` that of this one.
 */
export function groupsOf(
  proc: string,
  self: string,
  isOwn: (group: string) => boolean,
): GroupFolders {
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
export function memoryOf({ memory }: GroupFolders): number | undefined {
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
export function cpuUsOf({ cpu }: GroupFolders): number | undefined {
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
