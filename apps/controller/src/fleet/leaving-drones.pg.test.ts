/** Drones that stop, and drones that operators take out of use. */
import { randomUUID } from 'node:crypto';
import { leaseholdErrorOf } from '@leasehold/client';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { mutate } from '../testing/wire.ts';

const codeOf = (call: Promise<unknown>): Promise<string | undefined> =>
  call.then(
    () => undefined,
    (error: unknown) => leaseholdErrorOf(error)?.code ?? String(error),
  );

/** Each test has a drone and a program of its own. */
let on: TestController;

shareTestController((shared) => {
  on = shared;
});

/** A drone that alone offers a program. */
async function aDrone() {
  const [droneId, program] = [randomUUID(), randomUUID()];
  const drone = await startTestDrone(on, { droneId, programs: [program] });
  return { drone, droneId, program };
}

async function connectTo(at: TestController, name: string, program = 'room'): Promise<string> {
  const client = await at.client('client');
  const made = await client.keys.connect.mutate({ key: { name }, spawn: { program } });
  return made.backendId;
}

const statusOf = async (at: TestController, droneId = 'd1'): Promise<string> =>
  (await (await at.client('viewer')).drones.get.query({ droneId })).status;

describe('a drone that stops', () => {
  test('is given nothing more, and is stopped once its backends have ended', async () => {
    const alone = await startTestController();
    const drone = await startTestDrone(alone);
    const backendId = await connectTo(alone, 'demo');

    expect(await drone.goodbye()).toEqual({ outcome: 'recorded' });
    expect(await codeOf(connectTo(alone, 'another'))).toBe('spawn.no_drone');
    expect(await statusOf(alone)).toBe('draining');
    await drone.report({ backendId, status: 'terminated' });

    expect(await statusOf(alone)).toBe('stopped');
    const { drones } = await alone.client('viewer');
    expect((await drones.list.query({ status: 'stopped' })).items).toMatchObject([
      { droneId: 'd1', isConnected: false },
    ]);
    expect(await drones.count.query({ status: 'unreachable' })).toMatchObject({ count: 0 });
    const { stats, search } = await alone.client('viewer');
    expect((await stats.overview.query({})).drones).toMatchObject({
      total: 1,
      stopped: 1,
      stale: 0,
    });
    expect((await search.find.query({ text: 'd1' })).items).toMatchObject([{ state: 'stopped' }]);
  });

  test('tells that over HTTP as over a WebSocket, and for itself alone', async () => {
    const { drone, droneId } = await aDrone();
    const { secret } = await on.token('drone', { droneId });
    const other = await on.token('drone', { droneId: randomUUID() });
    const input = { droneId, clockId: drone.clockId, session: drone.session() };
    const say = (change: object, as = secret): Promise<unknown> =>
      mutate(on, 'drones.goodbye', { secret: as, input: { ...input, ...change } });

    expect(await say({}, other.secret)).toBe('auth.forbidden');
    expect(await say({ session: 7 })).toBe('session.superseded');
    expect(await statusOf(on, droneId)).toBe('ready');
    expect(await say({})).toEqual({ outcome: 'recorded' });
    expect(await say({})).toEqual({ outcome: 'recorded' });

    expect(await statusOf(on, droneId)).toBe('stopped');
  });

  test('and comes back takes backends again', async () => {
    const { drone, droneId, program } = await aDrone();
    await drone.goodbye();

    await startTestDrone(on, { droneId, clockId: drone.clockId, programs: [program] });

    expect(await statusOf(on, droneId)).toBe('ready');
    expect(await codeOf(connectTo(on, randomUUID(), program))).toBeUndefined();
  });
});

describe('drain with stop', () => {
  test('asks every backend to stop softly, once, and the audit has how many', async () => {
    const alone = await startTestController();
    const drone = await startTestDrone(alone);
    const backendIds = [await connectTo(alone, 'a'), await connectTo(alone, 'b')];
    await Promise.all(
      backendIds.map((backendId) => drone.report({ backendId, status: 'ready', address: 'h:1' })),
    );
    const { drones, audit } = await alone.client('operator');

    const plain = await drones.drain.mutate({ droneId: 'd1' });
    const stopping = await drones.drain.mutate({ droneId: 'd1', stop: true, reason: 'new disk' });
    const again = await drones.drain.mutate({ droneId: 'd1', stop: true });

    expect([plain.stoppingCount, stopping.stoppingCount, again.stoppingCount]).toEqual([0, 2, 2]);
    expect(stopping).toMatchObject({ changed: false, backends: [{}, {}] });
    const asked = await waitUntil(() => {
      const found = drone.messages.filter(({ kind }) => kind === 'terminate');
      return new Set(found.map((one) => (one as { backendId: string }).backendId)).size === 2
        ? (found as { actionId: string; mode: string; reason: string }[])
        : undefined;
    });
    expect(new Set(asked.map(({ actionId }) => actionId)).size).toBe(2);
    expect(asked[0]).toMatchObject({ mode: 'soft' });
    expect((await audit.list.query({})).items).toMatchObject([
      { action: 'drones.drain', detail: { stoppingCount: 2 } },
      { action: 'drones.drain', detail: { stoppingCount: 2 }, reason: 'new disk' },
      { action: 'drones.drain' },
    ]);
  });

  test('answers what it has committed, also where backends cannot be read from the commit on', async () => {
    const alone = await startTestController();
    await startTestDrone(alone);
    const backendId = await connectTo(alone, 'demo');
    const { drones } = await alone.client('operator');
    const sql = alone.controller.store.general;
    await sql.$executeRaw`
      create function hide_backends() returns trigger language plpgsql as
      $$ begin alter table backend rename to hidden; return null; end $$`;
    await sql.$executeRaw`
      create constraint trigger hide_backends after insert on audit deferrable initially deferred
      for each row execute function hide_backends()`;

    expect(await drones.drain.mutate({ droneId: 'd1', stop: true })).toMatchObject({
      changed: true,
      backends: [{ backendId }],
      stoppingCount: 1,
    });
  });
});

describe('drones.remove', () => {
  test('is for administrators, refused while the drone is in use, and names the tokens that could bring it back', async () => {
    const { drone, droneId, program } = await aDrone();
    const backendId = await connectTo(on, randomUUID(), program);
    const operator = await on.client('operator');
    const { drones, backends, audit, tokens } = await on.client('admin');
    const remove = { droneId, reason: 'sold' };

    expect(await codeOf(operator.drones.remove.mutate(remove))).toBe('auth.forbidden');
    expect(await codeOf(drones.remove.mutate(remove))).toBe('drone.in_use');
    await drone.report({ backendId, status: 'terminated' });
    expect(await codeOf(drones.remove.mutate(remove))).toBe('drone.in_use');
    await drone.goodbye();
    const removed = await drones.remove.mutate(remove);

    expect(removed.tokens).toMatchObject([{ tokenId: drone.tokenId }]);
    expect(await codeOf(drones.get.query({ droneId }))).toBe('drone.not_found');
    expect(await codeOf(drones.remove.mutate(remove))).toBe('drone.not_found');
    const listed = (await drones.list.query({})).items.map((one) => one.droneId);
    expect(listed).not.toContain(droneId);
    expect(await backends.get.query({ backendId })).toMatchObject({ droneId, logFiles: null });
    const resource = `drone:${droneId}`;
    expect((await audit.list.query({ resource })).items).toMatchObject([
      { action: 'drones.remove', resource, reason: 'sold' },
    ]);
    expect((await tokens.list.query({ search: droneId })).items).toMatchObject([
      { tokenId: drone.tokenId, revokedAt: null },
    ]);
  });
});
