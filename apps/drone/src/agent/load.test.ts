import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BackendMeter, LoadWatch, type MeasuredBackend } from './load.ts';

const log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

function watch(stateDir: string = os.tmpdir()): LoadWatch {
  const backends = () => [{ backendId: 'bk-1', pid: process.pid, isContainer: false }];
  return new LoadWatch({ stateDir, backends, nowMs: () => performance.now(), log });
}

/** Processors are counted by the kernel in hundredths of a second. */
async function looked(on: LoadWatch): Promise<void> {
  do await on.look();
  while (on.machine === undefined);
}

test('a look finds out the load of the machine, in numbers that a controller takes', async () => {
  const on = watch();
  expect(on.machine).toBeUndefined();

  await looked(on);

  expect(on.machine).toMatchObject({
    cpuShare: expect.toSatisfy((share: number) => share >= 0 && share <= 1) as number,
    processors: os.cpus().length,
  });
  for (const what of ['memory', 'disk'] as const) {
    const used = on.machine?.[`${what}UsedBytes`] ?? 0;
    expect(Number.isSafeInteger(used)).toBe(true);
    expect(used).toBeGreaterThan(0);
    expect(on.machine?.[`${what}Bytes`]).toBeGreaterThanOrEqual(used);
  }
});

test('what backends use is told once for each look', async () => {
  const on = watch();
  expect(on.takeUsage()).toBeUndefined();

  await on.look();

  expect(on.takeUsage()).toMatchObject([{ backendId: 'bk-1' }]);
  expect(on.takeUsage()).toBeUndefined();
});

test('a disk that does not answer keeps nothing else from being told', async () => {
  const on = watch('/no/such/folder');

  await on.look();

  expect(on.machine).toBeUndefined();
  expect(on.takeUsage()).toHaveLength(1);
});

const PAGE = 4_096;
const MIB = 1_048_576;

let root: string;
beforeEach(() => {
  root = mkdtempSync(path.join(os.tmpdir(), 'lh-proc-'));
});
afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

function write(file: string, text: string): void {
  const at = path.join(root, file);
  mkdirSync(path.dirname(at), { recursive: true });
  writeFileSync(at, text);
}

interface Process {
  readonly parent?: number;
  readonly session?: number;
  readonly ticks?: number;
  readonly pages?: number;
  readonly cgroup?: string;
}

/** A process as the kernel shows it; its command has brackets and blanks. */
function addProcess(pid: number, of: Process): void {
  const { parent = 1, session = 0, ticks = 0, pages = 0, cgroup = '0::/' } = of;
  const fields = [
    'S',
    parent,
    0,
    session,
    ...Array<number>(7).fill(0),
    ticks,
    0,
    0,
    0,
    ...Array<number>(6).fill(0),
    pages,
    0,
  ];
  write(`proc/${String(pid)}/stat`, `${String(pid)} (a (b) c) ${fields.join(' ')}\n`);
  write(`proc/${String(pid)}/cgroup`, `${cgroup}\n`);
}

/** Where this process sees hierarchies, as the kernel shows it. */
function mounts(...of: readonly [folder: string, type: string, options: string][]): void {
  const lines = of.map(
    ([folder, type, options]) => `31 1 0:1 / ${root}/${folder} rw - ${type} none ${options}`,
  );
  write('proc/self/mountinfo', `${lines.join('\n')}\n`);
}

const meter = (): BackendMeter => new BackendMeter(path.join(root, 'proc'));
const backend = (backendId: string, pid: number): MeasuredBackend => ({
  backendId,
  pid,
  isContainer: false,
});

describe('what a backend uses', () => {
  test('without a control group is the sum of its processes, those of its session too', () => {
    mounts();
    addProcess(10, { pages: 1, ticks: 10 });
    addProcess(11, { parent: 10, pages: 2, ticks: 20 });
    addProcess(12, { parent: 1, session: 10, pages: 4, ticks: 30 });
    addProcess(13, { parent: 12, pages: 8, ticks: 40 });
    addProcess(99, { pages: 1_000, ticks: 1_000 });
    const on = meter();

    const first = on.look([backend('bk-1', 10)], 1_000);
    addProcess(11, { parent: 10, pages: 2, ticks: 120 });
    const second = on.look([backend('bk-1', 10)], 3_000);

    expect(first).toEqual([{ backendId: 'bk-1', memoryBytes: 15 * PAGE }]);
    // A hundred ticks are a second, of the two that have passed.
    expect(second).toEqual([{ backendId: 'bk-1', memoryBytes: 15 * PAGE, cpus: 0.5 }]);
  });

  test('with a group of version 2 is what the kernel counts there, without idle files', () => {
    mounts(['sys', 'cgroup2', 'rw']);
    const folder = 'sys/leasehold/backends/bk-1';
    addProcess(10, { pages: 1 });
    addProcess(11, { parent: 10, pages: 2, cgroup: '0::/leasehold/backends/bk-1' });
    write(`${folder}/memory.current`, `${String(64 * MIB)}\n`);
    write(`${folder}/memory.stat`, `anon 1\ninactive_file ${String(4 * MIB)}\nactive_file 7\n`);
    write(`${folder}/cpu.stat`, 'usage_usec 1000000\nuser_usec 1\n');
    const on = meter();

    on.look([backend('bk-1', 10)], 0);
    write(`${folder}/cpu.stat`, 'usage_usec 4000000\nuser_usec 1\n');

    expect(on.look([backend('bk-1', 10)], 2_000)).toEqual([
      { backendId: 'bk-1', memoryBytes: 60 * MIB, cpus: 1.5 },
    ]);
  });

  test('with groups of version 1, of memory alone, counts processor time by its processes', () => {
    mounts(['memory', 'cgroup', 'rw,memory'], ['cpuacct', 'cgroup', 'rw,cpuacct']);
    addProcess(10, { ticks: 100, cgroup: '4:memory:/lh/bk-1\n2:cpuacct:/\n0::/' });
    write('memory/lh/bk-1/memory.usage_in_bytes', `${String(10 * MIB)}\n`);
    write('memory/lh/bk-1/memory.stat', `cache 1\ntotal_inactive_file ${String(MIB)}\n`);
    const on = meter();

    on.look([backend('bk-1', 10)], 0);
    addProcess(10, { ticks: 150, cgroup: '4:memory:/lh/bk-1\n2:cpuacct:/\n0::/' });

    expect(on.look([backend('bk-1', 10)], 1_000)).toEqual([
      { backendId: 'bk-1', memoryBytes: 9 * MIB, cpus: 0.5 },
    ]);
  });

  test('is never that of a group which others are in too', () => {
    mounts(['sys', 'cgroup2', 'rw']);
    addProcess(10, { pages: 3, cgroup: '0::/system.slice/leasehold-drone.service' });
    write('sys/system.slice/leasehold-drone.service/memory.current', '999999999\n');

    expect(meter().look([backend('bk-1', 10)], 0)).toMatchObject([{ memoryBytes: 3 * PAGE }]);
  });

  test('of a container is that of the group that its engine has made', () => {
    mounts(['sys', 'cgroup2', 'rw']);
    addProcess(10, { pages: 3, cgroup: '0::/machine/libpod-1' });
    write('sys/machine/libpod-1/memory.current', '5000000\n');
    write('sys/machine/libpod-1/memory.stat', 'inactive_file 0\n');

    const found = meter().look([{ ...backend('bk-1', 10), isContainer: true }], 0);

    expect(found).toMatchObject([{ memoryBytes: 5_000_000 }]);
  });

  test('is not less than nothing when a process has left it, and unknown of one that has ended', () => {
    mounts();
    addProcess(10, { ticks: 100 });
    const on = meter();
    on.look([backend('bk-1', 10)], 0);
    addProcess(10, { ticks: 50 });

    expect(on.look([backend('bk-1', 10), backend('bk-2', 77)], 1_000)).toMatchObject([
      { backendId: 'bk-1', cpus: 0 },
    ]);
  });

  test('is listed with those first that use the most memory, and nowhere without /proc', () => {
    mounts();
    addProcess(10, { pages: 1 });
    addProcess(20, { pages: 9 });
    const backends = [backend('small', 10), backend('large', 20)];

    expect(
      meter()
        .look(backends, 0)
        .map((use) => use.backendId),
    ).toEqual(['large', 'small']);
    expect(new BackendMeter(path.join(root, 'nowhere')).look(backends, 0)).toEqual([]);
  });
});

test('this machine shows what this process uses', () => {
  const on = new BackendMeter();
  const own = backend('bk-1', globalThis.process.pid);

  const [first] = on.look([own], 0);
  const [second] = on.look([own], 1_000);

  expect(first?.memoryBytes).toBeGreaterThan(10 * MIB);
  expect(second?.cpus).toBeGreaterThanOrEqual(0);
});
