import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { machineMs } from './stage/machine-time.ts';
import { FaultStage } from './stage/stage.ts';
import { expectSound, expectSuccession } from './stage/verdict.ts';

let stage: FaultStage;
beforeAll(async () => {
  stage = await FaultStage.open();
});
afterAll(({}, file) => stage.close(file));

describe('a warden that is killed', () => {
  test('F4c takes its backends with it, descendants included; the key runs out, and a new warden with a new clock serves it', async () => {
    const drone = await stage.startDrone({ droneId: 'warden-1', programs: { family: 'family' } });
    const former = await stage.connect('family', 'family');
    const family = await waitUntil(() => {
      const life = stage.life(former);
      return life?.pids.size === 2 ? life : undefined;
    });
    const dead = drone.warden();

    const atMs = machineMs();
    await drone.killWarden();
    const next = await stage.successorOf(former, 'family');
    await stage.untilHeard(next.answer);

    expect(family.pids.size, 'a program and a descendant in a session of its own').toBe(2);
    expect(next.atMs, 'nobody takes the key before it has run out').toBeGreaterThan(
      stage.expiryOf(former),
    );
    expectSuccession(stage, { fault: 'warden killed', atMs, former, next });
    await expectSound(stage, former, next.answer);
    const heir = drone.warden();
    expect(heir.clockId).not.toBe(dead.clockId);
    expect(heir.pid).not.toBe(dead.pid);
    const { clockId } = await stage.api().drones.get.query({ droneId: 'warden-1' });
    expect(clockId).toBe(heir.clockId);
  });
});
