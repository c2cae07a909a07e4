import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { startUrlProxy, waitUntil, type FaultProxy } from '@leasehold/testing';
import { openKernel, type Kernel } from '../testing/kernel-fixture.ts';
import { databaseFailureOf } from './database-errors.ts';
import { openPool, UNPREPARED } from './pool.ts';

/** A database, and a store with one connection to it, whose answers can be held back. */
async function throughProxy(): Promise<{ direct: Kernel; held: Kernel; proxy: FaultProxy }> {
  const direct = await openKernel();
  const { proxy, url } = await startUrlProxy(direct.databaseUrl);
  onTestFinished(() => proxy.close());
  const held = await openKernel({ databaseUrl: url, connectionsMax: 1 });
  return { direct, held, proxy };
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
    expect(await second).toMatchObject([{ status: 'rejected' }]);
    expect(await general.$queryRaw`select 'the third' as caller`).toEqual([
      { caller: 'the third' },
    ]);
    expect(uncaught).not.toHaveBeenCalled();
  });

  test('of a host that has fallen silent fail what was sent, with an unknown outcome, and are replaced', async () => {
    const { databaseUrl } = await openKernel();
    const { proxy, url } = await startUrlProxy(databaseUrl);
    onTestFinished(() => proxy.close());
    const pool = openPool<'general'>({
      databaseUrl: url,
      max: 1,
      statementTimeoutMs: 50,
      prepared: UNPREPARED,
      isKept: false,
      onError: () => undefined,
    });
    onTestFinished(() => pool.close());
    const backendOf = async (): Promise<unknown> => pool.$queryRaw`select pg_backend_pid() as pid`;
    const first = await backendOf();

    proxy.drop();
    const lost = await backendOf().catch((error: unknown) => error);
    proxy.heal();

    expect(databaseFailureOf(lost)).toBe('lost');
    expect(await backendOf()).not.toEqual(first);
  });
});
