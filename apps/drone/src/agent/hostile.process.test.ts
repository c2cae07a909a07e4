import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { childrenOf, isRunning } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { outputOf } from '../testing/backend-output.ts';
import { DRONE_ID, Fleet, OPEN, PATIENT_LADDER } from '../testing/fleet-fixture.ts';
import { connect } from '../testing/fleet-steps.ts';
import { until } from '../testing/wait.ts';
import { ORDINARY_USER } from '../testing/warden-fixture.ts';

interface Line {
  readonly attack?: string;
  readonly got?: string;
  readonly status?: string;
  readonly environment?: Record<string, string>;
}

const HOSTILE = path.resolve(import.meta.dirname, '../testing/hostile.mjs');
const HOSTILE_MS_MAX = 40_000;
/** What this machine must provide; without it this test would prove nothing. */
const EVERYTHING = { pidNamespace: true, privateProc: true, hiddenHome: true, noNewPrivs: true };

describe.each([
  { who: 'root', isOrdinaryUser: false },
  { who: 'an ordinary user', isOrdinaryUser: true },
])('a hostile program on a drone of $who', ({ isOrdinaryUser }) => {
  test('reads no secret, reaches no process, socket or file of the drone, gains no privileges, and its key is kept', async () => {
    await using fleet = await Fleet.open({ ladder: PATIENT_LADDER });
    const script = path.join(fleet.folder, OPEN, 'hostile.mjs');
    const targetsFile = path.join(fleet.folder, OPEN, 'targets.json');
    copyFileSync(HOSTILE, script);
    const drone = await fleet.startDrone({
      user: isOrdinaryUser && process.getuid?.() === 0 ? ORDINARY_USER : undefined,
      programs: {
        hostile: {
          command: process.execPath,
          args: [script, targetsFile],
          readiness: { type: 'none' },
        },
      },
    });
    const { isolation } = await fleet.api().drones.get.query({ droneId: DRONE_ID });
    expect(isolation).toMatchObject({ user: isOrdinaryUser ? 'shared' : 'own', ...EVERYTHING });
    writeFileSync(path.join(fleet.home, 'run.json'), '{"secret":"of run.json"}', { mode: 0o600 });
    writeFileSync(path.join(fleet.home, 'auth-secret'), 'of auth-secret', { mode: 0o600 });
    const config = readFileSync(drone.configFile, 'utf8');
    writeFileSync(targetsFile, JSON.stringify(targetsOf(fleet)));

    const first = await connect(fleet, { program: 'hostile' });
    await until('it has tried everything', () => isDone(fleet, first.backendId), HOSTILE_MS_MAX);

    const lines = linesOf(fleet, first.backendId);
    expect(lines.filter(({ got }) => got !== undefined)).toEqual([]);
    expect(lines.filter(({ attack }) => attack !== undefined).length).toBeGreaterThan(60);
    expectUnprivileged(lines, isOrdinaryUser);
    expect(readFileSync(drone.configFile, 'utf8')).toBe(config);
    for (const pid of [drone.agent.pid, fleet.drone().warden().pid, fleet.controller().pid]) {
      expect(isRunning(pid)).toBe(true);
    }
    expect(await connect(fleet, { program: 'hostile' })).toMatchObject({
      spawned: false,
      backendId: first.backendId,
    });
  });
});

/** Everything that there is to attack, as an attacker would like to know it. */
function targetsOf(fleet: Fleet): unknown {
  const drone = fleet.drone();
  const { pid: warden, socketPath } = drone.warden();
  const [leash] = childrenOf(warden, 'leasehold-leash');
  return {
    pids: { agent: drone.agent.pid, warden, controller: fleet.controller().pid, leash },
    stateDir: drone.stateDir,
    home: fleet.home,
    socketPath,
    config: drone.configFile,
    program: drone.file,
  };
}

function expectUnprivileged(lines: readonly Line[], isOrdinaryUser: boolean): void {
  const status = lines.find((line) => line.status !== undefined)?.status ?? '';
  expect(status).toMatch(/^NoNewPrivs:\t1$/mu);
  for (const name of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) {
    expect(status).toMatch(new RegExp(`^${name}:\\t0+$`, 'mu'));
  }
  const uid = Number(/^Uid:\t(\d+)/mu.exec(status)?.[1]);
  if (process.getuid?.() !== 0) expect(uid).toBe(process.getuid?.());
  else if (isOrdinaryUser) expect(uid).toBe(65_534);
  else {
    expect(uid).toBeGreaterThanOrEqual(2_100_000_000);
    expect(status).toMatch(/^Groups:\s*$/mu);
  }
}

function linesOf(fleet: Fleet, backendId: string): Line[] {
  const text = outputOf(fleet.drone().stateDir, backendId);
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
}

function isDone(fleet: Fleet, backendId: string): boolean {
  return linesOf(fleet, backendId).some(({ attack }) => attack === 'done');
}
