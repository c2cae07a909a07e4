import { connectionOf } from '@leasehold/service-kit';
import { createTRPCClient, createWSClient, wsLink } from '@trpc/client';
import pg from 'pg';
import { WebSocket } from 'ws';
import { startChild } from '../rig/child.ts';
import type { InsertRouter } from '../rig/insert-server.ts';
import { CONNECTIONS_MAX, type Rig } from '../rig/rig.ts';
import type { LockService } from './lock-service.ts';

/** What takes the place of a service in a measurement that only acquires and releases. */
type Pairs = Pick<LockService, 'name' | 'take'>;

/**
 * Two rows inserted straight through the driver, one after the other: what the database and the way to
 * it cost without any service between, however little that does.
 */
export async function openInserts(rig: Rig): Promise<Pairs> {
  const { url } = await rig.database('bench_inserts');
  const pool = new pg.Pool({ ...connectionOf(url), max: CONNECTIONS_MAX, idleTimeoutMillis: 0 });
  pool.on('error', () => undefined);
  rig.onClose(() => pool.end());
  await pool.query('create table inserted (id bigint generated always as identity primary key)');
  const insert = () => pool.query({ name: 'insert', text: 'insert into inserted default values' });
  return {
    name: 'two rows inserted through pg',
    async take() {
      await insert();
      return { release: insert };
    },
  };
}

/**
 * Two calls that each insert one row, in place of an acquire and a release: no lock, but the same hops
 * through the same libraries, and as many commits. What is slower than this is due to leases, the rest
 * to the way.
 */
export async function openInsertCalls(rig: Rig): Promise<Pairs> {
  const { url } = await rig.database('bench_insert_calls');
  const server = await startChild<string>('insert-server', [url]);
  rig.onClose(() => server.stop());
  const socket = createWSClient({
    url: `${server.ready.replace(/^http/u, 'ws')}/trpc`,
    WebSocket: WebSocket as unknown as typeof globalThis.WebSocket,
  });
  rig.onClose(() => socket.close());
  const client = createTRPCClient<InsertRouter>({ links: [wsLink({ client: socket })] });
  return {
    name: 'two calls that insert a row',
    async take() {
      await client.insert.mutate();
      return { release: () => client.insert.mutate() };
    },
  };
}
