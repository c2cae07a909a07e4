import { KEY_LADDERS } from '@leasehold/keys-core';
import { isRunning } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { DRONE_ID, Fleet, PATIENT_LADDER } from '../testing/fleet-fixture.ts';
import {
  anotherThan,
  connect,
  connectWithin,
  expectOneAtATime,
  isBeating,
  linesOf,
} from '../testing/fleet-steps.ts';
import { until } from '../testing/wait.ts';

const { ttlMs } = KEY_LADDERS.fast;

describe('a drone that ends, leaves or is replaced', () => {
  test('F8 a frozen warden is ended, its backends die with it, and the drone goes on', async () => {
    await using fleet = await Fleet.open({ ladder: PATIENT_LADDER });
    await fleet.startDrone();
    const first = await connect(fleet);
    await until('the first one runs', isBeating(fleet, first.backendId));
    const wardenPid = fleet.drone().warden().pid;

    process.kill(wardenPid, 'SIGSTOP');
    await until('the frozen warden is ended', () => !isRunning(wardenPid), 15_000);
    const next = await anotherThan(fleet, first.backendId, {
      limitMs: 2 * PATIENT_LADDER.ttlMs,
    });
    await until('the next one runs', isBeating(fleet, next.backendId));

    expectOneAtATime(fleet, [first.backendId, next.backendId]);
  });

  test('Ctrl-C stops every backend softly, reports it and leaves no process', async () => {
    await using fleet = await Fleet.open();
    const { agent } = await fleet.startDrone();
    const { backendId } = await connect(fleet);
    await until('the backend runs', isBeating(fleet, backendId));
    const wardenPid = fleet.drone().warden().pid;

    agent.signal('SIGINT');

    expect(await agent.exited).toBe(0);
    expect(linesOf(fleet, backendId).at(-1)?.kind).toBe('stop');
    expect(isRunning(wardenPid)).toBe(false);
    expect(await fleet.api().backends.get.query({ backendId })).toMatchObject({
      status: 'terminated',
      reason: 'external',
    });
    expect((await fleet.api().drones.get.query({ droneId: DRONE_ID })).status).toBe('stopped');
  });

  test('an agent that leaves hands its backends to the next one', async () => {
    await using fleet = await Fleet.open({ ladder: PATIENT_LADDER });
    const { agent } = await fleet.startDrone();
    const first = await connect(fleet);
    await until('the backend runs', isBeating(fleet, first.backendId));

    agent.signal('SIGUSR2');
    expect(await agent.exited).toBe(0);
    await fleet.drone().startAgent();
    const seenAtMs = linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0;
    await until(
      'it lives on',
      () => (linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0) > seenAtMs + PATIENT_LADDER.ttlMs,
      20_000,
    );

    expect(await connect(fleet)).toMatchObject({ spawned: false, backendId: first.backendId });
  });

  test('the newest of two agents with one id wins; the other ends and stops nothing', async () => {
    await using fleet = await Fleet.open({ ladder: PATIENT_LADDER });
    const { agent: former } = await fleet.startDrone();
    const first = await connect(fleet);

    await fleet.drone().startAgent();

    expect(await former.exited).toBe(1);
    await until('the backend goes on', isBeating(fleet, first.backendId));
    expect(await connectWithin(fleet, ttlMs)).toMatchObject({
      spawned: false,
      backendId: first.backendId,
    });
  });
});
