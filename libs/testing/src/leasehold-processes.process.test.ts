import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Stage } from './stage/stage.ts';
import { openTestStage } from './stage/test-stage.ts';

let stage: Stage;

beforeAll(async () => {
  const idle = { command: '/bin/sleep', args: ['1000'], readiness: { type: 'tcp' } };
  stage = await openTestStage({ drones: [{ droneId: 'd1', programs: { idle } }] });
});

afterAll(() => stage.close());

test('a controller and a drone run as they ship, and end when they are asked', async () => {
  const drones = await stage.api('viewer').drones.list.query({});

  expect(drones).toMatchObject({ items: [{ droneId: 'd1' }] });
  expect(stage.drone().warden().pid).toBeGreaterThan(1);
  expect(await stage.drone().agent.stop()).toBe(0);
  expect(await stage.controller().stop()).toBe(0);
});
