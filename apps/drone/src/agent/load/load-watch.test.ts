import os from 'node:os';
import { expect, test } from 'vitest';
import { LoadWatch } from './load-watch.ts';

const log = {
  ...{ debug: () => undefined, info: () => undefined },
  ...{ warn: () => undefined, error: () => undefined },
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
