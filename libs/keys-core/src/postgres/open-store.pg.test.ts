import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { startUrlProxy, waitUntil, type FaultProxy } from '@leasehold/testing';
import { openKernel, type Kernel } from '../testing/kernel-fixture.ts';
import { runSql } from '../testing/migration-fixture.ts';
import { databaseFailureOf } from './database-errors.ts';
import { openPool, type Pool, UNPREPARED } from './pool.ts';

/** A database, and a store with one connection to it, whose answers can be held back. */
async function throughProxy(): Promise<{ direct: Kernel; held: Kernel; proxy: FaultProxy }> {
  const direct = await openKernel();
  const { proxy, url } = await startUrlProxy(direct.databaseUrl);
  onTestFinished(() => proxy.close());
  const held = await openKernel({ databaseUrl: url, connectionsMax: 1 });
  return { direct, held, proxy };
}

/** A pool of one connection, whose statements may take a second. */
function aPool(databaseUrl: string): Pool<'general'> {
  const pool = openPool<'general'>({
    databaseUrl,
    max: 1,
    statementTimeoutMs: 1_000,
    prepared: UNPREPARED,
    isKept: false,
    onError: () => undefined,
  });
  onTestFinished(() => pool.close());
  return pool;
}

/** Which process of the server has its connection. */
function backendOf(pool: Pool<'general'>): Promise<unknown> {
  return pool.$queryRaw`select pg_backend_pid() as pid`;
}

describe('the connections of a store', () => {
  test('F12 do not end the process when a session ends between two callers', async () => {
    const uncaught = vi.fn();
    process.on('uncaughtExceptionMonitor', uncaught);
    onTestFinished(() => void process.off('uncaughtExceptionMonitor', uncaught));
    const { direct, held, proxy } = await throughProxy();
    const { general } = held.store;
    const [session] = await general.$queryRaw<[{ pid: number }]>`select pg_backend_pid() as pid`;
    const { pid } = session;

    // The answer to the first caller and the end of the session arrive together.
    proxy.hold();
    const first = Promise.allSettled([general.$queryRaw`select 'the first' as caller`]);
    await waitUntil(async () => {
      const [seen] = await direct.store.general.$queryRaw<[{ isDone: boolean }]>`
        select state = 'idle' and query like '%the first%' as "isDone"
        from pg_stat_activity where pid = ${pid}`;
      return seen.isDone;
    });
    const second = Promise.allSettled([
      general.$transaction((tx) => tx.$queryRaw`select 'the second' as caller`),
    ]);
    await direct.store.general.$queryRaw`select pg_terminate_backend(${pid}, 5000)`;
    proxy.heal();

    expect(await first).toEqual([{ status: 'fulfilled', value: [{ caller: 'the first' }] }]);
    expect(await second).toEqual([{ status: 'fulfilled', value: [{ caller: 'the second' }] }]);
    expect(await general.$queryRaw`select 'the third' as caller`).toEqual([
      { caller: 'the third' },
    ]);
    expect(uncaught).not.toHaveBeenCalled();
  });

  test('go on after a statement that failed, alone or in a transaction', async () => {
    const { databaseUrl } = await openKernel();
    const pool = aPool(databaseUrl);
    const first = await backendOf(pool);

    await expect(pool.$queryRaw`select 1 / 0`).rejects.toThrow('division by zero');
    await expect(pool.$transaction((tx) => tx.$queryRaw`select 1 / 0`)).rejects.toThrow(
      'division by zero',
    );

    expect(await backendOf(pool)).toEqual(first);
  });

  test('are replaced when they can only read', async () => {
    const { databaseUrl } = await openKernel();
    const name = new URL(databaseUrl).pathname.slice(1);
    const set = (value: 'on' | 'off') =>
      runSql(
        databaseUrl,
        'set default_transaction_read_only = off',
        `alter database "${name}" set default_transaction_read_only = ${value}`,
      );
    const pool = aPool(databaseUrl);
    const write = (): Promise<number> => pool.$executeRaw`delete from lease`;

    await set('on');
    await expect(write()).rejects.toThrow('read-only');
    await expect(pool.$transaction((tx) => tx.$executeRaw`delete from lease`)).rejects.toThrow(
      'read-only',
    );
    await set('off');

    expect(await write()).toBe(0);
  });

  test('of a host that has fallen silent fail what was sent, with an unknown outcome, and are replaced', async () => {
    const { databaseUrl } = await openKernel();
    const { proxy, url } = await startUrlProxy(databaseUrl);
    onTestFinished(() => proxy.close());
    const pool = aPool(url);
    const first = await backendOf(pool);

    proxy.drop();
    const lost = await backendOf(pool).catch((error: unknown) => error);
    proxy.heal();

    expect(databaseFailureOf(lost)).toBe('lost');
    expect(await backendOf(pool)).not.toEqual(first);
  });
});
