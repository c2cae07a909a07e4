import { connectionOf } from '@leasehold/service-kit';
import { invariant } from '@leasehold/keys-core';
import pg from 'pg';
import type { LockService } from './lock-service.ts';
import type { Rig } from '../rig/rig.ts';

/** As many as wait for PostgreSQL at once; the others wait for a connection. */
const CONNECTIONS_MAX = 32;
const LOOK_MS = 5;

/**
 * PostgreSQL's advisory locks. They are lost with the connection, have no time to live and are not on
 * disk: an upper bound for what one statement for each acquire and release can reach, and no peer.
 */
export async function openAdvisoryLocks(rig: Rig): Promise<LockService> {
  const { url } = await rig.database('bench_advisory_locks');
  const pool = new pg.Pool({ ...connectionOf(url), max: CONNECTIONS_MAX, idleTimeoutMillis: 0 });
  pool.on('error', () => undefined);
  rig.onClose(() => pool.end());
  const ask = async (client: pg.PoolClient, key: string): Promise<boolean> => {
    const { rows } = await client.query<{ taken: boolean }>({
      name: 'take',
      text: 'select pg_try_advisory_lock(hashtextextended($1, 0)) as taken',
      values: [key],
    });
    return rows[0]?.taken ?? false;
  };
  const hold = (client: pg.PoolClient, key: string) => ({
    async release() {
      await client.query({
        name: 'release',
        text: 'select pg_advisory_unlock(hashtextextended($1, 0))',
        values: [key],
      });
      client.release();
    },
  });
  return {
    name: 'advisory locks',
    async take(key) {
      const client = await pool.connect();
      invariant(await ask(client, key), 'each caller has a key of its own');
      return hold(client, key);
    },
    async wait(key) {
      const client = await pool.connect();
      while (!(await ask(client, key))) await new Promise((next) => setTimeout(next, LOOK_MS));
      return hold(client, key);
    },
  };
}
