import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { leaseholdErrorOf } from '@leasehold/client';
import { KEY_LADDERS } from '@leasehold/keys-core';
import { waitUntil } from '@leasehold/testing';
import {
  openTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { startTestDrone, type TestDrone } from '../testing/test-drone.ts';

const errorOf = (call: Promise<unknown>): Promise<unknown> => call.catch(leaseholdErrorOf);
const codeOf = (call: Promise<unknown>): Promise<string | undefined> =>
  call.then(
    () => undefined,
    (error: unknown) => leaseholdErrorOf(error)?.code ?? String(error),
  );

/** Two controllers on one database. Each test has a drone and a program of its own. */
let on: TestController;
let second: TestController;
/** What closes those that were opened, the newest one first. */
const closing: (() => Promise<void>)[] = [];

beforeAll(async () => {
  const ladder = KEY_LADDERS.standard;
  const one = await openTestController({ ladder });
  closing.unshift(one.close);
  const two = await openTestController({ ladder, databaseUrl: one.databaseUrl });
  closing.unshift(two.close);
  [on, second] = [one, two];
});

// Also if the hook above fails: Vitest would not call what it returns.
afterAll(async () => {
  for (const close of closing) await close();
});

/** A drone that alone offers a program. */
async function aDrone(at: TestController = on) {
  const [droneId, program] = [randomUUID(), randomUUID()];
  const drone = await startTestDrone(at, { droneId, programs: [program] });
  return { drone, droneId, program };
}

async function connectDemo(
  at: TestController,
  { name = randomUUID(), program = 'room' }: { name?: string; program?: string },
): Promise<{ backendId: string; leaseId: string }> {
  const client = await at.client('client');
  return client.keys.connect.mutate({ key: { name }, spawn: { program } });
}

/** The actions of a kind that the drone was sent, repetitions included. */
const sent = (
  drone: TestDrone,
  kind: 'spawn' | 'terminate',
): { actionId: string; backendId: string; session: number }[] =>
  drone.messages.filter((message) => message.kind === kind) as never;

describe('drone session', () => {
  test('ends when a newer one opens, on another controller too, and its messages no longer count', async () => {
    const { drone: older, droneId } = await aDrone();

    const newer = await startTestDrone(second, { droneId, clockId: older.clockId });

    await waitUntil(() => older.endedWith() === 'session.superseded');
    expect(newer.session()).toBe(2);
    expect(await codeOf(older.heartbeat())).toBe('session.superseded');
    expect(await codeOf(older.ack('1'))).toBe('session.superseded');
    expect(await codeOf(newer.heartbeat())).toBeUndefined();
  });

  test('on one controller reaches the drone that a connect on another has chosen', async () => {
    const { drone, program } = await aDrone(second);

    const made = await connectDemo(on, { program });

    const spawn = await waitUntil(() => sent(drone, 'spawn')[0]);
    expect(spawn.backendId).toBe(made.backendId);
  });

  test('of a drone of another datacenter is refused', async () => {
    const { secret } = await on.token('drone');
    const body = {
      droneId: 'd1',
      clockId: randomUUID(),
      datacenter: 'mars',
      programs: [],
      version: '1',
      capacity: 1,
    };

    const response = await fetch(
      `${on.url}/trpc/drones.session?input=${encodeURIComponent(JSON.stringify(body))}`,
      { headers: { authorization: `Bearer ${secret}`, accept: 'text/event-stream' } },
    );

    expect(await response.text()).toContain('request.invalid');
  });

  test('for another drone is refused', async () => {
    const { secret } = await on.token('drone', { droneId: 'd2' });

    const drone = await startTestDrone(on, { droneId: 'd1', secret });

    expect(drone.endedWith()).toBe('auth.forbidden');
    expect(drone.messages).toEqual([]);
  });

  test('ends when its token is revoked, with its connection', async () => {
    const { drone } = await aDrone();
    const admin = await on.client('admin');

    expect(await admin.tokens.revoke.mutate({ tokenId: drone.tokenId })).toEqual({ changed: true });

    await waitUntil(() => drone.endedWith() === 'auth.required');
    expect(await codeOf(drone.heartbeat())).toBe('auth.required');
  });

  test('ends when its token was revoked on another controller', async () => {
    const { drone } = await aDrone();
    const admin = await second.client('admin');

    await admin.tokens.revoke.mutate({ tokenId: drone.tokenId });

    await waitUntil(() => drone.endedWith() === 'auth.required');
    expect(await codeOf(drone.heartbeat())).toBe('auth.required');
  });

  test('opens again by itself when the controller ends it for a restart', async () => {
    const ended = await startTestController();
    const drone = await startTestDrone(ended);
    await ended.controller.close();

    const port = Number(new URL(ended.url).port);
    const again = await startTestController({ databaseUrl: ended.databaseUrl, port });

    await waitUntil(() => drone.session() === 2, { what: 'the next session' });
    expect(again.url).toBe(ended.url);
    expect(drone.endedWith()).toBeUndefined();
  });
});

describe('operators and drones', () => {
  test('a drained drone keeps its backends, which the answer names, and takes nothing new', async () => {
    const { droneId, program } = await aDrone();
    const made = await connectDemo(on, { program });
    const operator = await on.client('operator');

    const drained = await operator.drones.drain.mutate({ droneId, reason: 'new disk' });

    expect(drained).toMatchObject({ changed: true, backends: [{ backendId: made.backendId }] });
    const client = await on.client('client');
    const next = { key: { name: randomUUID() }, spawn: { program } };
    expect(await codeOf(client.keys.connect.mutate(next))).toBe('spawn.no_drone');
    expect(await operator.drones.undrain.mutate({ droneId })).toEqual({ changed: true });
    expect((await client.keys.connect.mutate(next)).spawned).toBe(true);
  });

  test('a drain names every backend that remains, even if they are more than a page', async () => {
    const { droneId } = await aDrone();
    await on.controller.store.general.$queryRaw`
      insert into backend (
        id, drone_id, datacenter, clock_id, program, args, env, namespace, name, tag, lease_id,
        fencing_token, status, status_rank
      )
      select 'b' || i, ${droneId}, 'local', gen_random_uuid(), 'room', '[]', '{}', '', 'k' || i, '',
        gen_random_uuid(), i, 'ready', 4
      from generate_series(1, 501) as i
      returning id`;

    const { drones } = await on.client('operator');

    expect((await drones.drain.mutate({ droneId })).backends).toHaveLength(501);
  });

  test('a lease id in upper case names the same grant, to block its renewal and to revoke it', async () => {
    const { program } = await aDrone();
    const leaseId = (await connectDemo(on, { program })).leaseId.toUpperCase();
    const { keys } = await on.client('operator');

    expect(await keys.blockRenewal.mutate({ leaseId })).toEqual({ changed: true });
    expect(await keys.revoke.mutate({ leaseId, mode: 'force', reason: 'test' })).toMatchObject({
      outcome: 'revoked',
    });
  });

  test('the keys of a lost drone run out: renewal is blocked, and none is granted to another early', async () => {
    const { droneId, program } = await aDrone();
    const name = randomUUID();
    await connectDemo(on, { name, program });
    const operator = await on.client('operator');

    expect(await operator.drones.markLost.mutate({ droneId, reason: 'fire' })).toEqual({
      renewalsBlockedCount: 1,
    });

    const key = await operator.keys.get.query({ name });
    expect(key).toMatchObject({ phase: 'expiring', renewable: false });
    const client = await on.client('client');
    expect(
      await codeOf(client.keys.connect.mutate({ key: { name }, spawn: { program }, waitMs: 0 })),
    ).toBe('key.terminating');
  });

  test('a drone of which a key may still be renewed is not lost: it drains, until the act is repeated', async () => {
    const alone = await startTestController({ ladder: KEY_LADDERS.standard });
    await startTestDrone(alone);
    await connectDemo(alone, { name: 'a' });
    await connectDemo(alone, { name: 'b' });
    const { drones, keys, audit } = await alone.client('operator');
    const sql = alone.controller.store.general;
    await sql.$executeRaw`
      create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'it stops' using errcode = '57P03'; end $$`;
    await sql.$executeRaw`
      create trigger refuse before update of renewable on lease for each row
      when (new.name = 'b') execute function refuse()`;

    expect(await errorOf(drones.markLost.mutate({ droneId: 'd1', reason: 'fire' }))).toMatchObject({
      code: 'request.outcome_unknown',
      message: expect.stringContaining('takes no new backends') as string,
    });
    expect(await drones.get.query({ droneId: 'd1' })).toMatchObject({
      status: 'draining',
      lostAt: null,
    });
    expect(await keys.get.query({ name: 'a' })).toMatchObject({ renewable: false });
    expect(await keys.get.query({ name: 'b' })).toMatchObject({ renewable: true });

    await sql.$executeRaw`drop trigger refuse on lease`;
    expect(await drones.markLost.mutate({ droneId: 'd1', reason: 'fire again' })).toEqual({
      renewalsBlockedCount: 1,
    });

    expect((await drones.get.query({ droneId: 'd1' })).status).toBe('lost');
    expect(await keys.get.query({ name: 'b' })).toMatchObject({ renewable: false });
    expect((await audit.list.query({ resource: 'drone:d1' })).items).toMatchObject([
      { action: 'drones.markLost', reason: 'fire again' },
      { action: 'drones.markLost', reason: 'fire' },
    ]);
  });

  test('a drone that somebody undrains while it is marked lost is not told to be lost', async () => {
    const alone = await startTestController({ ladder: KEY_LADDERS.standard });
    await startTestDrone(alone);
    await connectDemo(alone, { name: 'a' });
    const { drones } = await alone.client('operator');
    const sql = alone.controller.store.general;
    await sql.$executeRaw`
      create function undrain() returns trigger language plpgsql as
      $$ begin update drone set draining = false; return new; end $$`;
    await sql.$executeRaw`
      create trigger undrain before update of renewable on lease for each row execute function undrain()`;

    expect(await errorOf(drones.markLost.mutate({ droneId: 'd1', reason: 'fire' }))).toMatchObject({
      code: 'drone.in_use',
      message: expect.stringContaining('it is not lost') as string,
    });
    expect((await drones.get.query({ droneId: 'd1' })).status).toBe('ready');
  });

  test('every act of an operator is in the audit, with who, why and from where', async () => {
    const alone = await startTestController();
    await startTestDrone(alone);
    const { backendId } = await connectDemo(alone, {});
    const operator = await alone.client('operator');
    await operator.drones.drain.mutate({ droneId: 'd1', reason: 'new disk' });
    await operator.backends.terminate.mutate({ backendId, mode: 'hard', reason: 'stuck' });
    const admin = await alone.client('admin');
    const token = await admin.tokens.create.mutate({
      name: 'ci',
      role: 'client',
      namespaces: ['ci'],
    });
    await admin.tokens.revoke.mutate({ tokenId: token.tokenId, reason: 'leaked' });

    const { items } = await operator.audit.list.query({});

    expect(
      items.map(({ action, actor, resource, reason }) => ({ action, actor, resource, reason })),
    ).toEqual([
      {
        action: 'tokens.revoke',
        actor: 'test admin',
        resource: `token:${token.tokenId}`,
        reason: 'leaked',
      },
      {
        action: 'tokens.create',
        actor: 'test admin',
        resource: `token:${token.tokenId}`,
        reason: null,
      },
      {
        action: 'backends.terminate',
        actor: 'test operator',
        resource: `backend:${backendId}`,
        reason: 'stuck',
      },
      { action: 'drones.drain', actor: 'test operator', resource: 'drone:d1', reason: 'new disk' },
    ]);
    expect(items.every((item) => item.source === '127.0.0.1')).toBe(true);
    expect(JSON.stringify(items)).not.toContain(token.secret.slice(3));
  });
});

describe('backend watch', () => {
  test('C32 replays the states, follows them in order, and ends after terminated', async () => {
    const { drone, program } = await aDrone();
    const { backendId } = await connectDemo(on, { program });
    await drone.report({ backendId, status: 'loading' });
    const viewer = await on.client('viewer', 'ws');
    const seen: string[] = [];
    let isOver = false;
    viewer.backends.watch.subscribe(
      { backendId },
      {
        onData: (state) => seen.push(state.status),
        onComplete: () => {
          isOver = true;
        },
      },
    );
    await waitUntil(() => seen.length === 2);

    await drone.report({ backendId, status: 'ready' });
    await drone.report({ backendId, status: 'terminated' });

    await waitUntil(() => isOver);
    expect(seen).toEqual(['scheduled', 'loading', 'ready', 'terminated']);
  });
});
