import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { databaseFailureOf } from '@leasehold/keys-core/postgres';
import { createTestDatabase, waitUntil } from '@leasehold/testing';
import type { LeaseUseCase, ServiceTransaction } from './index.ts';
import { aService, CLIENTS, openService, type Service } from './testing/service-fixture.ts';

/** A lease on `test.<key>/<key>` for a minute, with the hooks that a test gives it. */
function aLease<Tx>(
  key: string,
  hooks: Partial<LeaseUseCase<string, Tx>> = {},
): LeaseUseCase<string, Tx> {
  const id = randomUUID();
  const scope = { namespace: ['test', key], key };
  return { key: () => id, scope: () => scope, durationMs: () => 60_000, ...hooks };
}

/** Acquires a lease of the test's own, or fails the test. */
async function acquired<Tx>(service: Service<Tx>, holder: string) {
  const coordinator = service.core.coordinator({ holder });
  const key = randomUUID();
  const lease = aLease<Tx>(key);
  const answer = await coordinator.acquire(lease, 0);
  if (answer.outcome !== 'granted') throw new Error(`the lease is ${answer.outcome}`);
  return { coordinator, key, lease, ref: answer };
}

/** For how long the server lets the transaction wait for its next statement. */
async function idleTimeoutOf(transaction: ServiceTransaction<unknown>): Promise<string> {
  const [row] = (await transaction.query(
    `select current_setting('idle_in_transaction_session_timeout') as value`,
    [],
  )) as { value: string }[];
  return row?.value ?? '';
}

/** A moment that a test waits for. */
function aGate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

describe.each(CLIENTS)('with $name', ({ open }) => {
  /** Of the tests that do not break it. */
  let service: Service<unknown>;

  beforeAll(async () => {
    const database = await createTestDatabase();
    const opened = await openService(open, { url: database.url }).catch(async (error: unknown) => {
      await database.drop();
      throw error;
    });
    service = opened.service;
    return async () => {
      await opened.close();
      await database.drop();
    };
  });

  beforeEach(async () => {
    await service.ours('truncate public.lease');
  });

  test('fenced work writes the tables of the service, even if they are named like those of Leasehold', async () => {
    const { ref } = await acquired(service, 'alice');

    const result = await service.core.fencedTransaction(ref, async (tx) => {
      // The service has a table with the name of one of Leasehold's.
      await service.write(tx, 'fenced');
      return 'done';
    });

    expect(result).toBe('done');
    expect(await service.written()).toEqual(['fenced']);
  });

  test('work that hides the failure of a statement is not reported as done: PostgreSQL rolls it back', async () => {
    const { ref } = await acquired(service, 'alice');

    const work = service.core.fencedTransaction(ref, async (tx) => {
      await service.write(tx, 'hidden');
      await service.write(tx, 'a\0b').catch(() => undefined);
    });

    await expect(work).rejects.toThrow('transaction');
    expect(await service.written()).toEqual([]);
  });

  test('a database without the tables of Leasehold is reported as that, with what to do', async () => {
    const bare = await aService(open);
    const { coordinator, lease, ref } = await acquired(bare, 'alice');
    await bare.ours('drop schema leasehold cascade');

    const calls = [
      bare.core.fencedTransaction(ref, () => Promise.resolve('done')),
      coordinator.heartbeat(lease),
      bare.core.coordinator({ holder: 'bob' }).acquire(aLease('other'), 0),
      bare.core.tryAcquireEnvironment(['prod'], { action: 'deploy', holder: 'ci' }),
    ];

    for (const call of await Promise.allSettled(calls)) {
      expect(call).toMatchObject({
        status: 'rejected',
        reason: {
          code: 'config.invalid',
          message: expect.stringMatching(/schema "leasehold".*`leasehold migrate`/u) as string,
        },
      });
    }
  });

  test.each([undefined, null, 'id', [undefined]])(
    'fenced work under %j instead of a grant is refused, and so is what is no work',
    async (grant) => {
      const { ref } = await acquired(service, 'alice');

      const noGrant = service.core.fencedTransaction(grant as never, () => Promise.resolve());
      const noWork = service.core.fencedTransaction(ref, grant as never);

      await expect(noGrant).rejects.toMatchObject({
        code: 'request.invalid',
        message: expect.stringContaining('grant must be a grant') as string,
      });
      await expect(noWork).rejects.toMatchObject({
        code: 'request.invalid',
        message: 'work must be a function',
      });
    },
  );

  test('a hook that hides the failure of a statement gets no grant: PostgreSQL rolls it back', async () => {
    const coordinator = service.core.coordinator({ holder: 'alice' });
    const key = randomUUID();
    const lease = aLease<unknown>(key, {
      willInsert: async (tx) => {
        await service.write(tx, 'a\0b').catch(() => undefined);
      },
    });

    await expect(coordinator.acquire(lease, 0)).rejects.toThrow('transaction');

    expect(await coordinator.acquire(aLease(key), 0)).toMatchObject({ outcome: 'granted' });
  });

  test('the hooks of a coordinator write in the transaction of each transition', async () => {
    const coordinator = service.core.coordinator({ holder: 'alice' });
    const lease = aLease<unknown>(randomUUID(), {
      willInsert: (tx) => service.write(tx, 'granted'),
      willHeartbeat: (tx) => service.write(tx, 'renewed'),
      willReleaseOk: (tx, success) => service.write(tx, `released: ${success}`),
    });

    const granted = await coordinator.acquire(lease, 0);
    const renewed = await coordinator.heartbeat(lease);
    const released = await coordinator.releaseOk(lease, 'well');

    expect([granted.outcome, renewed.outcome, released]).toEqual([
      'granted',
      'renewed',
      'released',
    ]);
    expect(await service.written()).toEqual(['granted', 'renewed', 'released: well']);
  });

  test('a hook waits for locks as long as the service lets it, and not as short as a grant does', async () => {
    const coordinator = service.core.coordinator({ holder: 'alice' });
    const seen: unknown[] = [];
    const look = async (tx: unknown): Promise<void> => {
      seen.push(await service.setting(tx, 'lock_timeout'));
    };
    const lease = aLease<unknown>(randomUUID(), {
      willInsert: look,
      willHeartbeat: look,
      willReleaseOk: look,
    });

    await coordinator.acquire(lease, 0);
    await coordinator.heartbeat(lease);
    await coordinator.releaseOk(lease, 'well');

    const [own] = await service.ours(`select current_setting('lock_timeout') as value`);
    expect(seen.map((value) => ({ value }))).toEqual([own, own, own]);
  });

  test('the server ends a transaction of Leasehold whose process stops, and the session keeps its own limit', async () => {
    const seen = new Set<string>();
    const watched: Service<unknown> = await aService(open, (database) => ({
      transaction: (work, patience) =>
        database.transaction(async (transaction) => {
          const before = await idleTimeoutOf(transaction);
          const result = await work(transaction);
          seen.add(`${before}, then ${await idleTimeoutOf(transaction)}`);
          return result;
        }, patience),
    }));

    const { coordinator, lease } = await acquired(watched, 'alice');
    await coordinator.heartbeat(lease);
    await coordinator.releaseOk(lease, 'well');

    // Of renewals, and of all others.
    expect([...seen].sort()).toEqual(['0, then 1s', '0, then 5s']);
  });

  test('a service that stops between a renewal and its commit does not keep the lease from others', async () => {
    const [stopped, goingOn] = [aGate(), aGate()];
    onTestFinished(goingOn.open);
    let isStopping = false;
    const stopping: Service<unknown> = await aService(open, (database) => ({
      transaction: (work, patience) =>
        database.transaction(async (transaction) => {
          const result = await work(transaction);
          if (isStopping) {
            stopped.open();
            await goingOn.opened;
          }
          return result;
        }, patience),
    }));
    const other = await stopping.another();
    const { coordinator, key, lease, ref } = await acquired(stopping, 'alice');

    isStopping = true;
    const renewing = coordinator.heartbeat(lease);
    renewing.catch(() => undefined);
    await stopped.opened;
    // It waits for the row.
    await stopping.letExpire(ref.leaseId);
    const next = await other.core.coordinator({ holder: 'bob' }).acquire(aLease(key), 0);
    goingOn.open();

    expect(next).toMatchObject({ outcome: 'granted' });
    await expect(renewing).rejects.toThrow();
  });

  test('a database that falls silent in a transaction keeps no later call waiting', async () => {
    const { coordinator, dropInNext, heal } = await service.onSilentLine();
    const lease = aLease(randomUUID());

    dropInNext();
    const lost = await coordinator.acquire(lease, 0).catch((error: unknown) => error);
    heal();
    const granted = await coordinator.acquire(lease, 0);
    const renewed = await coordinator.heartbeat(lease);

    expect(databaseFailureOf(lost)).toBe('lost');
    expect([granted.outcome, renewed.outcome]).toEqual(['granted', 'renewed']);
  });

  test('a waiting caller is granted after the release, and a leader renews by its holder name', async () => {
    const other = await service.another();
    const { coordinator, key, lease } = await acquired(service, 'alice');
    const waiting = other.core.coordinator({ holder: 'bob' }).acquire(aLease(key), 10_000);
    const waiters = `select from lease_waiter where name = '${key}'`;
    await waitUntil(async () => (await service.ours(waiters)).length > 0);

    await coordinator.releaseOk(lease, 'done');
    const leader = service.core.coordinator({ holder: 'leader' });
    const lead = randomUUID();
    const first = await leader.acquireOrRenew(aLease(lead));
    const again = await leader.acquireOrRenew(aLease(lead));

    expect(await waiting).toMatchObject({ outcome: 'granted' });
    expect([first.outcome, again.outcome]).toEqual(['granted', 'renewed']);
  });

  test('callbacks of expired leases commit with the end of the lease', async () => {
    const { key, ref } = await acquired(service, 'alice');
    await service.letExpire(ref.leaseId);
    const reap = (): Promise<{ calledCount: number }> =>
      service.core
        .coordinator({ holder: 'sweeper' })
        .reapStaleLeases([['test', key]], false, (leaseId, scope, tx) =>
          service.write(tx, `${scope.key} ${String(leaseId === ref.leaseId)}`),
        );

    const calls = [await reap(), await reap()].map(({ calledCount }) => calledCount);

    expect(calls).toEqual([1, 0]);
    expect(await service.written()).toEqual([`${key} true`]);
  });

  test('an environment is checked and recorded in one transaction, and a veto records nothing', async () => {
    const use = (action: string): ReturnType<typeof service.core.withEnvironmentLease<string>> =>
      service.core.withEnvironmentLease(['shop', 'prod'], {
        action,
        holder: 'ci-1',
        veto: async () => ((await service.written()).length > 0 ? 'in use' : null),
        record: async (tx) => {
          await service.write(tx, action);
          return action;
        },
      });

    const first = await use('deploy');
    const second = await use('migrate');

    expect(first).toMatchObject({ outcome: 'recorded', recorded: 'deploy' });
    expect(second).toEqual({ outcome: 'vetoed', reasons: ['in use'] });
    expect(await service.written()).toEqual(['deploy']);
  });
});
