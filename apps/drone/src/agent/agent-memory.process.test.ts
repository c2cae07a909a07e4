import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { bundleEntry } from '../testing/drone-bundle.ts';
import { PATIENT_LADDER, startFleet } from '../testing/fleet-fixture.ts';
import { untilOnline } from '../testing/fleet-steps.ts';
import { until } from '../testing/wait.ts';

const KEYS = 1_000;
const RESIDENT_KB_MAX = 120 * 1_024;

test('the agent holds a thousand keys in 120 MB and renews them all', async () => {
  using bundle = bundleEntry('testing/simulated-main.ts');
  await using fleet = await startFleet({ ...PATIENT_LADDER, renewAfterMs: 4_000 });
  const program = { command: '/bin/true', readiness: { type: 'none' } };
  const agent = fleet.startDrone({
    entry: [process.execPath, bundle.file],
    capacity: KEYS,
    programs: { paper: program },
  });
  await untilOnline(fleet);

  for (let first = 0; first < KEYS; first += 50) {
    await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        fleet.client.api.keys.connect.mutate({
          key: { name: `key-${String(first + index)}` },
          spawn: { program: 'paper' },
        }),
      ),
    );
  }
  const held = async (): Promise<number> =>
    (await fleet.client.api.drones.get.query({ droneId: 'drone-1' }))?.backendCount ?? 0;
  await until('a thousand keys are held', async () => (await held()) === KEYS, 20_000);
  const heldAtMs = performance.now();
  await until(
    'every grant has expired once',
    () => performance.now() - heldAtMs > PATIENT_LADDER.ttlMs,
    20_000,
  );

  expect(await held()).toBe(KEYS);
  const status = readFileSync(`/proc/${String(agent.pid)}/status`, 'utf8');
  expect(Number(/^VmRSS:\s+(\d+)/mu.exec(status)?.[1])).toBeLessThan(RESIDENT_KB_MAX);
}, 90_000);
