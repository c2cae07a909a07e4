import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { expect, test, describe } from 'vitest';
import type { SessionRef } from '../fleet/sql/drone-sessions.ts';
import type { ConnectResult } from '../keys/index.ts';
import type { BackendReport } from '../keys/key-types.ts';
import { toleratedClockRatio, KEY_LADDERS } from '../kernel/ladder.ts';
import { LIMITS } from '../kernel/limits.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import {
  CLIENT,
  connect,
  keyNamed,
  openKeys,
  OPERATOR,
  reportOf,
  type Keys,
} from '../testing/keys-fixture.ts';
import { BY } from '../testing/kernel-fixture.ts';
import { createGatewayService, type GatewayService, type SignInput } from './index.ts';
import { importGatewayKeys, isRevoked, verifyGatewayToken } from './gateway-tokens.ts';

interface Gateways extends Keys {
  readonly gateway: GatewayService;
}

async function openGateways(databaseUrl?: string): Promise<Gateways> {
  const on = await openKeys(databaseUrl === undefined ? {} : { databaseUrl });
  const gateway = createGatewayService({
    store: on.store,
    connect: (input, caller, signal) =>
      on.keys.connect({ ...input, key: input.key ?? keyNamed('random') }, caller, signal),
  });
  return { ...on, gateway };
}

const GATEWAY = { ...CLIENT, principal: 'token-g', actor: 'gateway', role: 'gateway' };
const { signal: UNENDING } = new AbortController();
const ADDRESS = '127.0.0.1:21000';
const ROOM = { program: 'room', args: [], env: {} };

const accessOf = (change: Partial<SignInput['access']> = {}): SignInput['access'] => ({
  user: 'ada',
  expiresInSeconds: 60,
  ...change,
});

/** A key whose backend is ready, on the only drone. */
async function aReadyKey(
  on: Keys,
  name = 'demo',
  given?: SessionRef,
): Promise<{ drone: SessionRef; found: ConnectResult }> {
  const drone = given ?? (await aDrone(on.store.vital, { capacity: 100 }));
  const found = await connect(on, { key: keyNamed(name) });
  await on.keys.report(reportOf(drone, found.backendId, 'ready', { address: ADDRESS }));
  return { drone, found };
}

const route = (on: Gateways, change: Partial<Parameters<GatewayService['route']>[0]> = {}) =>
  on.gateway.route({ key: keyNamed('demo'), waitMs: 0, ...change }, GATEWAY, UNENDING);

/** The backend of the key that is not the one before. */
const startedAfter = (on: Keys, before: string | null): Promise<string> =>
  waitUntil(async () => {
    const backendId = (await on.keys.get(keyNamed('demo'), CLIENT))?.backendId;
    return backendId === before ? undefined : (backendId ?? undefined);
  });

/** A question about a route that has started a backend, and waits for it; refused, maybe, before the test looks. */
async function aWaitingStart(on: Gateways, waitMs = 20_000) {
  const drone = await aDrone(on.store.vital, { capacity: 100 });
  const access = accessOf();
  const { token } = await on.gateway.sign({ key: keyNamed('demo'), access, spawn: ROOM });
  const { claims } = await judge(on, token);
  const asked = route(on, { start: claims?.start, waitMs });
  asked.catch(() => undefined);
  return { drone, asked, backendId: await startedAfter(on, null) };
}

const sync = (on: Gateways, change: Partial<Parameters<GatewayService['sync']>[0]> = {}) =>
  on.gateway.sync({
    gatewayId: 'gw-1',
    version: '1',
    connections: 0,
    routes: 0,
    uses: [],
    ...change,
  });

const useOf = (leaseId: string, change: object = {}) => ({
  leaseId,
  connections: 1,
  users: 1,
  requests: 1,
  usedAgoMs: 0,
  ...change,
});

/** What the token says, if a gateway that has just asked takes it. */
async function judge(on: Gateways, token: string) {
  const { keys, revocations, asOf } = await sync(on);
  const verified = await verifyGatewayToken(token, {
    keys: await importGatewayKeys(keys),
    nowMs: asOf,
  });
  if (verified.outcome === 'refused') return { outcome: verified.reason };
  const isRefused = revocations?.some((one) => isRevoked(verified.claims, one)) === true;
  return { outcome: isRefused ? 'revoked' : 'valid', claims: verified.claims };
}

describe('tokens', () => {
  test('a token says what it was made for, and is taken by a gateway that asks for the keys', async () => {
    const on = await openGateways();

    const { token, expiresAt } = await on.gateway.sign({
      key: { name: 'demo', namespace: 'team', tag: 't' },
      access: accessOf({ claims: { role: 'editor' } }),
      leaseId: 'a-lease',
    });

    const { outcome, claims } = await judge(on, token);
    expect(outcome).toBe('valid');
    expect(claims).toMatchObject({
      sub: 'ada',
      ns: 'team',
      key: 'demo',
      tag: 't',
      claims: { role: 'editor' },
      grant: 'a-lease',
    });
    expect(claims).not.toHaveProperty('start');
    expect(Date.parse(expiresAt)).toBe(Math.round((claims?.exp ?? 0) * 1_000));
    expect((claims?.exp ?? 0) - (claims?.iat ?? 0)).toBeCloseTo(60, 2);
  });

  test('what a token was made for is read again while it is in force, with the rest of its time', async () => {
    const on = await openGateways();
    const input = {
      key: { name: 'demo', namespace: 'team', tag: 't' },
      access: accessOf({ claims: { role: 'editor' } }),
      spawn: ROOM,
    };
    const { token } = await on.gateway.sign(input);

    const { access, ...read } = await on.gateway.read(token);

    expect(read).toEqual({ key: input.key, spawn: ROOM, leaseId: undefined });
    expect(access).toMatchObject({ user: 'ada', claims: { role: 'editor' } });
    expect(access.expiresInSeconds).toBeGreaterThan(50);
    expect(access.expiresInSeconds).toBeLessThanOrEqual(60);
    const refused = { code: 'gateway.token_over' };
    await expect(on.gateway.read(`${token.slice(0, -8)}AAAAAAAA`)).rejects.toMatchObject(refused);
    await on.gateway.revoke({ namespace: '', user: 'ada', reason: 'left' }, BY);
    await expect(on.gateway.read(token)).rejects.toMatchObject(refused);
  });

  test('of two controllers that sign the first tokens at once, one makes the key', async () => {
    const on = await openGateways();
    const other = await openGateways(on.databaseUrl);

    const tokens = await Promise.all(
      [on, other, on, other].map(({ gateway }) =>
        gateway.sign({ key: keyNamed('demo'), access: accessOf() }),
      ),
    );

    expect((await sync(on)).keys).toHaveLength(1);
    for (const { token } of tokens) expect((await judge(on, token)).outcome).toBe('valid');
  });

  test('after a rotation new tokens have a new key, and older ones are taken until they are over', async () => {
    const on = await openGateways();
    const before = await on.gateway.sign({ key: keyNamed('demo'), access: accessOf() });

    const { kid } = await on.gateway.rotate({ now: false, reason: 'why' }, BY);
    const after = await on.gateway.sign({ key: keyNamed('demo'), access: accessOf() });

    expect((await sync(on)).keys.map((key) => key.kid)).toContain(kid);
    expect((await judge(on, before.token)).outcome).toBe('valid');
    expect((await judge(on, after.token)).outcome).toBe('valid');
    const headerOf = ({ token }: { token: string }): unknown =>
      JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString());
    expect(headerOf(after)).toEqual({ alg: 'EdDSA', kid });
    await on.store.general.$executeRaw`
      update gateway_key set until = clock_timestamp() - interval '1 second' where retired_at is not null`;
    expect((await judge(on, before.token)).outcome).toBe('unknown_key');
  });

  test('a rotation at once ends all tokens, and takes the revocations away', async () => {
    const on = await openGateways();
    const first = await on.gateway.sign({ key: keyNamed('demo'), access: accessOf() });
    await on.gateway.rotate({ now: false, reason: 'why' }, BY);
    const second = await on.gateway.sign({ key: keyNamed('demo'), access: accessOf() });
    await on.gateway.revoke({ namespace: '', user: 'bob', reason: 'why' }, BY);

    await on.gateway.rotate({ now: true, reason: 'why' }, BY);

    expect((await judge(on, first.token)).outcome).toBe('unknown_key');
    expect((await judge(on, second.token)).outcome).toBe('unknown_key');
    expect((await sync(on)).revocations).toEqual([]);
    const after = await on.gateway.sign({ key: keyNamed('demo'), access: accessOf() });
    expect((await judge(on, after.token)).outcome).toBe('valid');
  });

  test.each([
    ['its user', { user: 'ada' }, 'revoked'],
    ['another user', { user: 'bob' }, 'valid'],
    ['its key', { namespace: 'team.a', name: 'demo' }, 'revoked'],
    ['the same name in another namespace', { namespace: 'team.b', name: 'demo' }, 'valid'],
    ['its user in a parent of its namespace', { namespace: 'team', user: 'ada' }, 'revoked'],
    ['its grant', { leaseId: '00000000-0000-4000-8000-000000000001' }, 'revoked'],
    ['another grant', { leaseId: '00000000-0000-4000-8000-000000000002' }, 'valid'],
  ])('a token of which %s was revoked', async (_what, revoked, outcome) => {
    const on = await openGateways();
    const { token } = await on.gateway.sign({
      key: { name: 'demo', namespace: 'team.a', tag: '' },
      access: accessOf(),
      leaseId: '00000000-0000-4000-8000-000000000001',
    });

    await on.gateway.revoke({ namespace: '', reason: 'why', ...revoked }, BY);

    expect((await judge(on, token)).outcome).toBe(outcome);
  });

  test('a user who is let in again right after a revocation is let in, whatever the clock does', async () => {
    const on = await openGateways();
    const revoke = () => on.gateway.revoke({ namespace: '', user: 'ada', reason: 'why' }, BY);
    const sign = () => on.gateway.sign({ key: keyNamed('demo'), access: accessOf() });
    await revoke();
    // As if the clock had been set back since.
    await on.store.general.$executeRaw`update gateway_revocation set at = at + interval '1 hour'`;

    const again = await sign();

    expect((await judge(on, again.token)).outcome).toBe('valid');
    await revoke();
    expect((await judge(on, again.token)).outcome).toBe('revoked');
    expect((await judge(on, (await sign()).token)).outcome).toBe('valid');
  });

  test('the revision changes with each revocation, also with one that was there before', async () => {
    const on = await openGateways();
    const revoke = (user: string) => on.gateway.revoke({ namespace: '', user, reason: 'why' }, BY);
    const first = await sync(on);
    expect(first.revocations).toEqual([]);
    expect((await sync(on, { revision: first.revision })).revocations).toBeNull();

    const seen: (number | undefined)[] = [];
    let { revision } = first;
    for (const user of ['ada', 'bob', 'ada']) {
      await revoke(user);
      const synced = await sync(on, { revision });
      ({ revision } = synced);
      seen.push(synced.revocations?.length);
    }

    expect(seen).toEqual([1, 2, 2]);
    expect((await sync(on, { revision })).revocations).toBeNull();
  });

  test('revocations of several controllers at once are all seen by a gateway that asks between them', async () => {
    const on = await openGateways();
    const other = await openGateways(on.databaseUrl);
    const users = Array.from({ length: 40 }, (_, nth) => `u${String(nth)}`);
    const known = new Map<string, unknown>();
    let revision: string | undefined;
    const look = async (): Promise<void> => {
      const synced = await sync(on, { revision });
      ({ revision } = synced);
      if (synced.revocations === null) return;
      known.clear();
      for (const one of synced.revocations) known.set(one.user ?? '', one);
    };

    const revoking = { isDone: false };
    const looking = (async () => {
      while (!revoking.isDone) await look();
    })();
    await Promise.all(
      users.map((user, nth) =>
        (nth % 2 === 0 ? on : other).gateway.revoke({ namespace: '', user, reason: 'x' }, BY),
      ),
    );
    revoking.isDone = true;
    await looking;
    await look();

    expect([...known.keys()].sort()).toEqual(users.sort());
  });

  test('more revocations than gateways can be told are refused', async () => {
    const on = await openGateways();
    await on.store.general.$executeRaw`
      insert into gateway_revocation (id, namespace, user_name, at, until, revoked_by, reason)
      select gen_random_uuid(), '', 'u' || i, now(), now() + interval '1 day', 'test', 'test'
      from generate_series(1, ${LIMITS.gatewayRevocationsMax}) i`;

    await expect(
      on.gateway.revoke({ namespace: '', user: 'ada', reason: 'why' }, BY),
    ).rejects.toMatchObject({ code: 'gateway.too_many_revocations' });
  });

  test('a service leaves room for others, and may repeat what it has revoked', async () => {
    const on = await openGateways();
    const [greedy, other] = ['greedy', 'other'].map((actor) => ({
      ...BY,
      actor,
      role: 'client' as const,
    }));
    await on.store.general.$executeRaw`
      insert into gateway_revocation (id, namespace, user_name, at, until, revoked_by, reason)
      select gen_random_uuid(), '', 'u' || i, now(), now() + interval '1 day', 'greedy', 'test'
      from generate_series(1, ${LIMITS.gatewayRevocationsMax / 2}) i`;
    const revoke = async (user: string, caller = greedy ?? BY) =>
      on.gateway.revoke({ namespace: '', user, reason: 'why' }, caller);

    await expect(revoke('ada')).rejects.toMatchObject({ code: 'gateway.too_many_revocations' });
    expect(await revoke('u1')).toMatchObject({ revokedAt: expect.any(String) as string });
    expect(await revoke('ada', other)).toMatchObject({ revokedAt: expect.any(String) as string });
  });
});

describe('routes', () => {
  test('a route leads to the backend, for the time that no other grant can exist', async () => {
    const on = await openGateways();
    const { found } = await aReadyKey(on);

    const { route: to, spawned } = await route(on);

    const { leaseId, fencingToken } = found;
    expect(to).toMatchObject({
      key: keyNamed('demo'),
      leaseId,
      fencingToken,
      program: 'room',
      address: ADDRESS,
    });
    expect(spawned).toBe(false);
    const longestMs = KEY_LADDERS.standard.ttlMs / toleratedClockRatio(KEY_LADDERS.standard);
    expect(to.validForMs).toBeGreaterThan(0);
    expect(to.validForMs).toBeLessThanOrEqual(longestMs);
    expect(to.validForMs).toBeLessThan(KEY_LADDERS.standard.ttlMs * 0.9);
  });

  test('a key without a backend is refused without a start', async () => {
    const on = await openGateways();
    await aDrone(on.store.vital);

    await expect(route(on)).rejects.toMatchObject({ code: 'key.unheld' });
  });

  test('a start that a token names is started, and the answer waits until it is ready', async () => {
    const on = await openGateways();
    const { drone, asked, backendId } = await aWaitingStart(on);
    await on.keys.report(reportOf(drone, backendId, 'ready', { address: ADDRESS }));

    const answer = await asked;
    expect(answer.spawned).toBe(true);
    expect(answer.route).toMatchObject({ program: 'room', address: ADDRESS });
    expect(answer.route.validForMs).toBeGreaterThan(0);
  });

  test.each<[string, Partial<BackendReport>]>([
    ['revoked', { reason: 'revoked' }],
    ['lost with its drone', { reason: 'drone_lost' }],
    ['refused by its drone', { reason: 'internal', refused: true }],
  ])('a start that was %s is followed by the next one while there is time', async (_how, end) => {
    const on = await openGateways();
    const { drone, asked, backendId } = await aWaitingStart(on);

    await on.keys.report(reportOf(drone, backendId, 'terminated', end));
    const next = await startedAfter(on, backendId);
    await on.keys.report(reportOf(drone, next, 'ready', { address: ADDRESS }));

    expect((await asked).route.address).toBe(ADDRESS);
  });

  test('of starts that are all refused, each is asked for later than the one before', async () => {
    const on = await openGateways();
    const { drone, asked, backendId } = await aWaitingStart(on, 500);
    let isOver = false;
    const refused = expect(asked.finally(() => (isOver = true))).rejects.toBeDefined();

    let count = 1;
    for (let last: string | undefined = backendId; last !== undefined;) {
      const before: string = last;
      const end = { reason: 'internal', refused: true } as const;
      await on.keys.report(reportOf(drone, before, 'terminated', end));
      last = await waitUntil(async () => {
        const next = (await on.keys.get(keyNamed('demo'), CLIENT))?.backendId ?? null;
        return next !== before ? next : isOver && 'over';
      }).then((found) => (found === 'over' ? undefined : found));
      if (last !== undefined) count += 1;
    }

    await refused;
    // At 0, 0, 100 and 300 ms; the next one would be at 700 ms, and is asked for when the time is over.
    expect(count).toBeLessThanOrEqual(5);
  });

  test('a start whose program has failed is answered as that at once', async () => {
    const on = await openGateways();
    const { drone, asked, backendId } = await aWaitingStart(on);
    const refused = expect(asked).rejects.toMatchObject({
      code: 'backend.failed',
      details: { hasFailed: true },
    });

    await on.keys.report(reportOf(drone, backendId, 'loading'));
    await on.keys.report(reportOf(drone, backendId, 'terminated', { reason: 'internal' }));

    await refused;
  });

  test('equal starts are one record, which is kept for as long as a token names it', async () => {
    const on = await openGateways();
    const startOf = async (env: Record<string, string>, expiresInSeconds = 60) => {
      const { token } = await on.gateway.sign({
        key: keyNamed('demo'),
        access: accessOf({ expiresInSeconds }),
        spawn: { ...ROOM, env },
      });
      return (await judge(on, token)).claims?.start;
    };

    const first = await startOf({ A: '1', B: '2' });

    expect(await startOf({ B: '2', A: '1' })).toBe(first);
    expect(await startOf({ B: '2', A: '2' })).not.toBe(first);
    await startOf({ A: '1', B: '2' }, 1_000_000);
    const [row] = await on.store.general.$queryRaw<{ days: number }[]>`
      select date_part('day', until - clock_timestamp()) as days from gateway_start where id = ${first}`;
    expect(row?.days).toBe(11);
  });

  test('a start that is not known any more is a clear refusal, and a running backend needs none', async () => {
    const on = await openGateways();
    const drone = await aDrone(on.store.vital);
    await expect(route(on, { start: 'unknown' })).rejects.toMatchObject({
      code: 'gateway.start_over',
    });
    const { found } = await aReadyKey(on, 'demo', drone);

    expect((await route(on, { start: 'unknown' })).route.leaseId).toBe(found.leaseId);
  });

  test('a token for one grant leads to that grant alone, and starts no other', async () => {
    const on = await openGateways();
    const { drone, found } = await aReadyKey(on);
    const { leaseId } = found;
    expect((await route(on, { leaseId })).route.leaseId).toBe(leaseId);
    await expect(route(on, { leaseId: randomUUID() })).rejects.toMatchObject({
      code: 'gateway.grant_over',
    });

    await on.keys.report(reportOf(drone, found.backendId, 'terminated'));

    await expect(route(on, { leaseId })).rejects.toMatchObject({ code: 'gateway.grant_over' });
  });

  test('a backend that is not ready in time is a refusal that says where it is', async () => {
    const on = await openGateways();
    await aDrone(on.store.vital);
    await connect(on);

    await expect(route(on, { waitMs: 20 })).rejects.toMatchObject({ code: 'backend.not_ready' });
  });

  test('nobody is sent to a backend that was asked to stop', async () => {
    const on = await openGateways();
    const { found } = await aReadyKey(on);
    await on.keys.terminate({ backendId: found.backendId, mode: 'soft' }, OPERATOR, BY);

    await expect(route(on)).rejects.toMatchObject({ code: 'key.terminating' });
    expect((await sync(on, { uses: [useOf(found.leaseId)] })).routes).toEqual([
      { leaseId: found.leaseId, state: 'ended' },
    ]);
  });
});

describe('idle stop', () => {
  const IDLE_SECONDS = 10;
  const idleKey = async (on: Gateways) => {
    const drone = await aDrone(on.store.vital, { capacity: 100 });
    const found = await connect(on, { spawn: { ...ROOM, idleStopSeconds: IDLE_SECONDS } });
    await on.keys.report(reportOf(drone, found.backendId, 'ready', { address: ADDRESS }));
    return found;
  };
  const ageUse = (on: Gateways, seconds: number) => on.store.general.$executeRaw`
    update backend set last_used_at = clock_timestamp() - ${seconds}::int * interval '1 second',
      status_at = clock_timestamp() - ${seconds}::int * interval '1 second'`;

  test('a route is not valid for longer than its backend is surely not idle', async () => {
    const on = await openGateways();
    await idleKey(on);
    await ageUse(on, 5);

    const { route: to } = await route(on);

    expect(to.validForMs).toBeLessThanOrEqual(IDLE_SECONDS * 1_000);
    expect(to.validForMs).toBeGreaterThan((IDLE_SECONDS - 5) * 1_000);
  });

  test('what a gateway reports as used keeps its backend, and what it reports as unused does not', async () => {
    const on = await openGateways();
    const { leaseId } = await idleKey(on);
    await ageUse(on, IDLE_SECONDS);
    const validFor = async (usedAgoMs: number): Promise<number> => {
      const { routes } = await sync(on, { uses: [useOf(leaseId, { usedAgoMs })] });
      const [state] = routes;
      return state?.state === 'valid' ? state.validForMs : NaN;
    };

    expect(await validFor(60_000)).toBe(0);
    expect(await validFor(4_000)).toBeLessThanOrEqual(6_000);
    expect(await validFor(0)).toBeGreaterThan(6_000);
  });

  test('nobody is led to a backend that is being stopped for idleness', async () => {
    const on = await openGateways();
    const { leaseId } = await idleKey(on);
    await on.store.general.$executeRaw`update backend set stop_asked_at = clock_timestamp()`;

    await expect(route(on)).rejects.toMatchObject({ code: 'key.terminating' });
    expect((await sync(on, { uses: [useOf(leaseId)] })).routes).toEqual([
      { leaseId, state: 'ended' },
    ]);
  });
});

describe('a sync', () => {
  test('keeps routes valid in the order in which they were sent, and ends those that are over', async () => {
    const on = await openGateways();
    const { drone, found } = await aReadyKey(on);
    const other = await aReadyKey(on, 'other', drone);
    const unknown = randomUUID();
    await on.keys.report(reportOf(drone, found.backendId, 'terminated'));

    const { routes } = await sync(on, {
      uses: [unknown, other.found.leaseId, found.leaseId].map((leaseId) => useOf(leaseId)),
    });

    expect(routes).toEqual([
      { leaseId: unknown, state: 'ended' },
      { leaseId: other.found.leaseId, state: 'valid', validForMs: expect.any(Number) as number },
      { leaseId: found.leaseId, state: 'ended' },
    ]);
  });

  test('a grant that has run out by the clock of the database is ended', async () => {
    const on = await openGateways();
    const { found } = await aReadyKey(on);
    await on.store.general.$executeRaw`
      update lease set expires_at = clock_timestamp() where lease_id = ${found.leaseId}::uuid`;

    expect((await sync(on, { uses: [useOf(found.leaseId)] })).routes).toEqual([
      { leaseId: found.leaseId, state: 'ended' },
    ]);
  });

  test('what a gateway says of grants that do not exist, or of one twice, is not kept', async () => {
    const on = await openGateways();
    const { found } = await aReadyKey(on);
    const lies = Array.from({ length: 100 }, () => useOf(randomUUID(), { connections: 1_000 }));

    await sync(on, {
      connections: 7,
      routes: 6_000,
      uses: [...lies, useOf(found.leaseId), useOf(found.leaseId)],
    });

    const rows = await on.store.general.$queryRaw<unknown[]>`
      select lease_id as "leaseId", connections::int, requests::int from gateway_use`;
    expect(rows).toEqual([{ leaseId: found.leaseId, connections: 1, requests: 1 }]);
    expect(await on.gateway.list()).toMatchObject([
      { gatewayId: 'gw-1', connections: 7, routes: 6_000, requests: 1, isAlive: true },
    ]);
  });

  test('requests add up, and many calls of one gateway at once do not lock each other out', async () => {
    const on = await openGateways();
    const keys = [await aReadyKey(on)];
    for (let nth = 1; nth < 20; nth += 1) {
      keys.push(await aReadyKey(on, `k${String(nth)}`, keys[0]?.drone));
    }
    const uses = keys.map(({ found }) => useOf(found.leaseId, { requests: 2 }));

    await Promise.all(
      Array.from({ length: 10 }, (_, nth) =>
        sync(on, { uses: nth % 2 === 0 ? uses : [...uses].reverse() }),
      ),
    );

    const [sums] = await on.store.general.$queryRaw<{ requests: number }[]>`
      select sum(requests)::int as requests from gateway_use`;
    expect(sums?.requests).toBe(20 * 10 * 2);
  });
});
