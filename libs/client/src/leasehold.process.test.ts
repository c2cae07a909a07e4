import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { EnvironmentVetoedError } from './environments.ts';
import { LeaseHeldError, LeaseRevoked } from './lease/lease.ts';
import { useController } from './testing/controller-fixture.ts';
import { endOf, failureOf } from './testing/outcomes.ts';
import { EnvironmentFrozenError } from './transport/errors.ts';

const on = useController();
const { aClient, aProxy } = on;

describe.each(['ws', 'http'] as const)('leases over %s', (transport) => {
  test('C1 C26 C30 are granted, show the holder to refused callers, and are free when released', async () => {
    const key = randomUUID();
    const alice = aClient({ transport, holder: 'alice' }).defineLease(['user', 'update']);
    const bob = aClient({ transport, holder: 'bob' }).defineLease(['user', 'update']);
    const lease = await alice.acquire(key, { comment: 'at work' });

    const refused = await failureOf(bob.acquire(key, { waitMs: 0 }));

    expect(refused).toBeInstanceOf(LeaseHeldError);
    expect(refused).toMatchObject({ by: 'alice', comment: 'at work', waiters: 0 });
    expect(await lease.release()).toBe('released');
    await using next = await bob.acquire(key, { waitMs: 0 });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(lease.fencingToken));
  });

  test('are waited for in line', async () => {
    const key = randomUUID();
    const definition = aClient({ transport }).defineLease(['line']);
    const first = await definition.acquire(key);
    const second = definition.acquire(key, { waitMs: 20_000 });
    await waitUntil(async () => (await waiters('line', key)).length === 1);

    await first.release();

    await using lease = await second;
    expect(lease.isHeld).toBe(true);
  });

  test('are acquired a thousand at once, each with its own answer', async () => {
    const definition = aClient({ transport }).defineLease(['many']);
    const prefix = randomUUID();

    const leases = await Promise.all(
      Array.from({ length: 1_000 }, (_, nth) => definition.acquire(`${prefix}-${String(nth)}`)),
    );

    expect(new Set(leases.map(({ leaseId }) => leaseId)).size).toBe(1_000);
    expect(await Promise.all(leases.map((lease) => lease.release()))).toEqual(
      leases.map(() => 'released'),
    );
  });
});

describe('revocation', () => {
  test('I15 reaches the holder long before its next renewal', async () => {
    const key = randomUUID();
    const lease = await aClient().defineLease(['revoked'], { ttlMs: 600_000 }).acquire(key);
    const ended = endOf(lease.signal);

    await on.operator.api.leases.revoke.mutate({
      leaseId: lease.leaseId,
      mode: 'force',
      reason: 'maintenance',
    });

    expect(await ended).toBeInstanceOf(LeaseRevoked);
    expect(lease.signal.reason).toMatchObject({ note: 'maintenance' });
    expect(await lease.release()).toBe('revoked');
  });
});

describe('a network that fails', () => {
  test('C29 releases nothing when it drops a connection: the holder renews over the next one', async () => {
    const proxy = await aProxy();
    const key = randomUUID();
    const lease = await aClient({ url: proxy.url })
      .defineLease(['dropped'], { ttlMs: 9_000 })
      .acquire(key);
    const before = await view('dropped', key);

    proxy.cut();

    const after = await waitUntil(async () => {
      const seen = await view('dropped', key);
      return seen.expiresAt > before.expiresAt ? seen : undefined;
    });
    expect(after.leaseId).toBe(lease.leaseId);
    expect(lease.isHeld).toBe(true);
    await lease.release();
  });

  test.each(['ws', 'http'] as const)(
    'over %s leaves a waiting caller with a place in line after a broken connection',
    async (transport) => {
      const proxy = await aProxy();
      const key = randomUUID();
      const first = await aClient().defineLease(['broken', 'line']).acquire(key);
      const waiting = aClient({ url: proxy.url, transport })
        .defineLease(['broken', 'line'])
        .acquire(key, { waitMs: 30_000 });
      await waitUntil(async () => (await waiters('broken.line', key)).length === 1);

      proxy.cut();
      await waitUntil(async () => {
        const line = await waiters('broken.line', key);
        return line.length === 1 && proxy.connectionsCount > 0;
      });
      await first.release();

      await using lease = await waiting;
      expect(lease.isHeld).toBe(true);
    },
  );

  test('C28 lets a release after a loss report how the lease ended', async () => {
    const proxy = await aProxy();
    const key = randomUUID();
    const lease = await aClient({ url: proxy.url })
      .defineLease(['lost'], { ttlMs: 1_000 })
      .acquire(key);
    proxy.drop();
    await endOf(lease.signal);
    await using next = await aClient().defineLease(['lost']).acquire(key);
    proxy.heal();

    expect(await lease.release()).toBe('expired');
    expect((await view('lost', key)).leaseId).toBe(next.leaseId);
  });
});

describe('nobody at the address', () => {
  test.each(['ws', 'http'] as const)('over %s has its own error', async (transport) => {
    const proxy = await aProxy();
    await proxy.close();
    const client = aClient({ url: proxy.url, transport, answerMs: 300 });

    const failure = await failureOf(client.defineLease(['no', 'body']).acquire('k'));

    expect(failure).toMatchObject({ name: 'UnreachableError', code: 'request.unreachable' });
  });
});

describe('environments', () => {
  test('outlive their duration with renew', async () => {
    const environment = randomUUID();
    const client = aClient();
    const attempt = await client.environments.tryAcquire(environment, {
      action: 'deploy',
      durationMs: 6_000,
      renew: true,
    });
    if (attempt.outcome !== 'granted') throw new Error('held');
    const before = await on.operator.api.environments.get.query({ environment });

    await waitUntil(async () => {
      const seen = await on.operator.api.environments.get.query({ environment });
      return Date.parse(seen?.expiresAt ?? '') > Date.parse(before?.expiresAt ?? '');
    });

    expect(attempt.lease.isHeld).toBe(true);
    await attempt.lease.release();
  });

  test('let withEnvironmentLease record, or fail with the holder or the veto', async () => {
    const environment = randomUUID();
    const client = aClient();
    const use = (veto: () => string | null): Promise<string> =>
      client.withEnvironmentLease(environment, {
        action: 'deploy',
        veto,
        record: (lease) => lease.fencingToken,
      });

    expect(await use(() => null)).toMatch(/^\d+$/u);
    expect(await failureOf(use(() => 'a test runs'))).toBeInstanceOf(EnvironmentVetoedError);
    const inside = await client.withEnvironmentLease(environment, {
      action: 'deploy',
      record: () => failureOf(use(() => null)),
    });
    expect(inside).toBeInstanceOf(LeaseHeldError);
  });

  test('are refused while they are frozen, with until when and why, unless that is overridden', async () => {
    const name = randomUUID();
    const client = aClient();
    const until = new Date(Date.now() + 3_600_000).toISOString();
    const { freeze } = await on.operator.api.environments.freeze.mutate({
      ...{ environment: name, until, reason: 'the audit is on' },
      ...{ allowRoles: ['client'], allowPeople: ['ada@example.com'] },
    });
    const frozen = {
      code: 'environment.frozen',
      retryable: false,
      freezeId: freeze.freezeId,
      reason: 'the audit is on',
      until: new Date(until),
      allow: { roles: ['client'], people: ['ada@example.com'] },
    };
    const record = (): string => 'recorded';

    for (const ask of [
      () => client.environments.tryAcquire(name, { action: 'deploy' }),
      () => client.withEnvironmentLease(name, { action: 'deploy', record }),
    ]) {
      const failure = await failureOf(ask());
      expect(failure).toBeInstanceOf(EnvironmentFrozenError);
      expect(failure).toMatchObject(frozen);
    }
    const override = { reason: 'the fix for incident 12' };
    const work = { action: 'deploy', override, record };
    expect(await client.withEnvironmentLease(name, work)).toBe('recorded');
    await using attempt = await client.environments.tryAcquire(name, {
      action: 'deploy',
      override,
    });
    expect(attempt.outcome).toBe('granted');
  });
});

describe('other calls of a service', () => {
  test('declarations are listed for people', async () => {
    const name = `d${randomUUID()}`;
    aClient().defineLease([name], { ttlMs: 5_000, description: 'of a test' });

    const declared = await waitUntil(async () => {
      const { items } = await on.operator.api.leases.declared.query({ limit: 500 });
      return items.find(({ namespace }) => namespace === name);
    });

    expect(declared).toMatchObject({ ttlMs: 5_000, description: 'of a test' });
  });

  test('keys.connect fails with the codes of the registry', async () => {
    expect(await failureOf(aClient().keys.connect({ key: { name: randomUUID() } }))).toMatchObject({
      name: 'LeaseholdCallError',
      code: 'key.unheld',
    });
    expect(
      await failureOf(
        aClient().keys.connect({ key: { name: randomUUID() }, spawn: { program: 'none' } }),
      ),
    ).toMatchObject({ code: 'spawn.no_drone' });
  });

  test('backends.watch of an unknown backend fails with its code', async () => {
    const states = aClient().backends.watch(randomUUID());

    const failure = await failureOf(states[Symbol.asyncIterator]().next());

    expect(failure).toMatchObject({ code: 'backend.not_found' });
  });
});

async function view(namespace: string, key: string) {
  const seen = await on.operator.api.leases.get.query({ namespace, key });
  if (seen === null) throw new Error(`nothing is known of ${namespace}/${key}`);
  return seen;
}

async function waiters(namespace: string, key: string): Promise<unknown[]> {
  return (await on.operator.api.leases.waiters.query({ namespace, key })).items;
}
