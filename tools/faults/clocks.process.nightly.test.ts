import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { machineMs } from './stage/machine-time.ts';
import { skewedEntry, type ClockFault } from './stage/skewed-clocks.ts';
import { Stage } from './stage/stage.ts';
import { expectSound, expectSuccession, expectUnharmed } from './stage/verdict.ts';

const HOUR_MS = 3_600_000;
let folder: string;
let stage: Stage;
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-clocks-'));
  // The controller's wall clock is an hour late and steps back; nothing may depend on it.
  const fault = { wallAheadMs: -HOUR_MS, wallStepsBackEveryMs: 700 };
  stage = await Stage.open({ entry: await skewedEntry(folder, 'controller', fault) });
});
afterAll(async ({}, file) => {
  await stage.close(file);
  await rm(folder, { recursive: true, maxRetries: 10 });
});

const FAULTS: { name: string; clocks: string; fault: ClockFault }[] = [
  { name: 'fast', clocks: 'running 10 % fast', fault: { bootRate: 1.1 } },
  { name: 'slow', clocks: 'running 10 % slow', fault: { bootRate: 0.9 } },
  { name: 'ahead', clocks: 'an hour ahead', fault: { bootAheadMs: HOUR_MS, wallAheadMs: HOUR_MS } },
  {
    name: 'back',
    clocks: 'stepping back',
    fault: { wallAheadMs: -HOUR_MS, wallStepsBackEveryMs: 500 },
  },
];

describe.concurrent('a drone whose clocks are wrong', () => {
  for (const { name, clocks, fault } of FAULTS) {
    test(`C24 F5 F6 ${clocks} keeps its key while nothing fails, and stops in time when its agent is killed`, async () => {
      const programs = { [name]: 'stubborn' } as const;
      const entry = await skewedEntry(folder, 'drone', fault);
      const drone = await stage.startDrone({ droneId: `${name}-1`, programs, entry });
      const former = await stage.connect(name, name);
      const { pids } = await stage.untilHeard(former);
      await stage.untilRenewed(former, 3);
      await expectUnharmed(stage, { before: former, program: name, pids });
      await stage.startDrone({ droneId: `${name}-2`, programs });

      const atMs = machineMs();
      await drone.agent.kill();
      const next = await stage.successorOf(former, name);
      await stage.untilHeard(next.answer);

      expectSuccession(stage, { fault: `agent killed, clocks ${clocks}`, atMs, former, next });
      expect(next.answer.droneId).toBe(`${name}-2`);
      await expectSound(stage, former, next.answer);
    });
  }
});
