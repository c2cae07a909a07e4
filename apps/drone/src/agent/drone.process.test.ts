import { randomUUID } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { freePort, waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Fleet, OPEN, PATIENT_LADDER, witnessProgram } from '../testing/fleet-fixture.ts';
import { anotherThan, connect, isBeating, linesOf } from '../testing/fleet-steps.ts';
import { until } from '../testing/wait.ts';

const { ttlMs } = PATIENT_LADDER;

function shell(script: string, readiness: Record<string, unknown> = { type: 'none' }): unknown {
  return { command: '/bin/sh', args: ['-c', script], readiness };
}

let fleet: Fleet;
let squatted: number;
beforeAll(async () => {
  fleet = await Fleet.open({ ladder: PATIENT_LADDER });
  squatted = await freePort();
  await fleet.startDrone({
    programs: {
      witness: witnessProgram(fleet.folder),
      brief: shell('sleep 0.4; exit 3'),
      environment: shell(`env > ${fleet.folder}/${OPEN}/$LEASEHOLD_BACKEND_ID.env; exec sleep 600`),
      silent: shell('exec sleep 600', { type: 'tcp', timeoutMs: 500 }),
      victim: { ...(shell('exec sleep 600', { type: 'tcp' }) as object), port: squatted },
      locked: { command: '/bin/sh', args: [programInLockedFolder()], readiness: { type: 'none' } },
    },
  });
});
afterAll(() => fleet.close());

/** A program in a subfolder of one with mode 0700 and other files, like a clone in a home folder. */
function programInLockedFolder(): string {
  const locked = path.join(fleet.folder, 'locked');
  mkdirSync(path.join(locked, 'app'), { recursive: true });
  writeFileSync(path.join(locked, 'private.txt'), 'not for programs');
  const script = path.join(locked, 'app/main.sh');
  const listing = `${fleet.folder}/${OPEN}/listing`;
  writeFileSync(
    script,
    `ls -A ${locked} > ${listing}.new; mv ${listing}.new ${listing}; exec sleep 600`,
  );
  chmodSync(locked, 0o700);
  return script;
}

async function untilTerminated(backendId: string): Promise<void> {
  await until(
    'it is terminated',
    async () => (await fleet.api().backends.get.query({ backendId })).status === 'terminated',
  );
}

describe.concurrent('a drone and its controller', () => {
  test('connect starts a backend, a second connect finds it, and its key is renewed past its expiry', async () => {
    const first = await connect(fleet, { name: 'kept' });
    const second = await connect(fleet, { name: 'kept' });

    expect(first).toMatchObject({ spawned: true, status: 'ready', droneId: 'drone-1' });
    expect(second).toMatchObject({
      spawned: false,
      backendId: first.backendId,
      fencingToken: first.fencingToken,
    });
    await until('it runs', isBeating(fleet, first.backendId));
    const beganAtMs = linesOf(fleet, first.backendId)[0]?.atMs ?? Number.POSITIVE_INFINITY;
    await waitUntil(
      () => (linesOf(fleet, first.backendId).at(-1)?.atMs ?? 0) > beganAtMs + ttlMs + 1_000,
      { what: 'a line after its first grant', withinMs: 60_000, pollMs: 200 },
    );
    expect(await connect(fleet, { name: 'kept' })).toMatchObject({
      spawned: false,
      backendId: first.backendId,
    });
  });

  test('a backend that ends by itself frees its key at once, and the next one has a larger token', async () => {
    const options = { name: 'brief', program: 'brief' };
    const first = await connect(fleet, options);

    const next = await anotherThan(fleet, first.backendId, { ...options, limitMs: 30_000 });

    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(first.fencingToken));
    const ended = await fleet.api().backends.get.query({ backendId: first.backendId });
    expect(ended).toMatchObject({ status: 'terminated', reason: 'exited', exitCode: 3 });
  });

  test('C44 the environment of a backend holds the name of its key, and neither namespace nor tag', async () => {
    const key = { name: '../room name', namespace: 'hidden.space', tag: 'hidden-tag' };
    const { environment, fencingToken, backendId } = await environmentOf(key);

    expect(environment).toContain(`LEASEHOLD_KEY=../room name\n`);
    expect(environment).toContain(`LEASEHOLD_FENCING_TOKEN=${fencingToken}\n`);
    expect(environment).toContain(`LEASEHOLD_BACKEND_ID=${backendId}\n`);
    expect(environment).toMatch(/^PORT=\d+$/mu);
    expect(environment).not.toMatch(/hidden|LEASEHOLD_TOKEN|LEASEHOLD_URL|lh_/u);
  });

  test('C44 one name in two namespaces has two ids, and one key has one id for every backend', async () => {
    const ofTeamA = await environmentOf({ name: 'X', namespace: 'team-a' });
    const ofTeamB = await environmentOf({ name: 'X', namespace: 'team-b' });
    await fleet.api().backends.terminate.mutate({
      backendId: ofTeamA.backendId,
      mode: 'hard',
    });
    await untilTerminated(ofTeamA.backendId);
    const again = await environmentOf({ name: 'X', namespace: 'team-a' });

    const id = (environment: string): string =>
      /^LEASEHOLD_KEY_ID=([0-9a-f]{64})$/mu.exec(environment)?.[1] ?? '';
    expect(id(ofTeamA.environment)).not.toBe('');
    expect(id(ofTeamB.environment)).not.toBe(id(ofTeamA.environment));
    expect(again.backendId).not.toBe(ofTeamA.backendId);
    expect(id(again.environment)).toBe(id(ofTeamA.environment));
  });

  test('an operator stops a backend softly, and it ends with the reason external', async () => {
    const { backendId } = await connect(fleet, { name: 'stopped' });
    await until('it runs', isBeating(fleet, backendId));

    await fleet.api().backends.terminate.mutate({ backendId, mode: 'soft' });

    await untilTerminated(backendId);
    expect(linesOf(fleet, backendId).at(-1)?.kind).toBe('stop');
    expect(await fleet.api().backends.get.query({ backendId })).toMatchObject({
      reason: 'external',
      exitCode: 0,
    });
  });

  test('a backend whose lifetime is over is stopped softly', async () => {
    const { backendId } = await fleet.api().keys.connect.mutate({
      key: { name: 'limited' },
      spawn: { program: 'witness', lifetimeLimitSeconds: 1 },
      waitFor: 'ready',
    });

    await untilTerminated(backendId);
    expect(await fleet.api().backends.get.query({ backendId })).toMatchObject({
      reason: 'lifetime',
    });
  });

  test('a backend that never answers is stopped when its time to start is up', async () => {
    const { backendId } = await fleet.api().keys.connect.mutate({
      key: { name: 'silent' },
      spawn: { program: 'silent' },
    });

    await untilTerminated(backendId);
    expect(await fleet.api().backends.get.query({ backendId })).toMatchObject({
      reason: 'startup_timeout',
    });
  });

  test('a backend on whose port another process listens is never handed out, and ends with that reason', async () => {
    const { backendId } = await fleet.api().keys.connect.mutate({
      key: { name: 'victim' },
      spawn: { program: 'victim' },
    });
    const get = () => fleet.api().backends.get.query({ backendId });
    await until('it runs, and does not listen', async () => (await get()).status === 'waiting');
    const squatter = net.createServer((socket) => {
      // A probe that leaves what was said unread resets the connection.
      socket.on('error', () => undefined).end('not its answer');
    });
    squatter.listen(squatted, '127.0.0.1');
    onTestFinished(() => void squatter.close());

    await untilTerminated(backendId);

    expect(await get()).toMatchObject({ reason: 'internal', address: null });
    const log = fleet.drone().agent.log();
    expect(log).toContain(`another process listens on its port ${String(squatted)}`);
  });

  test('a force revoke kills the backend', async () => {
    const { leaseId, backendId } = await connect(fleet, { name: 'revoked' });

    await fleet.api().keys.revoke.mutate({ leaseId, mode: 'force', reason: 'a test' });

    await untilTerminated(backendId);
    expect(isBeating(fleet, backendId)()).toBe(false);
  });

  test.runIf(process.getuid?.() === 0)(
    'under root, a program in a folder that its user may not enter runs, and sees nothing else there',
    async () => {
      await connect(fleet, { name: 'locked', program: 'locked' });

      const listing = path.join(fleet.folder, OPEN, 'listing');
      await until('it has looked around', () => existsSync(listing));
      expect(readFileSync(listing, 'utf8')).toBe('app\n');
    },
  );

  test('a program that is not offered is refused, and a key name like a path touches no file', async () => {
    const name = `../../${randomUUID()}`;

    await expect(
      fleet.api().keys.connect.mutate({ key: { name }, spawn: { program: 'unknown' } }),
    ).rejects.toThrow();
    const { backendId } = await connect(fleet, { name });

    await until('it runs', () => linesOf(fleet, backendId).length > 0);
    expect(existsSync(path.join(fleet.drone().stateDir, 'logs', name))).toBe(false);
  });
});

/** What a backend of a key found in its environment. */
async function environmentOf(key: {
  name: string;
  namespace: string;
  tag?: string;
}): Promise<{ environment: string; fencingToken: string; backendId: string }> {
  const { fencingToken, backendId } = await fleet.api().keys.connect.mutate({
    key,
    spawn: { program: 'environment' },
    waitFor: 'ready',
  });
  const file = path.join(fleet.folder, OPEN, `${backendId}.env`);
  await until('it has written its environment', () => readIfThere(file).includes('PORT='));
  return { environment: readIfThere(file), fencingToken, backendId };
}

function readIfThere(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}
