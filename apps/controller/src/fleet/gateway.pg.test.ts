import { randomUUID } from 'node:crypto';
import {
  KEY_LADDERS,
  type GatewayKey,
  type GatewayRevocation,
  type GatewayRoute,
  type GatewaySynced,
} from '@leasehold/keys-core';
import {
  importGatewayKeys,
  isRevoked,
  verifyGatewayToken,
} from '@leasehold/keys-core/gateway-tokens';
import { waitUntil } from '@leasehold/testing';
import { expect, test } from 'vitest';
import {
  shareTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { startTestDrone, type TestDrone } from '../testing/test-drone.ts';
import { mutate, query } from '../testing/wire.ts';

const GATEWAY_URL = 'https://rooms.example.com';
const ADDRESS = '127.0.0.1:21000';

const withGateway = (hosts: string | null = null) => ({
  gateway: { url: GATEWAY_URL, hosts },
  ladder: KEY_LADDERS.standard,
});

/** Each test that changes something has a key, or a drone and a program, of its own. */
let on: TestController;
/** The same, where keys have hosts of their own. */
let withHosts: TestController;

shareTestController((shared) => {
  on = shared;
}, withGateway());

shareTestController((shared) => {
  withHosts = shared;
}, withGateway('.rooms.example.com:8443'));

interface Signed {
  readonly token: string;
  readonly url: string;
  readonly urlExpiresAt: string;
}

/** What a gateway says of all its routes. */
const TOTAL = { connections: 2, routes: 1 };
const KEY = { name: 'doc/1', namespace: 'team.a' };
const ACCESS = { user: 'ada' };

/** A key in a namespace of its own. */
const aKey = (team: string = randomUUID()) => ({ ...KEY, namespace: `${team}.a` });

/** A drone that alone offers a program. */
async function aDrone(): Promise<{ drone: TestDrone; program: string }> {
  const [droneId, program] = [randomUUID(), randomUUID()];
  return { drone: await startTestDrone(on, { droneId, programs: [program] }), program };
}

/** What a gateway knows that asks for the first time. */
async function newsFor(at: TestController, secret: string): Promise<GatewaySynced> {
  return (await mutate(at, 'gateway.sync', {
    secret,
    input: { gatewayId: 'gw-1', version: '1', ...TOTAL, uses: [] },
  })) as GatewaySynced;
}

async function isTaken(
  token: string,
  {
    keys,
    revocations,
    asOf,
  }: {
    keys: readonly GatewayKey[];
    revocations: readonly GatewayRevocation[] | null;
    asOf: number;
  },
): Promise<boolean> {
  const verified = await verifyGatewayToken(token, {
    keys: await importGatewayKeys(keys),
    nowMs: asOf,
  });
  if (verified.outcome === 'refused') return false;
  return revocations?.some((one) => isRevoked(verified.claims, one)) !== true;
}

/** Reports every backend that the drone is told to start as ready. */
function answerSpawns(drone: TestDrone): () => Promise<void> {
  const started = new Set<string>();
  return async () => {
    for (const message of drone.messages) {
      if (message.kind !== 'spawn' || started.has(message.backendId)) continue;
      started.add(message.backendId);
      await drone.report({ backendId: message.backendId, status: 'ready', address: ADDRESS });
    }
  };
}

test('a browser with a signed token is led to a backend that it wakes, until its user is revoked', async () => {
  const alone = await startTestController(withGateway());
  const drone = await startTestDrone(alone);
  const { secret } = await alone.token('gateway');
  const client = (await alone.token('client')).secret;

  const signed = (await mutate(alone, 'gateway.sign', {
    secret: client,
    input: {
      key: KEY,
      access: { ...ACCESS, claims: { role: 'editor' }, mayStart: true },
      spawn: { program: 'room' },
    },
  })) as Signed;
  expect(signed.url).toBe(`${GATEWAY_URL}/t/${signed.token}/`);

  const news = await newsFor(alone, secret);
  expect(await isTaken(signed.token, news)).toBe(true);
  const verified = await verifyGatewayToken(signed.token, {
    keys: await importGatewayKeys(news.keys),
    nowMs: news.asOf,
  });
  if (verified.outcome !== 'valid') throw new Error(verified.reason);
  const { claims } = verified;
  // Everybody can read a token: it does not have what it starts.
  expect(JSON.stringify(claims)).not.toContain('room');
  const asked = mutate(alone, 'gateway.route', {
    secret,
    input: {
      key: { name: claims.key, namespace: claims.ns, tag: claims.tag },
      start: claims.start,
    },
  });
  const answer = answerSpawns(drone);
  let isAnswered = false;
  void asked.then(() => {
    isAnswered = true;
  });
  await waitUntil(async () => {
    await answer();
    return isAnswered;
  });
  const route = (await asked) as GatewayRoute;
  expect(route).toMatchObject({
    address: ADDRESS,
    program: 'room',
  });
  expect(route.validForMs).toBeGreaterThan(0);

  const use = { leaseId: route.leaseId, connections: 2, users: 1, requests: 3, usedAgoMs: 0 };
  const synced = (await mutate(alone, 'gateway.sync', {
    secret,
    input: {
      gatewayId: 'gw-1',
      version: '1',
      ...TOTAL,
      revision: news.revision,
      uses: [use, { ...use, leaseId: randomUUID() }],
    },
  })) as GatewaySynced;
  expect(synced.routes.map(({ state }) => state)).toEqual(['valid', 'ended']);
  expect(synced.revocations).toBeNull();
  const viewer = (await alone.token('viewer')).secret;
  expect(await query(alone, 'gateway.list', { secret: viewer })).toMatchObject({
    url: GATEWAY_URL,
    items: [
      { gatewayId: 'gw-1', version: '1', connections: 2, routes: 1, requests: 3, isAlive: true },
    ],
  });
  const backendId = drone.messages.find((message) => message.kind === 'spawn')?.backendId;
  const started = { secret: viewer, input: { backendId } };
  expect(await query(alone, 'backends.get', started)).toMatchObject({
    throughGateways: { connections: 2, users: 1 },
  });

  await mutate(alone, 'gateway.revoke', {
    secret: client,
    input: { namespace: 'team', user: 'ada', reason: 'left the team' },
  });

  expect(await isTaken(signed.token, await newsFor(alone, secret))).toBe(false);
  const audit = (await alone.client('operator')).audit.list.query({ action: 'gateway.revoke' });
  expect((await audit).items).toMatchObject([
    { resource: 'namespace:team', reason: 'left the team', detail: { user: 'ada' } },
  ]);
});

test('a start through a gateway that is refused leaves a trace, as a refused connect does', async () => {
  const [key, program] = [aKey(), randomUUID()];
  const { secret } = await on.token('gateway');
  const client = (await on.token('client')).secret;
  const { token } = (await mutate(on, 'gateway.sign', {
    secret: client,
    input: { key, access: { ...ACCESS, mayStart: true }, spawn: { program } },
  })) as Signed;
  const news = await newsFor(on, secret);
  const verified = await verifyGatewayToken(token, {
    keys: await importGatewayKeys(news.keys),
    nowMs: news.asOf,
  });
  if (verified.outcome !== 'valid') throw new Error(verified.reason);
  const { start } = verified.claims;

  expect(await mutate(on, 'gateway.route', { secret, input: { key } })).toBe('key.unheld');
  const answer = await mutate(on, 'gateway.route', { secret, input: { key, start } });

  expect(answer).toBe('spawn.no_drone');
  const viewer = await on.client('viewer');
  const { items } = await waitUntil(async () => {
    const page = await viewer.refusals.list.query(key);
    return page.items.length > 0 ? page : undefined;
  });
  expect(items).toMatchObject([{ ...key, code: 'spawn.no_drone', count: 1 }]);
});

test('a client signs and revokes in its own namespaces, and starts of its own programs, alone', async () => {
  const team = randomUUID();
  const own = aKey(team);
  const { secret } = await on.token('client', { namespaces: [team], programs: ['room'] });
  const sign = (key: object, more: object = {}) =>
    mutate(on, 'gateway.sign', { secret, input: { key, access: ACCESS, ...more } });
  const starting = (program: string): object => ({
    access: { ...ACCESS, mayStart: true },
    spawn: { program },
  });

  expect(await sign({ name: 'k', namespace: 'other' })).toBe('auth.forbidden');
  expect(await sign({ name: 'k' })).toBe('auth.forbidden');
  expect(await sign({ name: 'k', namespace: 'leasehold' })).toBe('auth.forbidden');
  expect(await sign(own, starting('other'))).toBe('spawn.not_allowed');
  expect(await sign(own, starting('room'))).toMatchObject({ token: expect.any(String) as string });
  const revoke = (input: object) =>
    mutate(on, 'gateway.revoke', { secret, input: { reason: 'why', user: 'ada', ...input } });
  expect(await revoke({})).toBe('auth.forbidden');
  expect(await revoke({ namespace: 'other' })).toBe('auth.forbidden');
  expect(await revoke({ namespace: own.namespace })).toMatchObject({
    revokedAt: expect.any(String) as string,
  });
});

test('a token for the present grant names it, and is not made for a key without one', async () => {
  const { drone, program } = await aDrone();
  const key = aKey();
  const { secret } = await on.token('client');
  const gateway = (await on.token('gateway')).secret;
  const sign = () =>
    mutate(on, 'gateway.sign', {
      secret,
      input: { key, access: { ...ACCESS, grantOnly: true } },
    });
  expect(await sign()).toBe('key.unheld');
  const { leaseId } = (await mutate(on, 'keys.connect', {
    secret,
    input: { key, spawn: { program } },
  })) as { leaseId: string };
  await answerSpawns(drone)();

  const { token } = (await sign()) as Signed;

  const { keys, asOf } = await newsFor(on, gateway);
  const verified = await verifyGatewayToken(token, {
    keys: await importGatewayKeys(keys),
    nowMs: asOf,
  });
  expect(verified).toMatchObject({ outcome: 'valid', claims: { grant: leaseId } });
});

test('who a token is for, and for how long, is bounded', async () => {
  const { secret } = await on.token('client');
  const wrong: Readonly<Record<string, object>> = {
    'claims of 2 KiB and a byte': { claims: { a: 'x'.repeat(2_048 - '{"a":""}'.length + 1) } },
    'no user': { user: '' },
    'a user that is too long': { user: 'x'.repeat(256) },
    'no time': { expiresInSeconds: 0 },
    'more than a month': { expiresInSeconds: 30 * 24 * 60 * 60 + 1 },
    'a start of nothing': { mayStart: true },
    'a start after its grant': { mayStart: true, grantOnly: true },
    'an unknown field': { admin: true },
  };
  for (const [what, access] of Object.entries(wrong)) {
    const input = { key: KEY, access: { ...ACCESS, ...access } };
    for (const path of ['gateway.sign', 'keys.connect']) {
      expect([what, await mutate(on, path, { secret, input })]).toEqual([what, 'request.invalid']);
    }
  }
});

test('claims of 2 KiB fit, and the token fits into a header', async () => {
  const { secret } = await on.token('client');
  const text = (bytes: number): string => '"'.repeat(bytes);

  const { token } = (await mutate(on, 'gateway.sign', {
    secret,
    input: {
      key: { name: text(255), namespace: text(512), tag: text(255) },
      access: {
        user: text(255),
        claims: { a: 'x'.repeat(2_048 - '{"a":""}'.length) },
        expiresInSeconds: 60,
      },
    },
  })) as Signed;

  const gateway = (await on.token('gateway')).secret;
  expect(await isTaken(token, await newsFor(on, gateway))).toBe(true);
});

test('a connect with access answers an address with a token of its own, each time a new one', async () => {
  const { drone, program } = await aDrone();
  const key = aKey();
  const { secret } = await on.token('client');
  const connect = async (more: object = {}) =>
    (await mutate(on, 'keys.connect', {
      secret,
      input: { key, spawn: { program }, idempotencyKey: 'once', ...more },
    })) as Signed & { backendId: string; leaseId: string };

  const plain = await connect();
  expect(plain.url).toBe(`${GATEWAY_URL}/k/${key.namespace}/doc%2F1/`);
  expect(plain.urlExpiresAt).toBeNull();
  const first = await connect({ access: { ...ACCESS, grantOnly: true } });
  const again = await connect({ access: { ...ACCESS, mayStart: true } });

  expect([first.backendId, again.backendId]).toEqual([plain.backendId, plain.backendId]);
  expect(drone.messages.filter(({ kind }) => kind === 'spawn').length).toBeLessThanOrEqual(1);
  const { keys, asOf } = await newsFor(on, (await on.token('gateway')).secret);
  const claimsIn = async ({ url }: Signed) => {
    const token = url.slice(`${GATEWAY_URL}/t/`.length, -1);
    return verifyGatewayToken(token, { keys: await importGatewayKeys(keys), nowMs: asOf });
  };
  expect(await claimsIn(first)).toMatchObject({
    outcome: 'valid',
    claims: { sub: 'ada', ns: key.namespace, key: 'doc/1', grant: plain.leaseId },
  });
  expect(await claimsIn(again)).toMatchObject({
    outcome: 'valid',
    claims: { start: expect.any(String) as string },
  });
  expect(Date.parse(again.urlExpiresAt)).toBeGreaterThan(asOf + 3_500_000);
});

test('a key with a random name is reached under that name', async () => {
  const { program } = await aDrone();
  const { secret } = await on.token('client');

  const { url, key } = (await mutate(on, 'keys.connect', {
    secret,
    input: { spawn: { program } },
  })) as Signed & { key: { name: string } };

  expect(url).toBe(`${GATEWAY_URL}/k/_/${key.name}/`);
});

test('without a gateway nothing is signed, and nothing is granted for it', async () => {
  const alone = await startTestController();
  await startTestDrone(alone);
  const { secret } = await alone.token('client');
  const connect = (access: object) =>
    mutate(alone, 'keys.connect', {
      secret,
      input: { key: KEY, spawn: { program: 'room' }, idempotencyKey: 'once', ...access },
    });
  expect(await connect({ access: ACCESS })).toBe('gateway.not_configured');
  expect(await query(alone, 'keys.get', { secret, input: KEY })).toBeNull();
  expect(await connect({})).toMatchObject({ spawned: true, url: null, urlExpiresAt: null });

  expect(await mutate(alone, 'gateway.sign', { secret, input: { key: KEY, access: ACCESS } })).toBe(
    'gateway.not_configured',
  );
});

test.each(['.', '..'])(
  'no path can name the key %s: nothing is signed for it, and it has no address',
  async (name) => {
    const { program } = await aDrone();
    const { secret } = await on.token('client');
    const ofHosts = await withHosts.token('client');
    const input = { key: { name }, access: ACCESS };
    const plain = { key: { name }, spawn: { program }, idempotencyKey: 'once' };
    const connect = { ...plain, access: ACCESS };

    expect(await mutate(on, 'gateway.sign', { secret, input })).toBe('request.invalid');
    expect(await mutate(on, 'keys.connect', { secret, input: connect })).toBe('request.invalid');
    expect(await mutate(on, 'keys.connect', { secret, input: plain })).toMatchObject({ url: null });
    const signed = await mutate(withHosts, 'gateway.sign', { secret: ofHosts.secret, input });
    expect(signed).toMatchObject({
      url: expect.stringContaining('.rooms.example.com:8443/t/') as string,
    });
  },
);

test('keys with hosts of their own are reached there', async () => {
  const { secret } = await withHosts.token('client');
  const sign = async (key: object): Promise<string> => {
    const input = { key, access: ACCESS };
    return ((await mutate(withHosts, 'gateway.sign', { secret, input })) as Signed).url;
  };

  const url = await sign(KEY);

  expect(url).toMatch(/^https:\/\/[0-9a-f]{32}\.rooms\.example\.com:8443\/t\/[\w.-]+\/$/u);
  expect(new URL(await sign(KEY)).host).toBe(new URL(url).host);
  expect(new URL(await sign({ ...KEY, namespace: 'team' })).host).not.toBe(new URL(url).host);
});

test('a gateway token opens nothing besides routes', async () => {
  const { secret } = await on.token('gateway');

  expect(await mutate(on, 'keys.connect', { secret, input: { key: KEY } })).toBe('auth.forbidden');
  expect(await query(on, 'keys.list', { secret })).toBe('auth.forbidden');
  expect(await query(on, 'gateway.list', { secret })).toBe('auth.forbidden');
  expect(await mutate(on, 'gateway.sign', { secret, input: { key: KEY, access: ACCESS } })).toBe(
    'auth.forbidden',
  );
  expect(await mutate(on, 'gateway.rotate', { secret, input: { reason: 'x' } })).toBe(
    'auth.forbidden',
  );
  const drone = (await on.token('drone')).secret;
  expect(await mutate(on, 'gateway.route', { secret: drone, input: { key: KEY } })).toBe(
    'auth.forbidden',
  );
});

test('more uses than one call may have are refused before they are looked at', async () => {
  const { secret } = await on.token('gateway');
  const uses = (count: number) =>
    Array.from({ length: count }, () => ({
      leaseId: randomUUID(),
      connections: 1_000_000_000,
      users: 1_000_000_000,
      requests: 1_000_000_000,
      usedAgoMs: 12_345.678_9,
    }));
  const send = (count: number) =>
    mutate(on, 'gateway.sync', {
      secret,
      input: { gatewayId: 'gw-1', version: '1', ...TOTAL, uses: uses(count) },
    });

  expect(((await send(5_000)) as GatewaySynced).routes).toHaveLength(5_000);
  expect(await send(5_001)).toBe('request.invalid');
});
