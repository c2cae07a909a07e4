import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFaultProxy, type Direction, type FaultProxy } from '@leasehold/testing';
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

/** A network of its own between a drone and the controller. */
async function networkOf(on: FaultStage): Promise<FaultProxy & { url: string }> {
  const proxy = await startFaultProxy({ host: '127.0.0.1', port: on.controllers[0]?.port ?? 0 });
  on.onClose(() => proxy.close());
  return Object.assign(proxy, { url: `http://127.0.0.1:${String(proxy.port)}` });
}

/** Eight seconds after a renewal of the patient ladder, and as long before soft. */
const HEALED_REMAINING_MS = 14_000;

const CUTS: { name: string; fault: string; directions: Direction[] }[] = [
  { name: 'both', fault: 'both ways', directions: ['up', 'down'] },
  { name: 'up', fault: 'to the controller', directions: ['up'] },
  { name: 'down', fault: 'to the agent', directions: ['down'] },
];

describe.concurrent('a network between agent and controller that drops packets silently', () => {
  for (const { name, fault, directions } of CUTS) {
    test(`F9 ${fault}: the holder stops by its deadlines, the key passes on, and the drone comes back`, async () => {
      const network = await networkOf(stage);
      const programs = { [`cut-${name}`]: 'stubborn', [`back-${name}`]: 'gentle' } as const;
      const droneId = `cut-${name}-1`;
      const program = `cut-${name}`;
      await stage.startDrone({ droneId, programs, controllerUrls: [network.url] });
      const former = await stage.connect(program, program);
      await stage.startDrone({ droneId: `cut-${name}-2`, programs: { [program]: 'stubborn' } });

      const atMs = machineMs();
      network.drop(...directions);
      const next = await stage.successorOf(former, program);
      const { pids } = await stage.untilHeard(next.answer);
      network.heal();
      await stage.untilReady(droneId);

      expectSuccession(stage, { fault: `network cut ${fault}`, atMs, former, next });
      expect(next.answer.droneId).not.toBe(droneId);
      const back = await stage.connect(`back-${name}`, `back-${name}`);
      expect(back.droneId).toBe(droneId);
      await stage.untilRenewed(next.answer);
      await expectUnharmed(stage, { before: next.answer, program, pids });
      await expectSound(stage, former, next.answer, back);
    });
  }

  test('F9 C29 healed before soft loses nothing, because a dropped connection releases nothing: the same process, the same token, the key renewed', async () => {
    const stage = patientStage;
    const network = await networkOf(stage);
    const programs = { brief: 'stubborn' } as const;
    await stage.startDrone({ droneId: 'brief-1', programs, controllerUrls: [network.url] });
    const before = await stage.connect('brief', 'brief');
    const { pids } = await stage.untilHeard(before);
    await stage.untilRenewed(before);

    network.drop();
    // Long enough that the agent notices it, and tries to connect without an answer.
    await stage.untilRemaining(before, HEALED_REMAINING_MS);
    network.heal();
    await stage.untilRenewed(before, 2);

    await expectUnharmed(stage, { before, program: 'brief', pids });
    await expectSound(stage, before);
  });
});
