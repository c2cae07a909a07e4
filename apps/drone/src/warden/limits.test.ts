import { expect, test } from 'vitest';
import { limitLacks, shellLimits } from './limits.ts';

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
