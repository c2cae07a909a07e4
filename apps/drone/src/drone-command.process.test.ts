import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { wardenProblem } from './drone-command.ts';
import { DRONE_ID, Fleet } from './testing/fleet-fixture.ts';
import { connect } from './testing/fleet-steps.ts';
import { testedDrone } from './testing/tested-drone.ts';
import { until } from './testing/wait.ts';
import { startWarden } from './testing/warden-fixture.ts';

test('a warden that answers is healthy, and goes on to obey its agent; one that is stopped or gone is not', async () => {
  using drone = testedDrone();
  await using warden = await startWarden(drone);
  const { link, ear } = await warden.connect();

  await expect(wardenProblem(warden.stateDir)).resolves.toBeUndefined();
  await expect(link.list()).resolves.toEqual([]);
  expect(ear).toMatchObject({ isSuperseded: false, isLost: false });
  link.close();
  warden.process.kill('SIGSTOP');
  await expect(wardenProblem(warden.stateDir)).resolves.toContain('not in 3000 ms');
  warden.process.kill('SIGKILL');
  await until('the warden has ended', () => warden.process.signalCode !== null);
  await expect(wardenProblem(warden.stateDir)).resolves.toContain('ECONNREFUSED');
});

test('a drone whose warden has never started is not healthy', async () => {
  const stateDir = mkdtempSync(path.join(os.tmpdir(), 'lh-health-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true }));

  await expect(wardenProblem(stateDir)).resolves.toBe(`no warden has started in ${stateDir}`);
});

test('an agent whose record cannot be written serves its backends all the same', async () => {
  const fleet = await Fleet.open();
  onTestFinished(() => fleet.close());
  // In the way of the record, as a full disk is.
  mkdirSync(path.join(fleet.home, DRONE_ID, 'agent.json'), { recursive: true, mode: 0o700 });

  const drone = await fleet.startDrone();

  expect(await connect(fleet, {})).toMatchObject({ status: 'ready' });
  expect(drone.log()).toContain('the record of this agent could not be written');
});
