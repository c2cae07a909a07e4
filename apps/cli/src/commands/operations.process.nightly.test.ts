import { fileURLToPath } from 'node:url';
import { waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CliStage } from '../testing/cli-controller.ts';

const ROOM = fileURLToPath(new URL('../../../../examples/room-server/server.mjs', import.meta.url));

let cli: CliStage;

/** With the ladder `standard`: nothing here may depend on how fast a command is. */
beforeAll(async () => {
  cli = await CliStage.open({ ladder: 'standard' });
  const room = { command: process.execPath, args: [ROOM], readiness: { type: 'tcp' } };
  await cli.startDrone({ droneId: 'd1', programs: { room } });
}, 60_000);

afterAll(() => cli.close());

test('the load of a drone and of its backends is shown, in lists and details, and sorts them', async () => {
  const { backendId } = await cli.api().keys.connect.mutate({
    key: { name: 'loaded' },
    spawn: { program: 'room' },
    waitFor: 'ready',
    waitMs: 30_000,
  });
  const { backends, drones } = cli.api();
  // Before that, it is what starts it that is measured.
  const usesMiB = async (): Promise<boolean> =>
    ((await backends.get.query({ backendId })).usage?.memoryBytes ?? 0) > 1_048_576;
  await waitUntil(usesMiB, { timeoutMs: 30_000, what: 'what the backend uses' });

  const drone = await drones.get.query({ droneId: 'd1' });
  const shown = await cli.run('drones', 'show', 'd1');
  const list = await cli.run('drones', 'ls', '--sort', 'memory', '-o', 'wide');
  const backend = await cli.run('backends', 'show', backendId);
  const sorted = await cli.answer<{
    items: { backendId: string; usage: { memoryBytes: number } }[];
  }>(...['backends', 'ls', '--sort', 'memory', '--drone', 'd1']);

  expect(drone.machine?.memoryBytes).toBeGreaterThan(drone.machine?.memoryUsedBytes ?? 0);
  expect(drone.programBackends['room']).toBeGreaterThan(0);
  expect(shown.stdout).toMatch(/^backends +\d+ of \d+ \(.*room \d+/mu);
  expect(shown.stdout).toMatch(/^cpu +(?:< )?\d+ % of \d+ processors$/mu);
  expect(shown.stdout).toMatch(/^memory +\d+ % of [\d.]+ [GT]iB$/mu);
  expect(shown.stdout).toMatch(/^disk +\d+ % of [\d.]+ [GT]iB$/mu);
  expect(list.stdout).toMatch(/^DRONE .*CPU +MEMORY +DISK/mu);
  expect(list.stdout).toMatch(/^d1 .* \d+ % +\d+ % of [\d.]+ [GT]iB +\d+ % of /mu);
  // Node with nothing to do.
  expect(backend.stdout).toMatch(/^memory +[\d.]+ MiB$/mu);
  expect(backend.stdout).toMatch(/^cpu +(?:-|.*\d+ % of one processor)$/mu);
  const memory = sorted.items.map(({ usage }) => usage.memoryBytes);
  expect(sorted.items.map((item) => item.backendId)).toContain(backendId);
  expect(memory).toEqual(memory.toSorted((a, b) => b - a));
});

test('a drone that is told to end is stopped, which no check objects to, and can be removed', async () => {
  const drone = await cli.startDrone({ droneId: 'd2', programs: {} });
  const refused = await cli.refused('drones', 'remove', 'd2');
  drone.agent.signal('SIGTERM');
  expect(await drone.agent.exited).toBe(0);

  const list = await cli.run('drones', 'ls', '--status', 'stopped');
  const shown = await cli.run('drones', 'show', 'd2');
  const doctor = await cli.run('doctor');
  const removed = await cli.run('drones', 'remove', 'd2', '--reason', 'sold');

  expect(refused).toEqual({ exitCode: 1, code: 'drone.in_use' });
  expect(list.stdout).toMatch(/^d2 +stopped /mu);
  expect(shown.stdout).toMatch(/^stopped +\d.* ago$/mu);
  expect(doctor.stdout).toMatch(/drone d2 +stopped .* ago; takes backends again/u);
  expect(removed.stdout).toMatch(
    /^d2 is removed\. .*\n {2}.*: `leasehold tokens revoke [0-9a-f-]{36}`\n$/u,
  );
  expect(await cli.refused('drones', 'show', 'd2')).toEqual({
    exitCode: 4,
    code: 'drone.not_found',
  });
});
