/** Where the kernel shows control groups, of either version. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

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

export interface Mount {
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
