import { randomUUID } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { processesWith } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { outputOf } from '../testing/backend-output.ts';
import { testedDrone, type TestedDrone } from '../testing/tested-drone.ts';
import { until } from '../testing/wait.ts';
import {
  ORDINARY_USER,
  startOf,
  startWarden,
  type WardenFixture,
} from '../testing/warden-fixture.ts';
import { ControlGroups } from './limits.ts';
import type { CommandLimits } from './protocol.ts';

const MEGABYTE = 1_048_576;
const LIMITS: CommandLimits = {
  memoryBytes: 64 * MEGABYTE,
  pids: 30,
  cpus: null,
  fileBytes: MEGABYTE,
  together: 1,
};

let drone: TestedDrone;
beforeAll(() => {
  drone = testedDrone();
});
afterAll(() => {
  drone[Symbol.dispose]();
});

/** Starts a backend of a script with {@link LIMITS}. @returns what it has printed, when it has printed `done`. */
async function printedBy(warden: WardenFixture, script: string): Promise<string> {
  const { link } = await warden.connect();
  const start = startOf(`${script}\necho done; exec sleep 600`, { cwd: null, limits: LIMITS });
  await link.start(start);
  const output = (): string => outputOf(warden.stateDir, start.backendId);
  await until('it is done', () => output().endsWith('done\n'), 30_000);
  return output();
}

/** Whether control groups bound the memory of backends of a warden that this process starts. */
function isMemoryBound(stateDir: string, isOrdinaryUser: boolean): boolean {
  if (isOrdinaryUser && process.getuid?.() === 0) return false;
  return ControlGroups.find(stateDir).bounds('memory');
}

describe.each([
  { who: 'root or the user who runs the tests', isOrdinaryUser: false },
  { who: 'an ordinary user', isOrdinaryUser: true },
])('a hostile program of a drone of $who', ({ isOrdinaryUser }) => {
  test('that forks has at most as many processes as it may', async () => {
    await using warden = await startWarden(drone, { isOrdinaryUser });
    const marker = `leasehold-bomb-${path.basename(warden.stateDir).toLowerCase()}`;

    await printedBy(
      warden,
      `( i=0; while [ $i -lt 300 ]; do i=$((i+1)); bash -c 'exec -a ${marker} sleep 600' & done ) 2>/dev/null`,
    );

    const count = processesWith(marker).length;
    expect(count).toBeGreaterThan(10);
    expect(count).toBeLessThanOrEqual(LIMITS.pids);
  });

  test('that takes more memory than it may is ended, and told why where the kernel bounds it', async () => {
    await using warden = await startWarden(drone, { isOrdinaryUser });
    const { link, ear } = await warden.connect();
    const start = startOf(
      'head -c 400000000 /dev/zero | tail >/dev/null; code=$?; echo "memory $code"; exit $code',
      { cwd: null, limits: LIMITS },
    );
    await link.start(start);

    await until('it is gone', () => ear.changes.at(-1)?.state === 'gone', 30_000);

    const isBound = isMemoryBound(warden.stateDir, isOrdinaryUser);
    expect(outputOf(warden.stateDir, start.backendId)).not.toContain('memory 0');
    expect(ear.changes.at(-1)).toMatchObject({
      exitCode: expect.not.toSatisfy((code) => code === 0) as number | null,
      detail: isBound
        ? (expect.stringContaining('memory limit 64 MiB reached (memoryMax)') as string)
        : null,
    });
  });

  test('that takes memory as files, writes long files or opens many, is stopped', async () => {
    await using warden = await startWarden(drone, { isOrdinaryUser });

    const printed = await printedBy(
      warden,
      `exec 2>/dev/null
       (i=0; while [ $i -lt 80 ]; do i=$((i+1)); head -c 1000000 /dev/zero >/dev/shm/$i || exit 1; done)
       echo "shared $?"; rm -f /dev/shm/[0-9]*
       (head -c 4000000 /dev/zero >"$HOME/x"); echo "file $?"; ls -l "$HOME/x" | awk '{ print "length", $5 }'
       echo "files $(ulimit -n)"; echo "core $(ulimit -c)"; ls /dev/shm | sed 's/^/seen /'`,
    );

    expect(printed).toMatch(/^shared [1-9]\d*$/mu);
    expect(printed).toMatch(/^file [1-9]\d*$/mu);
    expect(printed).toMatch(/^length 1048576$/mu);
    expect(Number(/^files (\d+)$/mu.exec(printed)?.[1])).toBeLessThanOrEqual(65_536);
    expect(printed).toMatch(/^core 0$/mu);
    // What other programs of the machine have there is not shown.
    expect(printed).not.toContain('seen');
  });
});

test.runIf(isMemoryBound(os.tmpdir(), false) && process.getuid?.() === 0)(
  'swap does not add to the memory that a backend may take',
  async () => {
    await using warden = await startWarden(drone);

    const printed = await printedBy(warden, 'cat /proc/self/cgroup');

    const first = /:memory:(.*)/u.exec(printed)?.[1];
    const second = /^0::(.*)/mu.exec(printed)?.[1] ?? '';
    const [file, most] =
      first === undefined
        ? [`/sys/fs/cgroup${second}/memory.swap.max`, 0]
        : [`/sys/fs/cgroup/memory${first}/memory.memsw.limit_in_bytes`, LIMITS.memoryBytes];
    expect(Number(readFileSync(file, 'utf8'))).toBe(most);
  },
);

/** A group that this user may give to another: where the first version bounds processes, and this is root. */
const PIDS = '/sys/fs/cgroup/pids';
const mayDelegate = process.getuid?.() === 0 && existsSync(path.join(PIDS, 'cgroup.procs'));

test.runIf(mayDelegate)(
  'a program of the drone’s own user changes no control group, though the drone may: not its own limits, nor those of the drone',
  async () => {
    const { uid, gid } = ORDINARY_USER;
    const group = path.join(PIDS, `leasehold-test-${randomUUID()}`);
    mkdirSync(group);
    for (const file of ['', 'cgroup.procs', 'pids.max']) {
      chownSync(path.join(group, file), uid, gid);
    }
    const joined = ['/bin/sh', '-c', `echo 0 >${group}/cgroup.procs && exec "$@"`, 'sh'];
    const words = [...joined, ...drone.words] as const;
    try {
      await using warden = await startWarden({ words }, { isOrdinaryUser: true });

      const printed = await printedBy(
        warden,
        `own=${PIDS}$(sed -n 's/.*:pids://p' /proc/self/cgroup); echo "in $own"
         for file in $own/pids.max $own/cgroup.procs ${group}/pids.max ${group}/cgroup.procs; do
           (echo 0 >$file) 2>/dev/null && echo "wrote $file"
         done`,
      );

      expect(printed).toMatch(new RegExp(`^in ${group}/leasehold-.*/b-`, 'mu'));
      expect(printed).not.toContain('wrote');
    } finally {
      await until('nothing is left of its groups', () => isRemoved(group));
    }
  },
);

/** Removes a group and all that are in it, once their processes have ended. */
function isRemoved(group: string): boolean {
  if (!existsSync(group)) return true;
  for (const entry of readdirSync(group, { withFileTypes: true })) {
    if (entry.isDirectory()) isRemoved(path.join(group, entry.name));
  }
  try {
    rmdirSync(group);
    return true;
  } catch {
    return false;
  }
}
