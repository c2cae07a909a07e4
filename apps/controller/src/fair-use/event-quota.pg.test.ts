/** Nobody makes the history grow faster than a limit allows, and nothing that ends a grant is refused for it. */
import { randomUUID } from 'node:crypto';
import { createControllerClient, leaseholdErrorOf, type ControllerApi } from '@leasehold/client';
import { beforeAll, describe, expect, onTestFinished, test, afterAll } from 'vitest';
import { openTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { refOf } from '../testing/wire-leases.ts';

const MAX = 3_000;
const LONG = 'x'.repeat(1_000);

let on: Awaited<ReturnType<typeof openTestController>>;
beforeAll(async () => {
  on = await openTestController();
});
afterAll(() => on.close());

async function limited(
  of: TestController,
  transport: 'http' | 'ws',
  role: 'client' | 'operator' = 'client',
): Promise<ControllerApi> {
  const { secret } = await of.token(role, { limits: { eventBytesPerHour: MAX } });
  const client = createControllerClient({ url: of.url, token: secret, transport });
  onTestFinished(() => client.close());
  return client.api;
}

const aLease = (key: string = randomUUID()) => ({
  namespace: ['test'],
  key,
  ttlMs: 30_000,
  holder: 'alice',
  localTimeMs: 1_000_000,
});

/** The refusal of a call; undefined if it was not refused. */
async function refusalOf(call: Promise<unknown>) {
  try {
    await call;
    return undefined;
  } catch (error) {
    const { code, details } = leaseholdErrorOf(error) ?? {};
    return { code, details };
  }
}

const REFUSED = {
  code: 'request.rate_limited',
  details: { limit: 'eventBytesPerHour', max: MAX, retryAfterMs: expect.any(Number) as number },
};

/** Acquires until it is refused. @returns what is held by then. */
async function untilRefused(api: ControllerApi) {
  const held = [];
  for (let tries = 0; tries < 10; tries += 1) {
    try {
      const answer = await api.leases.acquire.mutate(aLease());
      if (answer.outcome === 'granted') held.push(answer.lease);
    } catch (error) {
      const { code, details } = leaseholdErrorOf(error) ?? {};
      expect({ code, details }).toEqual(REFUSED);
      return held;
    }
  }
  throw new Error('nothing was refused');
}

describe.each(['http', 'ws'] as const)('over %s', (transport) => {
  test('a caller that has written as much as it may in an hour gets no grant, and still renews and releases', async () => {
    const api = await limited(on, transport);
    const held = await untilRefused(api);

    expect(held.length).toBeGreaterThan(2);
    const renewals = held.map(refOf);
    const { results } = await api.leases.heartbeat.mutate({ localTimeMs: 1, renewals });
    expect(results.map(({ outcome }) => outcome)).toEqual(held.map(() => 'renewed'));
    const environment = { environment: ['p'], action: 'a', holder: 'h', localTimeMs: 1 };
    expect(await refusalOf(api.environments.tryAcquire.mutate(environment))).toEqual(REFUSED);
    const many = await api.leases.acquireMany.mutate({
      localTimeMs: 1,
      items: [{ namespace: [], key: 'k', ttlMs: 1_000, holder: 'h' }],
    });
    expect(JSON.stringify(many.results)).toContain('eventBytesPerHour');
    for (const lease of held) {
      const { outcome } = await api.leases.release.mutate({
        ...refOf(lease),
        result: 'ok',
        detail: LONG,
      });
      expect(outcome).toBe('released');
    }
  });

  test('what a release says counts for what comes after it', async () => {
    const api = await limited(on, transport);
    for (let turn = 0; turn < 2; turn += 1) {
      const answer = await api.leases.acquire.mutate(aLease());
      if (answer.outcome !== 'granted') throw new Error(answer.outcome);
      await api.leases.release.mutate({ ...refOf(answer.lease), result: 'ok', detail: LONG });
    }

    expect(await refusalOf(api.leases.acquire.mutate(aLease()))).toEqual(REFUSED);
  });

  test('what is written to the audit counts, also of acts that change no grant', async () => {
    const acts: readonly ['client' | 'operator', (api: ControllerApi) => Promise<unknown>][] = [
      [
        'client',
        (api) => api.gateway.revoke.mutate({ user: 'u', namespace: 'test', reason: LONG }),
      ],
      [
        'operator',
        (api) =>
          api.leases.setPermits.mutate({
            namespace: `quota.${randomUUID()}`,
            permits: { perKey: 2, total: null },
            reason: LONG,
          }),
      ],
      [
        'operator',
        (api) =>
          api.environments.freeze.mutate({
            namespace: 'test',
            name: randomUUID(),
            until: new Date(Date.now() + 3_600_000).toISOString(),
            reason: LONG,
          }),
      ],
    ];
    for (const [role, act] of acts) {
      const api = await limited(on, transport, role);
      const refusals = [];
      for (let tries = 0; tries < 4; tries += 1) refusals.push(await refusalOf(act(api)));

      expect(refusals[0]).toBeUndefined();
      expect(refusals.at(-1)).toEqual(REFUSED);
    }
  });

  test('a cancel is never refused, and counts where its key is kept', async () => {
    const api = await limited(on, transport);
    const idempotencyKey = randomUUID();
    await api.leases.acquire.mutate({ ...aLease(), idempotencyKey });
    for (let count = 0; count < 20; count += 1) {
      await api.leases.cancel.mutate({ idempotencyKey: randomUUID() });
    }

    expect(await refusalOf(api.leases.acquire.mutate(aLease()))).toEqual(REFUSED);
    expect(await api.leases.cancel.mutate({ idempotencyKey })).toEqual({ outcome: 'released' });
  });

  test('what is not granted is not counted', async () => {
    const api = await limited(on, transport);
    const key = `held over ${transport}`;
    const other = await on.client('client');
    await other.leases.acquire.mutate(aLease(key));

    for (let turn = 0; turn < 10; turn += 1) {
      expect(await api.leases.acquire.mutate(aLease(key))).toMatchObject({ outcome: 'held' });
    }
    expect(await api.leases.acquire.mutate(aLease())).toMatchObject({ outcome: 'granted' });
  });
});

test('a backend that runs is found by a caller that may start no other', async () => {
  const drone = await startTestDrone(on);
  const api = await limited(on, 'http');
  const key = { name: 'runs' };
  const { backendId } = await api.keys.connect.mutate({ key, spawn: { program: 'room' } });
  await drone.report({ backendId, status: 'ready', address: '127.0.0.1:21000' });
  await untilRefused(api);

  expect((await api.keys.connect.mutate({ key })).backendId).toBe(backendId);
  const start = api.keys.connect.mutate({ key: { name: 'another' }, spawn: { program: 'room' } });
  expect(await refusalOf(start)).toEqual(REFUSED);
});

test('an operator that has written as much as it may still revokes, and blocks no more renewals', async () => {
  const api = await limited(on, 'http', 'operator');
  const held = await untilRefused(api);
  const [{ leaseId } = { leaseId: '' }] = held;
  const act = { leaseId, reason: LONG };

  expect(await refusalOf(api.leases.blockRenewal.mutate(act))).toEqual(REFUSED);
  expect(await refusalOf(api.leases.revoke.mutate({ ...act, mode: 'force' }))).toBeUndefined();
});
