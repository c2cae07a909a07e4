import type pg from 'pg';
import { aGrantRequest } from './grants.ts';
import type { Figure } from './rig/figures.ts';
import { bytes, megabytes } from './rig/quantities.ts';
import type { BenchDatabase, Rig } from './rig/rig.ts';
import { PRINCIPAL } from './rig/seed.ts';

const CALLER_COUNT = 100;
const MILLION = 1_000_000;

/** How much grants leave behind: events with their indexes, and what PostgreSQL writes ahead. */
export async function measureGrowth(rig: Rig): Promise<Figure[]> {
  const database = await rig.database('bench_growth');
  const pairCount = rig.isQuick ? 2_000 : 50_000;
  const before = await sizesOf(database.pool);
  await grantAndRelease(database, pairCount);
  const after = await sizesOf(database.pool);
  const events = after.eventBytes - before.eventBytes;
  return [
    {
      what: 'events of a million grants and releases, with their indexes',
      result: megabytes((events / pairCount) * MILLION),
    },
    {
      what: 'write-ahead log of a grant and release',
      result: bytes((after.walBytes - before.walBytes) / pairCount),
    },
  ];
}

async function grantAndRelease({ leases }: BenchDatabase, pairCount: number): Promise<void> {
  let left = pairCount;
  const loop = async (caller: number): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const request = aGrantRequest(`growth-${String(caller)}`);
      const granted = await leases.grant(request);
      if (granted.outcome !== 'granted') throw new Error('each caller has a key of its own');
      await leases.release('key', {
        leaseId: request.leaseId,
        fencingToken: granted.grant.fencingToken,
        principal: PRINCIPAL,
        actor: PRINCIPAL,
        result: 'ok',
        detail: null,
      });
    }
  };
  await Promise.all(Array.from({ length: CALLER_COUNT }, (_, caller) => loop(caller)));
}

async function sizesOf(pool: pg.Pool): Promise<{ eventBytes: number; walBytes: number }> {
  const { rows } = await pool.query<{ eventBytes: string; walBytes: string }>(
    `select pg_total_relation_size('lease_event')::text as "eventBytes",
       (pg_current_wal_lsn() - '0/0')::text as "walBytes"`,
  );
  const [sizes] = rows;
  return { eventBytes: Number(sizes?.eventBytes), walBytes: Number(sizes?.walBytes) };
}
