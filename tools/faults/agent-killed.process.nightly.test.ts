import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { machineMs } from './stage/machine-time.ts';
import { FaultStage, PATIENT_LADDER } from './stage/stage.ts';
import { expectSound, expectSuccession, expectUnharmed } from './stage/verdict.ts';

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

/** From the ladder `fast`. */
const HARD_REMAINING_MS = 1_000;
const PATIENT_RENEWAL_DUE_REMAINING_MS = PATIENT_LADDER.ttlMs - PATIENT_LADDER.renewAfterMs;

describe.concurrent('an agent that is killed', () => {
  test('F4b leaves its backends to the warden, which stops them at soft and at hard; then another drone gets their keys', async () => {
    const programs = { 'kill-gentle': 'gentle', 'kill-stubborn': 'stubborn' } as const;
    const first = await stage.startDrone({ droneId: 'kill-1', programs });
    const gentle = await stage.connect('kill-gentle', 'kill-gentle');
    const stubborn = await stage.connect('kill-stubborn', 'kill-stubborn');
    await stage.startDrone({ droneId: 'kill-2', programs });

    const atMs = machineMs();
    await first.agent.kill();
    const [afterGentle, afterStubborn] = await Promise.all([
      stage.successorOf(gentle, 'kill-gentle'),
      stage.successorOf(stubborn, 'kill-stubborn'),
    ]);
    await Promise.all([
      stage.untilHeard(afterGentle.answer),
      stage.untilHeard(afterStubborn.answer),
    ]);

    const fault = 'agent killed';
    expectSuccession(stage, { fault, atMs, former: gentle, next: afterGentle });
    expectSuccession(stage, { fault, atMs, former: stubborn, next: afterStubborn });
    expect(afterStubborn.answer.droneId).toBe('kill-2');
    await expectSound(stage, gentle, stubborn, afterGentle.answer, afterStubborn.answer);
    const askedBeforeExpiryMs = stage.expiryOf(gentle) - (stage.life(gentle)?.askedToStopAtMs ?? 0);
    expect(askedBeforeExpiryMs, 'asked before hard').toBeGreaterThan(HARD_REMAINING_MS);
    const endedBeforeExpiryMs = stage.expiryOf(stubborn) - (stage.life(stubborn)?.lastAtMs ?? 0);
    expect(endedBeforeExpiryMs, 'killed before the expiry').toBeGreaterThan(0);
  });

  test('F4b and started again before soft adopts: the same process, the same token, the key renewed', async () => {
    const stage = patientStage;
    const drone = await stage.startDrone({ droneId: 'adopt-1', programs: { adopt: 'stubborn' } });
    const before = await stage.connect('adopt', 'adopt');
    const { pids } = await stage.untilHeard(before);

    await drone.agent.kill();
    await drone.startAgent();
    await stage.untilRenewed(before, 2);

    await expectUnharmed(stage, { before, program: 'adopt', pids });
    await expectSound(stage, before);
  });

  test('F4b an agent that leaves just before a renewal is due renews first, for the next agent', async () => {
    const stage = patientStage;
    const drone = await stage.startDrone({ droneId: 'leave-1', programs: { leave: 'stubborn' } });
    const before = await stage.connect('leave', 'leave');
    const { pids } = await stage.untilHeard(before);
    await stage.untilRemaining(before, PATIENT_RENEWAL_DUE_REMAINING_MS + 100);

    drone.agent.signal('SIGUSR2');
    expect(await drone.agent.exited).toBe(0);
    const leftAtMs = machineMs();
    await waitUntil(
      () => stage.expiryOf(before) - leftAtMs > PATIENT_RENEWAL_DUE_REMAINING_MS + 1_000,
      { what: 'the record of a renewal as it left' },
    );
    await drone.startAgent();
    await stage.untilRenewed(before, 2);

    await expectUnharmed(stage, { before, program: 'leave', pids });
    await expectSound(stage, before);
  });

  test('F4b and started again too late reports what the warden stopped, and takes the key again', async () => {
    const drone = await stage.startDrone({ droneId: 'late-1', programs: { late: 'gentle' } });
    const former = await stage.connect('late', 'late');

    const atMs = machineMs();
    await drone.agent.kill();
    await stage.untilSilent(former);
    await drone.startAgent();
    const next = await stage.successorOf(former, 'late');
    await stage.untilHeard(next.answer);

    expectSuccession(stage, {
      fault: 'agent killed and started again after soft',
      isReleased: true,
      atMs,
      former,
      next,
    });
    await expectSound(stage, former, next.answer);
  });
});
