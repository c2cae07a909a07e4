import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { machineMs } from './stage/machine-time.ts';
import { PATIENT_LADDER, FaultStage, type Answer } from './stage/stage.ts';
import { expectSound, expectUnharmed } from './stage/verdict.ts';

let stage: FaultStage;
let patientStage: FaultStage;
beforeAll(async () => {
  stage = await FaultStage.open();
  patientStage = await FaultStage.open({ ladder: PATIENT_LADDER });
});
afterAll(async ({}, file) => {
  await patientStage.close(file);
  await stage.close(file);
});

describe('a controller that is killed', () => {
  test('F3 C35 and started again has lost no key that it had confirmed, and the backends went on', async () => {
    const stage = patientStage;
    await stage.startDrone({ droneId: 'restart-1', programs: { restart: 'stubborn' } });
    const before = await stage.connect('restart', 'restart');
    const { pids } = await stage.untilHeard(before);
    const api = stage.api();
    const [controller] = stage.controllers;
    if (controller === undefined) throw new Error('no controller');

    // Requests while it dies: some are answered, some are not.
    const answered: Answer[] = [];
    const asking = Array.from({ length: 8 }, async (_, index) => {
      const name = `burst-${String(index)}`;
      answered.push(
        await api.keys.connect.mutate({ key: { name }, spawn: { program: 'restart' } }),
      );
    });
    const settled = Promise.allSettled(asking);
    await waitUntil(() => answered.length > 0, { pollMs: 1 });
    await controller.kill();
    const atMs = machineMs();
    await settled;
    await stage.restartController(controller);

    const fresh = await waitUntil(() => stage.connect('fresh', 'restart'));
    console.log(
      `controller killed and started again: the next connect was ready after ${String(Math.round(machineMs() - atMs))} ms`,
    );
    await stage.untilRenewed(before, 2);

    expect(fresh.spawned).toBe(true);
    expect(answered.length).toBeGreaterThan(0);
    for (const answer of answered) {
      const again = await stage.connect(answer.key.name, 'restart');
      const { backendId, leaseId, fencingToken } = answer;
      expect(again).toMatchObject({ backendId, leaseId, fencingToken, spawned: false });
    }
    await expectUnharmed(stage, { before, program: 'restart', pids });
    await expectSound(stage, before, fresh, ...answered);
  });

  test('F3 just before a renewal is due is replaced by another one of the same database in time', async () => {
    const second = await stage.startController();
    const spare = await stage.startController();
    const drone = await stage.startDrone({
      droneId: 'failover-1',
      programs: { failover: 'stubborn' },
      controllerUrls: [second.url, spare.url],
    });
    const before = await stage.connect('failover', 'failover');
    const { pids } = await stage.untilHeard(before);
    await stage.untilRenewed(before);

    // Just before the renewal is due, when the least time is left to find another.
    await stage.untilRemaining(before, 3_200);
    await second.kill();
    await stage.untilRenewed(before, 2);

    await expectUnharmed(stage, { before, program: 'failover', pids });
    expect(drone.agent.log()).toContain('session opened');
    await expectSound(stage, before);
  });
});
