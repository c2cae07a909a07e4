import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { baseOfSecond, limitLacks, openFilesProblem, shellLimits } from './limits.ts';

const limits = { memoryBytes: 2 ** 30, pids: 50, cpus: null, fileBytes: 2 ** 20, together: 4 };
const user = { uid: 2_100_000_001, gid: 2_100_000_001 };

test('where control groups bound all of a backend, only what is of one process is bounded besides', () => {
  const bounds = (): boolean => true;

  expect(shellLimits({ limits, user, isUserNamespace: false, bounds })).toBe(
    'ulimit -c 0\nulimit -n 65536\nulimit -f 2048',
  );
  expect(limitLacks(bounds)).toEqual([]);
});

test.each([
  { who: 'a user of its own', user, isUserNamespace: false, processes: 200 },
  { who: 'a user namespace of its own', user: null, isUserNamespace: true, processes: 50 },
  { who: "the drone's own user", user: null, isUserNamespace: false, processes: null },
])('without control groups, a program with $who', ({ user, isUserNamespace, processes }) => {
  const bounds = (): boolean => false;

  const lines = shellLimits({ limits, user, isUserNamespace, bounds });

  expect(lines).toContain('ulimit -d 1048576');
  // The other backends of the user count too: a bound for one of them would keep them from starting.
  if (processes === null) expect(lines).not.toMatch(/ulimit -[up]/u);
  else expect(lines).toContain(`ulimit -u ${String(processes)} || ulimit -p ${String(processes)}`);
  expect(limitLacks(bounds)).toEqual([
    'control groups to bound processes, memory, processors of each backend',
  ]);
});

describe('groups of version 2', () => {
  const SERVICE = '/system.slice/leasehold-drone.service';

  let root: string;
  beforeEach(() => {
    root = mkdtempSync(path.join(os.tmpdir(), 'lh-groups-'));
  });
  afterEach(() => {
    rmSync(root, { recursive: true, force: true });
  });

  interface Seen {
    readonly own: string;
    /** Of the hierarchy, what the process sees. */
    readonly mountRoot?: string;
    /** The processes of what is above its group. */
    readonly others?: string;
  }

  /** Makes the folders of a process in `/proc` and of the groups that it sees. */
  function seen({ own, mountRoot = '/', others = '' }: Seen): { self: string; above: string } {
    const [self, groups] = [path.join(root, 'self'), path.join(root, 'groups')];
    const above = path.join(groups, mountRoot === '/' ? path.dirname(own) : '/');
    mkdirSync(self);
    mkdirSync(above, { recursive: true });
    writeFileSync(path.join(above, 'cgroup.procs'), others);
    writeFileSync(path.join(self, 'cgroup'), `4:memory:/elsewhere\n0::${own}\n`);
    const mount = `31 1 0:1 ${mountRoot} ${groups} rw - cgroup2 none rw`;
    writeFileSync(path.join(self, 'mountinfo'), `30 1 0:2 / / rw - ext4 none rw\n${mount}\n`);
    return { self, above };
  }

  test.each([
    { where: 'on a machine', mountRoot: '/' },
    { where: 'in a container that sees a part of the hierarchy', mountRoot: SERVICE },
  ])('are made beside the group `drone` of a drone $where', ({ mountRoot }) => {
    const { self, above } = seen({ own: `${SERVICE}/drone`, mountRoot });

    const folder = path.join(above, 'backends');
    expect(baseOfSecond('pids', self)).toEqual({ version: 2, above: path.resolve(above), folder });
    for (const each of [above, folder]) {
      expect(readFileSync(path.join(each, 'cgroup.subtree_control'), 'utf8')).toBe('+pids');
    }
  });

  test.each([
    { of: 'a drone in a group of another name', own: SERVICE },
    { of: 'a drone in the root of the hierarchy', own: '/' },
    { of: 'a drone below a group with other processes', own: `${SERVICE}/drone`, others: '7\n' },
  ])('are not made for $of', (of) => {
    const { self, above } = seen(of);

    expect(baseOfSecond('memory', self)).toBeUndefined();
    expect(existsSync(path.join(above, 'backends'))).toBe(false);
    expect(existsSync(path.join(above, 'cgroup.subtree_control'))).toBe(false);
  });
});

test('a drone is warned of a capacity for which its warden may open too few files', () => {
  expect(openFilesProblem(process.pid, 1_000_000_000)).toMatch(
    /^a capacity of 1000000000 may need 6000000100 open files, and \d+ are allowed/u,
  );
  expect(openFilesProblem(process.pid, 1)).toBeUndefined();
});
