import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { KEY_LADDERS } from '@leasehold/keys-core';
import {
  startFleet,
  witnessProgram,
  type Fleet,
  type WitnessLine,
} from '../testing/fleet-fixture.ts';
import { isRunning } from '../testing/processes.ts';
import { until } from '../testing/wait.ts';

const { hardAfterMs, ttlMs } = KEY_LADDERS.fast;

type Connected = Awaited<ReturnType<Fleet['client']['api']['keys']['connect']['mutate']>>;

function connect(fleet: Fleet, name = 'room', waitMs = 0): Promise<Connected> {
  return fleet.client.api.keys.connect.mutate({
    key: { name },
    spawn: { program: 'witness' },
    waitMs,
    waitFor: 'ready',
  });
}

async function untilOnline(fleet: Fleet): Promise<void> {
  await until('the drone is online', async () => {
    const { items } = await fleet.client.api.drones.list.query({});
    return items.some((drone) => drone.status === 'ready');
  });
}

/** Connects as soon as the key may be had; gives up when it should have been long ago. */
async function connectWithin(fleet: Fleet, limitMs: number, name = 'room'): Promise<Connected> {
  let result: Connected | undefined;
  await until(
    'the key is granted again',
    async () => {
      result = await connect(fleet, name).catch(() => undefined);
      return result !== undefined;
    },
    limitMs,
  );
  if (result === undefined) throw new Error('not connected');
  return result;
}

/** Connects until another backend than `former` answers. */
async function anotherThan(fleet: Fleet, former: string, limitMs: number): Promise<Connected> {
  let connected: Connected | undefined;
  await until(
    'another backend has the key',
    async () => {
      connected = await connect(fleet).catch(() => undefined);
      return connected !== undefined && connected.backendId !== former;
    },
    limitMs,
  );
  if (connected === undefined) throw new Error('not connected');
  return connected;
}

function linesOf(fleet: Fleet, backendId: string): WitnessLine[] {
  return fleet.witness().filter((line) => line.backendId === backendId);
}

/** The backends of one key never overlapped, going by what they wrote themselves. */
function expectOneAtATime(fleet: Fleet, backendIds: readonly string[]): void {
  const spans = backendIds.map((backendId) => {
    const times = linesOf(fleet, backendId).map((line) => line.atMs);
    return { first: Math.min(...times), last: Math.max(...times) };
  });
  for (const [index, span] of spans.entries()) {
    const next = spans[index + 1];
    if (next !== undefined) expect(span.last).toBeLessThanOrEqual(next.first);
  }
  const tokens = backendIds.map((backendId) =>
    BigInt(linesOf(fleet, backendId)[0]?.fencingToken ?? '0'),
  );
  expect(tokens).toEqual(tokens.toSorted((a, b) => (a < b ? -1 : 1)));
}

function isBeating(fleet: Fleet, backendId: string): () => boolean {
  const before = linesOf(fleet, backendId).length;
  return () => linesOf(fleet, backendId).length > before;
}

describe('a drone and its controller', () => {
  test('connect starts a backend, a second connect finds it, and its key is renewed past its expiry', async () => {
    await using fleet = await startFleet();
    fleet.startDrone();
    await untilOnline(fleet);

    const first = await connect(fleet);
    const second = await connect(fleet);

    expect(first).toMatchObject({ spawned: true, status: 'ready', droneId: 'drone-1' });
    expect(second).toMatchObject({
      spawned: false,
      backendId: first.backendId,
      fencingToken: first.fencingToken,
    });
    const beganAtMs = linesOf(fleet, first.backendId)[0]?.atMs ?? Number.POSITIVE_INFINITY;
    await until(
      'it outlives its first grant',
      () => (linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0) > beganAtMs + ttlMs + 1_000,
      12_000,
    );
    expect(await connect(fleet)).toMatchObject({ spawned: false, backendId: first.backendId });
  });

  test('a backend that ends by itself frees its key at once, and the next one has a larger token', async () => {
    await using fleet = await startFleet();
    const program = {
      command: '/bin/sh',
      args: ['-c', 'sleep 0.4; exit 3'],
      readiness: { type: 'none' },
    };
    fleet.startDrone({ programs: { witness: program } });
    await untilOnline(fleet);
    const first = await connect(fleet);

    const next = await anotherThan(fleet, first.backendId, 2_500);

    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(first.fencingToken));
    const ended = await fleet.client.api.backends.get.query({ backendId: first.backendId });
    expect(ended).toMatchObject({ status: 'terminated', reason: 'exited', exitCode: 3 });
  });

  test('C44 the environment of a backend holds the name of its key, and neither namespace nor tag', async () => {
    await using fleet = await startFleet();
    const dump = path.join(fleet.folder, 'environment');
    const program = {
      command: '/bin/sh',
      args: ['-c', `env > ${dump}.new; mv ${dump}.new ${dump}; sleep 600`],
      readiness: { type: 'none' },
    };
    fleet.startDrone({ programs: { witness: program } });
    await untilOnline(fleet);

    const key = { name: '../room name', namespace: 'hidden.space', tag: 'hidden-tag' };
    const { fencingToken, backendId } = await fleet.client.api.keys.connect.mutate({
      key,
      spawn: { program: 'witness' },
      waitFor: 'ready',
    });
    await until('it has written its environment', () => existsSync(dump));

    const environment = readFileSync(dump, 'utf8');
    expect(environment).toContain(`LEASEHOLD_KEY=../room name\n`);
    expect(environment).toContain(`LEASEHOLD_FENCING_TOKEN=${fencingToken}\n`);
    expect(environment).toContain(`LEASEHOLD_BACKEND_ID=${backendId}\n`);
    expect(environment).toMatch(/^PORT=\d+$/mu);
    expect(environment).not.toMatch(/hidden|LEASEHOLD_TOKEN|LEASEHOLD_URL|lh_/u);
  });

  test('an operator stops a backend softly, and it ends with the reason external', async () => {
    await using fleet = await startFleet();
    fleet.startDrone();
    await untilOnline(fleet);
    const { backendId } = await connect(fleet);

    await fleet.client.api.backends.terminate.mutate({ backendId, mode: 'soft' });

    await until(
      'it is terminated',
      async () =>
        (await fleet.client.api.backends.get.query({ backendId })).status === 'terminated',
    );
    expect(linesOf(fleet, backendId).at(-1)?.kind).toBe('stop');
    expect(await fleet.client.api.backends.get.query({ backendId })).toMatchObject({
      reason: 'external',
      exitCode: 0,
    });
  });

  test('a backend whose lifetime is over is stopped softly', async () => {
    await using fleet = await startFleet();
    fleet.startDrone();
    await untilOnline(fleet);

    const { backendId } = await fleet.client.api.keys.connect.mutate({
      key: { name: 'room' },
      spawn: { program: 'witness', lifetimeLimitSeconds: 1 },
      waitFor: 'ready',
    });

    await until(
      'it is terminated',
      async () =>
        (await fleet.client.api.backends.get.query({ backendId })).status === 'terminated',
    );
    expect(await fleet.client.api.backends.get.query({ backendId })).toMatchObject({
      reason: 'lifetime',
    });
  });

  test('a backend that never answers is stopped when its time to start is up', async () => {
    await using fleet = await startFleet();
    const program = {
      command: '/bin/sh',
      args: ['-c', 'sleep 600'],
      readiness: { type: 'tcp', timeoutMs: 500 },
    };
    fleet.startDrone({ programs: { witness: program } });
    await untilOnline(fleet);

    const { backendId } = await fleet.client.api.keys.connect.mutate({
      key: { name: 'room' },
      spawn: { program: 'witness' },
    });

    await until(
      'it is terminated',
      async () =>
        (await fleet.client.api.backends.get.query({ backendId })).status === 'terminated',
    );
    expect(await fleet.client.api.backends.get.query({ backendId })).toMatchObject({
      reason: 'startup_timeout',
    });
  });

  test('I15 a force revoke kills the backend within a second', async () => {
    await using fleet = await startFleet();
    fleet.startDrone();
    await untilOnline(fleet);
    const { leaseId, backendId } = await connect(fleet);

    await fleet.client.api.keys.revoke.mutate({ leaseId, mode: 'force', reason: 'a test' });

    await until(
      'it is dead',
      async () =>
        (await fleet.client.api.backends.get.query({ backendId })).status === 'terminated',
      1_500,
    );
    expect(isBeating(fleet, backendId)()).toBe(false);
  });
});

describe('faults', () => {
  test('F4b the agent is killed and restarted in time: it adopts its backends, same process, same token', async () => {
    await using fleet = await startFleet();
    const agent = fleet.startDrone();
    await untilOnline(fleet);
    const first = await connect(fleet);

    agent.child.kill('SIGKILL');
    await until('the agent ended', agent.hasEnded);
    fleet.startDrone();
    const wasAliveAtMs = linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0;
    await until(
      'it lives past the former deadlines',
      () => (linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0) > wasAliveAtMs + ttlMs + 1_000,
      12_000,
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

  test('C35 the controller is killed and restarted: the backend keeps its key and its token', async () => {
    await using fleet = await startFleet();
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
        (linesOf(fleet, first.backendId)[0]?.atMs ?? 0) + 2 * ttlMs,
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
    await using fleet = await startFleet();
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
      () => (linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0) > seenAtMs + ttlMs,
      12_000,
    );

    expect(await connect(fleet)).toMatchObject({ spawned: false, backendId: first.backendId });
  });

  test('the newest of two agents with one id wins; the other ends and stops nothing', async () => {
    await using fleet = await startFleet();
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

test('a program that is not offered is refused in words, and a name like a path touches no file', async () => {
  await using fleet = await startFleet();
  fleet.startDrone({ programs: { witness: witnessProgram(fleet.folder) } });
  await untilOnline(fleet);
  const name = `../../${randomUUID()}`;

  await expect(
    fleet.client.api.keys.connect.mutate({ key: { name }, spawn: { program: 'unknown' } }),
  ).rejects.toThrow();
  const { backendId } = await connect(fleet, name);

  await until('it runs', () => linesOf(fleet, backendId).length > 0);
  expect(existsSync(path.join(fleet.folder, 'drone/logs', name))).toBe(false);
});
