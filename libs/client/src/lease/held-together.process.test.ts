import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { useController } from '../testing/controller-fixture.ts';
import { endOf, failureOf } from '../testing/outcomes.ts';
import { keepUntilReleased } from './held-together.ts';
import {
  LeaseHeldError,
  LeaseRevoked,
  LeaseSelfDeadlockError,
  LeaseWaitTimeoutError,
} from './lease.ts';

const on = useController();
const { aClient } = on;

const NAMESPACE = ['together'];
/** How often to look whether leases were renewed, which takes seconds. */
const SELDOM_MS = 250;

/** New names, and the scopes with them. */
function someScopes(count: number) {
  return Array.from({ length: count }, () => ({ namespace: NAMESPACE, key: randomUUID() }));
}

/** What the controller shows of a lease. */
function shown({ key }: { readonly key: string }) {
  return on.operator.api.leases.get.query({ namespace: NAMESPACE, key });
}

describe.each(['ws', 'http'] as const)('several leases over %s', (transport) => {
  test('are granted together, each with a token of its own, and released together', async () => {
    const scopes = someScopes(3);
    const client = aClient({ transport, holder: 'mover' });

    const leases = await client.acquireAll(scopes, { comment: 'moving' });

    expect(leases.grants.map(({ key }) => key)).toEqual(scopes.map(({ key }) => key));
    expect(new Set(leases.grants.map(({ leaseId }) => leaseId)).size).toBe(3);
    expect(leases.isHeld).toBe(true);
    expect(await leases.release()).toBe('released');
    const phases = await Promise.all(scopes.map(async (scope) => (await shown(scope))?.phase));
    expect(phases).toEqual(['free', 'free', 'free']);
  });

  test('are refused with the one that is held, and none of them is taken', async () => {
    const scopes = someScopes(3);
    const held = scopes[1];
    const bob = aClient({ transport, holder: 'bob' });
    await bob.defineLease(['together']).acquire(held?.key ?? '');
    const client = aClient({ transport });

    const atOnce = await failureOf(client.acquireAll(scopes, { waitMs: 0 }));
    const inTime = await failureOf(client.acquireAll(scopes, { waitMs: 200 }));

    expect(atOnce).toBeInstanceOf(LeaseHeldError);
    expect(atOnce).toMatchObject({ by: 'bob', scope: { key: held?.key } });
    expect(inTime).toBeInstanceOf(LeaseWaitTimeoutError);
    expect(inTime).toMatchObject({ by: 'bob', scope: { key: held?.key } });
    const views = await Promise.all(scopes.map(shown));
    expect(views.map((view) => view?.holder)).toEqual([undefined, 'bob', undefined]);
  });

  test('are waited for in line, and all of them are renewed', async () => {
    const scopes = someScopes(2);
    const bob = aClient({ transport }).defineLease(['together']);
    const held = await bob.acquire(scopes[1]?.key ?? '');
    const waiting = aClient({ transport }).acquireAll(scopes, { waitMs: 30_000, ttlMs: 9_000 });
    await waitUntil(async () => {
      const waiters = scopes.map(({ key }) =>
        on.operator.api.leases.waiters.query({ namespace: NAMESPACE, key }),
      );
      return (await Promise.all(waiters)).every(({ items }) => items.length === 1);
    });

    await held.release();

    await using leases = await waiting;
    const before = await Promise.all(scopes.map(shown));
    const areRenewed = async (): Promise<boolean> => {
      const now = await Promise.all(scopes.map(shown));
      return now.every(
        (lease, place) => (lease?.expiresAt ?? '') > (before[place]?.expiresAt ?? ''),
      );
    };
    await waitUntil(areRenewed, { pollMs: SELDOM_MS });
    expect(leases.isHeld).toBe(true);
  });
});

describe('several leases of one process', () => {
  test('when one is revoked, the signal of all aborts, and the others are released', async () => {
    const scopes = someScopes(3);
    const leases = await aClient().acquireAll(scopes, { ttlMs: 600_000 });
    const ended = endOf(leases.signal);

    await on.operator.api.leases.revoke.mutate({
      leaseId: leases.grants[1]?.leaseId ?? '',
      mode: 'force',
      reason: 'maintenance',
    });

    expect(await ended).toBeInstanceOf(LeaseRevoked);
    expect(leases.isHeld).toBe(false);
    expect(() => leases.assertHeld()).toThrow(LeaseRevoked);
    await waitUntil(async () => {
      const now = await Promise.all(scopes.map(shown));
      return now.every((lease) => lease?.phase === 'free');
    });
  });

  test('when one of those that are kept is revoked, the others are renewed until they are released', async () => {
    const scopes = someScopes(2);
    const leases = await aClient().acquireAll(scopes, { ttlMs: 9_000 });
    keepUntilReleased(leases);
    const ended = endOf(leases.signal);
    const leaseId = leases.grants[0]?.leaseId ?? '';
    await on.operator.api.leases.revoke.mutate({ leaseId, mode: 'force', reason: 'maintenance' });
    expect(await ended).toBeInstanceOf(LeaseRevoked);

    const other = () => shown({ key: leases.grants[1]?.key ?? '' });
    const atLoss = await other();
    const isRenewed = async (): Promise<boolean> =>
      ((await other())?.expiresAt ?? '') > (atLoss?.expiresAt ?? 'x');
    await waitUntil(isRenewed, { pollMs: SELDOM_MS });
    expect(leases.isHeld).toBe(false);
    expect(await leases.release('failed')).toBe('revoked');
    expect((await other())?.phase).toBe('free');
  });

  test('work that holds one of them is told that it would wait for itself', async () => {
    const scopes = someScopes(2);
    const client = aClient();
    await using lease = await client.defineLease(['together']).acquire(scopes[1]?.key ?? '');

    const failure = await lease.run(() => failureOf(client.acquireAll(scopes)));

    expect(failure).toBeInstanceOf(LeaseSelfDeadlockError);
    expect(failure).toMatchObject({ scope: { key: scopes[1]?.key } });
  });

  test('work under several leases that waits for one of them is told that, too', async () => {
    const scopes = someScopes(2);
    const client = aClient();
    await using leases = await client.acquireAll(scopes);

    const failure = await leases.run(() =>
      failureOf(client.defineLease(['together']).acquire(scopes[0]?.key ?? '')),
    );

    expect(failure).toBeInstanceOf(LeaseSelfDeadlockError);
  });

  test('a lease that is in the list twice is refused, with its place', async () => {
    const [scope] = someScopes(1);
    const scopes = [scope, scope].flatMap((one) => one ?? []);

    const failure = await failureOf(aClient().acquireAll(scopes));

    expect(failure).toMatchObject({
      code: 'request.invalid',
      details: { field: 'scopes[1]' },
    });
  });
});
