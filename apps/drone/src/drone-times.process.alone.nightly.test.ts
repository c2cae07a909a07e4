/** How soon a drone acts: times that only a machine with nothing else to do can keep. */
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import { expectPrompt, processesWith } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Fleet } from './testing/fleet-fixture.ts';
import { anotherThan, connect } from './testing/fleet-steps.ts';
import { testedDrone, type TestedDrone } from './testing/tested-drone.ts';
import { until } from './testing/wait.ts';
import { LEASH_MS, startOf, startWarden } from './testing/warden-fixture.ts';

/** How late a leash may act. */
const LATE_MS_MAX = 400;

describe('in time', () => {
  let drone: TestedDrone;
  beforeAll(() => {
    drone = testedDrone();
  });
  afterAll(() => {
    drone[Symbol.dispose]();
  });

  test('a leash ends a warden that is stopped, and its backend with it', async () => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    const marker = `leasehold-${randomUUID()}`;
    const times = { softInMs: 3_000, hardInMs: 3_500 };
    const { hardAtMs } = await link.start(
      startOf(`exec -a ${marker} sleep 600`, { ...times, command: '/bin/bash' }),
    );

    process.kill(warden.pid, 'SIGSTOP');
    await until('the warden is ended', () => warden.process.signalCode !== null, 30_000);
    const lateMs = os.uptime() * 1_000 - hardAtMs - LEASH_MS;
    await until('its backend is gone', () => processesWith(marker).length === 0, 1_000);

    expectPrompt(lateMs, LATE_MS_MAX);
    expect(processesWith(marker)).toEqual([]);
  });

  test('the backends of a warden that is killed die', async () => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    const marker = `leasehold-${randomUUID()}`;
    await link.start(startOf(`exec -a ${marker} sleep 600`, { command: '/bin/bash' }));

    process.kill(warden.pid, 'SIGKILL');

    await until('it is dead', () => processesWith(marker).length === 0, 2_000);
    expect(processesWith(marker)).toEqual([]);
  });

  test('a warden that is told to end does', async () => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    await link.start(startOf('exec sleep 600'));

    await link.shutdown();

    await until('it ends', () => warden.process.exitCode === 0, 3_000);
    expect(warden.process.exitCode).toBe(0);
  });
});

describe('a drone and its controller', () => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await Fleet.open();
    const args = ['-c', 'sleep 0.4; exit 3'];
    const brief = { command: '/bin/sh', args, readiness: { type: 'none' } };
    const stays = { ...brief, args: ['-c', 'exec sleep 600'] };
    await fleet.startDrone({ programs: { brief, stays } });
  });
  afterAll(() => fleet.close());

  test('a backend that ends by itself frees its key at once', async () => {
    const options = { name: 'brief', program: 'brief' };
    const first = await connect(fleet, options);

    const next = await anotherThan(fleet, first.backendId, { ...options, limitMs: 2_500 });

    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(first.fencingToken));
  });

  test('I15 a force revoke kills the backend within a second', async () => {
    const options = { name: 'revoked', program: 'stays' };
    const { leaseId, backendId } = await connect(fleet, options);
    const statusOf = async () => (await fleet.api().backends.get.query({ backendId })).status;

    await fleet.api().keys.revoke.mutate({ leaseId, mode: 'force', reason: 'a test' });

    await until('it is terminated', async () => (await statusOf()) === 'terminated', 1_500);
    expect(await statusOf()).toBe('terminated');
  });
});
