import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { KEY_LADDERS } from '@leasehold/keys-core';
import { startFleet, witnessProgram } from '../testing/fleet-fixture.ts';
import { anotherThan, connect, isBeating, linesOf, untilOnline } from '../testing/fleet-steps.ts';
import { until } from '../testing/wait.ts';

const { ttlMs } = KEY_LADDERS.fast;

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
