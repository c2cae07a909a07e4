import { invariant } from '@leasehold/keys-core';
import { startControllers } from '../controllers.ts';
import type { Figure } from '../rig/figures.ts';
import { readProcessorTime } from '../rig/processor-time.ts';
import { startProfiler, type TimeByPart } from '../rig/profiler.ts';
import { bytes, count, microseconds } from '../rig/quantities.ts';
import type { BenchDatabase, Rig } from '../rig/rig.ts';
import { rateOf } from '../rig/rounds.ts';
import { connectLeasehold } from '../services/leasehold-service.ts';

const CALLER_COUNTS = [1, 256] as const;
const DURATION_MS = 5_000;

/**
 * Where the time of an acquire and its release goes. First without a profiler: what a pair takes, and how
 * much processor time each party uses. Then with one, which slows both processes down: its figures tell how the
 * time of the client and of the controller divides into parts.
 */
export async function measureProfile(rig: Rig): Promise<Figure[]> {
  const database = await rig.database('bench_profile');
  const controllers = await startControllers(rig, database, 1);
  const [url] = controllers.urls;
  invariant(url !== undefined, 'a controller was started');
  const leasehold = connectLeasehold(rig, url, controllers.token);
  const figures: Figure[] = [];
  for (const callerCount of CALLER_COUNTS) {
    const callers = callerCount === 1 ? '1 caller' : `${String(callerCount)} callers`;
    const makePairs = async (): Promise<number> => {
      let pairCount = 0;
      await rateOf(callerCount, rig.isQuick ? 200 : DURATION_MS, async (caller) => {
        const held = await leasehold.take(`pair-${String(caller)}`);
        await held.release();
        pairCount += 1;
      });
      return pairCount;
    };
    await makePairs();
    const before = await readUse(rig, controllers.pids, database);
    const pairCount = await makePairs();
    const after = await readUse(rig, controllers.pids, database);
    for (const [what, { value, quantity }] of Object.entries(after)) {
      const used = value - (before[what]?.value ?? 0);
      figures.push({ what: `${callers}: ${what}`, result: quantity(used / pairCount) });
    }
    const stopThere = await controllers.profile();
    const stopHere = await startProfiler();
    const profiledCount = await makePairs();
    figures.push(
      ...partsOf(`${callers}, profiled: client`, await stopHere(), profiledCount),
      ...partsOf(`${callers}, profiled: controller`, await stopThere(), profiledCount),
    );
  }
  return figures;
}

type Use = Record<string, { readonly value: number; readonly quantity: typeof microseconds }>;

/** What has been used since the processes began. */
async function readUse(
  rig: Rig,
  controllerPids: readonly number[],
  { pool }: BenchDatabase,
): Promise<Use> {
  const { client, controller, postgres } = readProcessorTime({
    controllerPids,
    postgresFolder: rig.folder,
  });
  const { rows } = await pool.query<{ walBytes: string; flushes: string; flushMs: number }>(
    `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') as "walBytes",
       sum(fsyncs) as flushes, sum(fsync_time) as "flushMs"
     from pg_stat_io where object = 'wal'`,
  );
  const { walBytes, flushes, flushMs } = rows[0] ?? { walBytes: 0, flushes: 0, flushMs: 0 };
  const us = (value: number) => ({ value, quantity: microseconds });
  return {
    'time of a pair': us(performance.now() * 1_000),
    'processor time, client': us(client),
    'processor time, controller': us(controller),
    'processor time, PostgreSQL': us(postgres),
    'commit: wait for the disk': us(flushMs * 1_000),
    'commit: flushes': { value: Number(flushes), quantity: count },
    'commit: write-ahead log': { value: Number(walBytes), quantity: bytes },
  };
}

function partsOf(what: string, times: TimeByPart, pairCount: number): Figure[] {
  return Object.entries(times)
    .sort(([, a], [, b]) => b - a)
    .map(([part, us]) => ({ what: `${what}, ${part}`, result: microseconds(us / pairCount) }));
}
