import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { machineMs } from './stage/machine-time.ts';
import { FaultStage } from './stage/stage.ts';
import { expectSound, expectSuccession, expectUnharmed } from './stage/verdict.ts';

let stage: FaultStage;
beforeAll(async () => {
  stage = await FaultStage.open();
});
afterAll(({}, file) => stage.close(file));

describe.concurrent('an agent that is stopped and continued', () => {
  test('F1 after the expiry does no harm, reports what the warden stopped, and goes on working', async () => {
    const paused = await stage.startDrone({
      droneId: 'pause-1',
      programs: { pause: 'stubborn', after: 'gentle' },
    });
    const former = await stage.connect('pause', 'pause');
    await stage.startDrone({ droneId: 'pause-2', programs: { pause: 'stubborn' } });

    const atMs = machineMs();
    paused.agent.signal('SIGSTOP');
    const next = await stage.successorOf(former, 'pause');
    const { pids } = await stage.untilHeard(next.answer);
    paused.agent.signal('SIGCONT');
    await stage.untilReady('pause-1');

    expectSuccession(stage, {
      fault: 'agent stopped',
      atMs,
      former,
      next,
    });
    expect(next.answer.droneId).toBe('pause-2');
    const after = await stage.connect('after', 'after');
    expect(after).toMatchObject({ droneId: 'pause-1', spawned: true });
    // What the continued agent reports changes nothing for the newer holder.
    await stage.untilRenewed(next.answer);
    await expectUnharmed(stage, { before: next.answer, program: 'pause', pids });
    const { backendId } = former;
    await waitUntil(
      async () => (await stage.api().drones.get.query({ droneId: 'pause-1' })).backendCount === 1,
    );
    expect(await stage.api().backends.get.query({ backendId })).toMatchObject({
      status: 'terminated',
      reason: 'drone_lost',
    });
    await expectSound(stage, former, next.answer, after);
  });

  test('F1 before soft loses nothing: the same process, the same token, the key renewed', async () => {
    const drone = await stage.startDrone({ droneId: 'nap-1', programs: { nap: 'stubborn' } });
    const before = await stage.connect('nap', 'nap');
    const { pids } = await stage.untilHeard(before);
    await stage.untilRenewed(before);

    drone.agent.signal('SIGSTOP');
    // The renewal is due.
    await stage.untilRemaining(before, 3_000);
    drone.agent.signal('SIGCONT');
    await stage.untilRenewed(before, 2);

    await expectUnharmed(stage, { before, program: 'nap', pids });
    await expectSound(stage, before);
  });
});
