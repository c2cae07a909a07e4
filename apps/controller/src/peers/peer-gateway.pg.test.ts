import { randomUUID } from 'node:crypto';
import type { GatewaySynced, GatewayTokenClaims } from '@leasehold/keys-core';
import {
  importGatewayKeys,
  isRevoked,
  verifyGatewayToken,
} from '@leasehold/keys-core/gateway-tokens';
import { startEtcd, waitUntil, type TestEtcd } from '@leasehold/testing';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { TestController } from '../testing/test-controller.ts';
import {
  healAfterTest,
  openTwoDatacenters,
  stopForTest,
  type TwoDatacenters,
} from '../testing/test-datacenters.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { call, mutate } from '../testing/wire.ts';

let etcd: TestEtcd;
let two: TwoDatacenters;

beforeAll(async () => {
  etcd = await startEtcd();
  two = await openTwoDatacenters(etcd);
});

afterAll(async () => {
  try {
    await (two as TwoDatacenters | undefined)?.world.close();
  } finally {
    await etcd.stop();
  }
});

/** Two datacenters with a gateway each, and a key and a user of the test's own: the key lives in the other one. */
async function openWithKeyThere() {
  healAfterTest(two);
  const { world, here, there } = two;
  const on = world.of(here);
  const { secret } = await on.token('client');
  await startTestDrone(world.of(there), { droneId: `d-${randomUUID()}`, datacenter: there });
  const [key, user] = [{ name: randomUUID() }, randomUUID()];
  const spawn = { program: 'room', datacenter: there };
  const connected = (await mutate(on, 'keys.connect', { secret, input: { key, spawn } })) as {
    leaseId: string;
  };
  const gateway = (await on.token('gateway')).secret;
  const gatewayThere = (await world.of(there).token('gateway')).secret;
  const signed = async (access: object): Promise<string> => {
    const input = {
      key,
      access: { user, ...access },
      ...('mayStart' in access && { spawn }),
    };
    return ((await mutate(on, 'gateway.sign', { secret, input })) as { token: string }).token;
  };
  const handOver = async (token: string): Promise<string> => {
    const input = { token, datacenter: there };
    const answer = await mutate(on, 'gateway.handOver', { secret: gateway, input });
    return typeof answer === 'string' ? answer : (answer as { url: string }).url;
  };
  const newsThere = (): Promise<GatewaySynced> =>
    mutate(world.of(there), 'gateway.sync', {
      secret: gatewayThere,
      input: { gatewayId: 'gw-2', version: '1', connections: 0, routes: 0, uses: [] },
    }) as Promise<GatewaySynced>;
  /** What a token says to the gateway there. */
  const claimsThere = async (token: string): Promise<GatewayTokenClaims | undefined> => {
    const { keys, asOf } = await newsThere();
    const verified = await verifyGatewayToken(token, {
      keys: await importGatewayKeys(keys),
      nowMs: asOf,
    });
    return verified.outcome === 'valid' ? verified.claims : undefined;
  };
  return {
    world,
    on,
    there,
    key,
    user,
    connected,
    secret,
    gateway,
    signed,
    handOver,
    newsThere,
    claimsThere,
  };
}

/** Locks a table of a datacenter against writes. @returns ends that. */
async function locked(
  { databaseUrl }: TestController,
  table: string,
): Promise<() => Promise<void>> {
  const session = new pg.Client({ connectionString: databaseUrl });
  await session.connect();
  await session.query('begin');
  await session.query(`lock table ${table} in exclusive mode`);
  let isReleased = false;
  const release = async (): Promise<void> => {
    if (isReleased) return;
    isReleased = true;
    await session.end();
  };
  onTestFinished(release);
  return release;
}

/** Resolves when a statement waits for a lock of a datacenter. */
async function untilLockWaits({ controller }: TestController): Promise<void> {
  await waitUntil(async () => {
    const rows = await controller.store.general.$queryRaw<unknown[]>`
      select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`;
    return rows.length > 0;
  });
}

const tokenIn = (url: string): string => /\/t\/([^/]+)\/$/u.exec(url)?.[1] ?? '';

test('a request for a key of another datacenter is handed over to the gateway there, with what its token allows', async () => {
  const { on, there, key, user, gateway, signed, handOver, claimsThere } = await openWithKeyThere();
  const token = await signed({ claims: { role: 'editor' }, mayStart: true, expiresInSeconds: 100 });

  const asked = await call(on, '/trpc/gateway.route', {
    body: JSON.stringify({ key, waitMs: 0 }),
    secret: gateway,
  });
  const url = await handOver(token);

  expect(asked.body.error?.data).toMatchObject({
    leaseholdCode: 'gateway.elsewhere',
    details: { datacenter: there },
  });
  expect(url.startsWith(`https://${there}.example.com/t/`)).toBe(true);
  expect(await claimsThere(token)).toBeUndefined();
  const claims = await claimsThere(tokenIn(url));
  expect(claims).toMatchObject({ sub: user, key: key.name, claims: { role: 'editor' } });
  expect(claims?.start).toBeTruthy();
  expect((claims?.exp ?? 0) - (claims?.iat ?? 0)).toBeLessThanOrEqual(100);
});

test('a browser that is sent on to another datacenter was not refused', async () => {
  const { on, key, gateway } = await openWithKeyThere();
  const viewer = await on.client('viewer');
  const refused = { name: randomUUID() };
  const routed = (asked: object): Promise<unknown> =>
    mutate(on, 'gateway.route', {
      secret: gateway,
      input: { key: asked, waitMs: 0, start: 'unknown' },
    });

  expect(await routed(key)).toBe('gateway.elsewhere');
  expect(await routed(refused)).toBe('gateway.start_over');

  const refusalsOf = async ({ name }: { name: string }) =>
    (await viewer.refusals.list.query({ name })).items;
  // What was noted before it is written with it, or before.
  const items = await waitUntil(async () => {
    const found = await refusalsOf(refused);
    return found.length > 0 ? found : undefined;
  });
  expect(items).toMatchObject([{ code: 'gateway.start_over' }]);
  expect(await refusalsOf(key)).toEqual([]);
});

test('a token of one grant is handed over for that grant alone', async () => {
  const { world, there, key, user, connected, signed, handOver, claimsThere } =
    await openWithKeyThere();
  const token = await signed({ grantOnly: true });
  expect((await claimsThere(tokenIn(await handOver(token))))?.grant).toBe(connected.leaseId);

  const client = (await world.of(there).token('client')).secret;
  const input = { key, access: { user, grantOnly: true }, leaseId: randomUUID() };
  const ofAnother = await mutate(world.of(there), 'gateway.sign', { secret: client, input });
  expect(ofAnother).toBe('gateway.grant_over');
});

test('a revocation ends access in all datacenters, and names those that it could not tell', async () => {
  const { on, there, user, secret, signed, handOver, newsThere } = await openWithKeyThere();
  const token = await signed({});
  const revoke = { secret, input: { user, reason: 'left the team' } };

  expect(await mutate(on, 'gateway.revoke', revoke)).toMatchObject({ unreachable: [] });

  const { revocations } = await newsThere();
  expect(revocations?.filter((one) => one.user === user)).toHaveLength(1);
  expect(await handOver(token)).toBe('gateway.token_over');
  await stopForTest(two);
  await two.world.sees(two.here, there, false);
  expect(await mutate(on, 'gateway.revoke', revoke)).toMatchObject({
    unreachable: [{ datacenter: there }],
  });
});

test('a token that is revoked while it is handed over is not given out', async () => {
  const { world, on, there, user, secret, signed, handOver } = await openWithKeyThere();
  const token = await signed({ mayStart: true });
  const release = await locked(world.of(there), 'gateway_start');
  const handedOver = handOver(token);
  await untilLockWaits(world.of(there));

  await mutate(on, 'gateway.revoke', { secret, input: { user, reason: 'left the team' } });
  await release();

  expect(await handedOver).toBe('gateway.token_over');
});

test('a revocation ends also what was signed here before it had reached all datacenters', async () => {
  const { world, on, there, user, secret, gateway, signed } = await openWithKeyThere();
  const release = await locked(world.of(there), 'gateway_revocation');
  const input = { user, reason: 'left the team' };
  const revoked = mutate(on, 'gateway.revoke', { secret, input });
  await untilLockWaits(world.of(there));
  const token = await signed({});
  await release();
  await revoked;

  const { keys, revocations, asOf } = (await mutate(on, 'gateway.sync', {
    secret: gateway,
    input: { gatewayId: 'gw-1', version: '1', connections: 0, routes: 0, uses: [] },
  })) as GatewaySynced;
  const verified = await verifyGatewayToken(token, {
    keys: await importGatewayKeys(keys),
    nowMs: asOf,
  });
  const isOver =
    verified.outcome === 'valid' && revocations?.some((one) => isRevoked(verified.claims, one));
  expect(isOver).toBe(true);
});
