import type { ClockFault } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { machineMs } from './stage/machine-time.ts';
import { FaultStage } from './stage/stage.ts';
import { expectSound, expectSuccession, expectUnharmed } from './stage/verdict.ts';

const HOUR_MS = 3_600_000;
let stage: FaultStage;
beforeAll(async () => {
  // The controller's wall clock is an hour late and steps back; nothing may depend on it.
  const clock = { wallAheadMs: -HOUR_MS, wallStepsBackEveryMs: 700 };
  stage = await FaultStage.open({ clock });
});
afterAll(({}, file) => stage.close(file));

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
      const drone = await stage.startDrone({ droneId: `${name}-1`, programs, clock: fault });
      const former = await stage.connect(name, name);
      const { pids } = await stage.untilHeard(former);
      await stage.untilRenewed(former, 3);
      await expectUnharmed(stage, { before: former, program: name, pids });
      await stage.startDrone({ droneId: `${name}-2`, programs });

      const atMs = machineMs();
      await drone.agent.kill();
      const next = await stage.successorOf(former, name);
      await stage.untilHeard(next.answer);

      expectSuccession(stage, {
        fault: `agent killed, clocks ${clocks}`,
        atMs,
        former,
        next,
      });
      expect(next.answer.droneId).toBe(`${name}-2`);
      await expectSound(stage, former, next.answer);
    });
  }
});
