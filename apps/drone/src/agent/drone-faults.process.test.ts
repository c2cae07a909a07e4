import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { KEY_LADDERS } from '@leasehold/keys-core';
import { bundleEntry, type DroneBundle } from '../testing/drone-bundle.ts';
import { PATIENT_LADDER, startFleet } from '../testing/fleet-fixture.ts';
import {
  anotherThan,
  connect,
  connectWithin,
  expectOneAtATime,
  isBeating,
  linesOf,
  untilOnline,
} from '../testing/fleet-steps.ts';
import { isRunning } from '../testing/processes.ts';
import { startSilentProxy } from '../testing/silent-proxy.ts';
import { until } from '../testing/wait.ts';

const { hardAfterMs, ttlMs } = KEY_LADDERS.fast;

describe('faults', () => {
  test('F4b the agent is killed and restarted in time: it adopts its backends, same process, same token', async () => {
    await using fleet = await startFleet(PATIENT_LADDER);
    const agent = fleet.startDrone();
    await untilOnline(fleet);
    const first = await connect(fleet);

    agent.child.kill('SIGKILL');
    await until('the agent ended', agent.hasEnded);
    fleet.startDrone();
    const wasAliveAtMs = linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0;
    await until(
      'it lives past the former deadlines',
      () =>
        (linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0) > wasAliveAtMs + PATIENT_LADDER.ttlMs,
      20_000,
    );

    expect(await connect(fleet)).toMatchObject({
      spawned: false,
      backendId: first.backendId,
      fencingToken: first.fencingToken,
    });
    expect(linesOf(fleet, first.backendId).filter((line) => line.kind === 'start')).toHaveLength(1);
  });

  test('F4b the agent is killed for good: the warden stops its backend on time, and the key passes on', async () => {
    await using fleet = await startFleet();
    const agent = fleet.startDrone();
    await untilOnline(fleet);
    const first = await connect(fleet);

    agent.child.kill('SIGKILL');
    const killedAtMs = performance.now();
    await until(
      'its backend is stopped',
      () => linesOf(fleet, first.backendId).at(-1)?.kind === 'stop',
      hardAfterMs + 1_000,
    );
    fleet.startDrone();
    const next = await anotherThan(fleet, first.backendId, ttlMs + 1_000);

    expect(performance.now() - killedAtMs).toBeLessThan(ttlMs + 3_000);
    await until('the next one runs', () => linesOf(fleet, next.backendId).length > 0);
    expectOneAtATime(fleet, [first.backendId, next.backendId]);
  });

  test('F1 F2 the agent is stopped past every deadline and continued: nothing runs twice', async () => {
    await using fleet = await startFleet();
    const agent = fleet.startDrone();
    await untilOnline(fleet);
    const first = await connect(fleet);

    agent.child.kill('SIGSTOP');
    await until(
      'its backend is stopped',
      () => linesOf(fleet, first.backendId).at(-1)?.kind === 'stop',
      hardAfterMs + 1_000,
    );
    await until(
      'its key has expired',
      async () => (await fleet.client.api.keys.get.query({ name: 'room' }))?.phase !== 'held',
      ttlMs + 1_000,
    );
    agent.child.kill('SIGCONT');
    const next = await anotherThan(fleet, first.backendId, ttlMs + 1_000);
    await until('the next one runs', isBeating(fleet, next.backendId));

    expectOneAtATime(fleet, [first.backendId, next.backendId]);
  });

  test('F4c the warden is killed: its backends die with it, and the drone goes on with a new clock', async () => {
    await using fleet = await startFleet();
    fleet.startDrone();
    await untilOnline(fleet);
    const first = await connect(fleet);
    await until('it beats', isBeating(fleet, first.backendId));

    process.kill(fleet.wardenPid(), 'SIGKILL');
    const next = await anotherThan(fleet, first.backendId, ttlMs + 2_000);
    await until('the next one runs', isBeating(fleet, next.backendId));

    expectOneAtATime(fleet, [first.backendId, next.backendId]);
  });

  test('F8 the warden is frozen: it is ended, its backends die with it, and the drone goes on', async () => {
    await using fleet = await startFleet(PATIENT_LADDER);
    fleet.startDrone();
    await untilOnline(fleet);
    const first = await connect(fleet);
    const wardenPid = fleet.wardenPid();

    process.kill(wardenPid, 'SIGSTOP');
    await until('the frozen warden is ended', () => !isRunning(wardenPid), 15_000);
    const next = await anotherThan(fleet, first.backendId, 2 * PATIENT_LADDER.ttlMs);
    await until('the next one runs', isBeating(fleet, next.backendId));

    expectOneAtATime(fleet, [first.backendId, next.backendId]);
  });

  test('C35 the controller is killed and restarted: the backend keeps its key and its token', async () => {
    await using fleet = await startFleet(PATIENT_LADDER);
    fleet.startDrone();
    await untilOnline(fleet);
    const first = await connect(fleet);

    fleet.controller.child.kill('SIGKILL');
    await until('the controller ended', fleet.controller.hasEnded);
    await fleet.startController();
    await until(
      'the backend outlives its ladder',
      () =>
        (linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0) >
        (linesOf(fleet, first.backendId)[0]?.atMs ?? 0) + PATIENT_LADDER.ttlMs,
      20_000,
    );

    expect(await connect(fleet)).toMatchObject({
      spawned: false,
      backendId: first.backendId,
      fencingToken: first.fencingToken,
    });
  });

  test('Ctrl-C stops every backend softly, reports it and leaves no process', async () => {
    await using fleet = await startFleet();
    const agent = fleet.startDrone();
    await untilOnline(fleet);
    const { backendId } = await connect(fleet);
    const wardenPid = fleet.wardenPid();

    agent.child.kill('SIGINT');
    await until('the agent ended', agent.hasEnded);

    expect(agent.child.exitCode).toBe(0);
    expect(linesOf(fleet, backendId).at(-1)?.kind).toBe('stop');
    expect(isRunning(wardenPid)).toBe(false);
    expect(await fleet.client.api.backends.get.query({ backendId })).toMatchObject({
      status: 'terminated',
      reason: 'external',
    });
  });

  test('an agent that leaves hands its backends to the next one', async () => {
    await using fleet = await startFleet(PATIENT_LADDER);
    const agent = fleet.startDrone();
    await untilOnline(fleet);
    const first = await connect(fleet);

    agent.child.kill('SIGUSR2');
    await until('the agent ended', agent.hasEnded);
    expect(agent.child.exitCode).toBe(0);
    fleet.startDrone();
    const seenAtMs = linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0;
    await until(
      'it lives on',
      () => (linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0) > seenAtMs + PATIENT_LADDER.ttlMs,
      20_000,
    );

    expect(await connect(fleet)).toMatchObject({ spawned: false, backendId: first.backendId });
  });

  test('the newest of two agents with one id wins; the other ends and stops nothing', async () => {
    await using fleet = await startFleet(PATIENT_LADDER);
    const former = fleet.startDrone();
    await untilOnline(fleet);
    const first = await connect(fleet);

    fleet.startDrone();
    await until('the former ended', former.hasEnded);

    expect(former.child.exitCode).toBe(1);
    await until('the backend goes on', isBeating(fleet, first.backendId));
    expect(await connectWithin(fleet, ttlMs)).toMatchObject({
      spawned: false,
      backendId: first.backendId,
    });
  });
});

describe('F9 the network between agent and controller drops everything in silence', () => {
  test('for good: the backend is stopped on time, and the key passes on once it is back', async () => {
    await using fleet = await startFleet();
    await using network = await startSilentProxy(fleet.controllerUrl);
    fleet.startDrone({ controllerUrl: network.url });
    await untilOnline(fleet);
    const first = await connect(fleet);
    await until('it beats', isBeating(fleet, first.backendId));

    network.cut();
    await until(
      'its backend is stopped',
      () => linesOf(fleet, first.backendId).at(-1)?.kind === 'stop',
      hardAfterMs + 1_000,
    );
    await until(
      'its key has expired',
      async () => (await fleet.client.api.keys.get.query({ name: 'room' }))?.phase !== 'held',
      ttlMs,
    );
    network.heal();
    const next = await anotherThan(fleet, first.backendId, ttlMs + 1_000);
    await until('the next one runs', isBeating(fleet, next.backendId));

    expectOneAtATime(fleet, [first.backendId, next.backendId]);
  });

  test('for a moment: the agent notices, connects again and keeps its key', async () => {
    await using fleet = await startFleet(PATIENT_LADDER);
    await using network = await startSilentProxy(fleet.controllerUrl);
    fleet.startDrone({ controllerUrl: network.url });
    await untilOnline(fleet);
    const first = await connect(fleet);

    network.cut();
    const cutAtMs = performance.now();
    await until('half a second is over', () => performance.now() - cutAtMs > 500);
    network.heal();
    const seenAtMs = linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0;
    await until(
      'it lives past its former deadlines',
      () => (linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0) > seenAtMs + PATIENT_LADDER.ttlMs,
      20_000,
    );

    expect(await connect(fleet)).toMatchObject({ spawned: false, backendId: first.backendId });
  });
});

describe('C24 F6 the clock of the drone', () => {
  let skewed: DroneBundle;
  beforeAll(() => {
    skewed = bundleEntry('testing/skewed-main.ts');
  });
  afterAll(() => {
    skewed[Symbol.dispose]();
  });

  test.each([
    { name: 'an hour ahead', rate: 1, offsetMs: 3_600_000 },
    { name: '10 % slow', rate: 0.9, offsetMs: 0 },
    { name: '10 % fast', rate: 1.1, offsetMs: 0 },
  ])(
    '$name: keys are kept while it lives, and nothing runs twice when it dies',
    async ({ rate, offsetMs }) => {
      await using fleet = await startFleet();
      const entry = [process.execPath, skewed.file, String(rate), String(offsetMs)];
      const agent = fleet.startDrone({ entry });
      await untilOnline(fleet);
      const first = await connect(fleet);
      const beganAtMs = linesOf(fleet, first.backendId)[0]?.atMs ?? Number.POSITIVE_INFINITY;
      await until(
        'it outlives its first grant',
        () => (linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0) > beganAtMs + ttlMs + 1_000,
        12_000,
      );
      expect(await connect(fleet)).toMatchObject({ spawned: false, backendId: first.backendId });

      agent.child.kill('SIGKILL');
      await until('the agent ended', agent.hasEnded);
      await until(
        'its backend is stopped',
        () => linesOf(fleet, first.backendId).at(-1)?.kind === 'stop',
        hardAfterMs + 1_500,
      );
      fleet.startDrone({ entry });
      const next = await anotherThan(fleet, first.backendId, ttlMs + 1_000);
      await until('the next one runs', isBeating(fleet, next.backendId));

      expectOneAtATime(fleet, [first.backendId, next.backendId]);
    },
  );
});
