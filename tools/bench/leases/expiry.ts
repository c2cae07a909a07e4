import { setTimeout as pause } from 'node:timers/promises';
import { invariant } from '@leasehold/keys-core';
import type pg from 'pg';
import { startControllers } from '../controllers.ts';
import type { Figure } from '../rig/figures.ts';
import { atLeast, atMost, count, milliseconds, perSecond, times } from '../rig/quantities.ts';
import { connectLeasehold } from '../services/leasehold-service.ts';
import type { LockService } from '../services/lock-service.ts';
import type { Rig } from '../rig/rig.ts';
import { median } from '../rig/rounds.ts';
import { PRINCIPAL } from '../rig/seed.ts';

const CONTROLLER_COUNT = 3;
const CALLER_COUNT = 32;
const WAVE_COUNT = 3;
/** From when a wave is written until the first of its leases expires. */
const LEAD_MS = 1_000;
const SPREAD_MS = 1_000;
const LOOK_MS = 50;
const REAPED_MS_MAX = 20_000;
const SLOWDOWN_MAX = 2;

/** Leases that expire all within a second: what becomes of them, and of grants meanwhile. */
export async function measureExpiry(rig: Rig): Promise<Figure[]> {
  const leaseCount = rig.isQuick ? 1_000 : 10_000;
  const database = await rig.database('bench_expiry');
  const { urls, token } = await startControllers(rig, database, CONTROLLER_COUNT);
  const [url] = urls;
  invariant(url !== undefined, 'a controller was started');
  const load = startLoad(connectLeasehold(rig, url, token));
  const waves: Wave[] = [];
  for (let wave = 0; wave < WAVE_COUNT; wave += 1) {
    waves.push(
      await runWave(database.pool, load, { namespace: `wave-${String(wave)}`, leaseCount }),
    );
  }
  await load.stop();
  const baseline = median(waves.map((wave) => wave.baselineRate));
  const during = median(waves.map((wave) => wave.duringRate));
  const slowdown = median(waves.map((wave) => wave.baselineRate / wave.duringRate));
  return [
    {
      what: `cost of grants while ${String(leaseCount)} leases expire in one second, against before`,
      ours: perSecond(during),
      theirs: perSecond(baseline),
      result: times(slowdown),
      required: atMost(SLOWDOWN_MAX),
    },
    ...(await testimony(database.pool, leaseCount * WAVE_COUNT)),
  ];
}

interface Wave {
  readonly baselineRate: number;
  readonly duringRate: number;
}

async function runWave(
  pool: pg.Pool,
  load: Load,
  wave: { readonly namespace: string; readonly leaseCount: number },
): Promise<Wave> {
  const beforeMs = performance.now();
  await pause(2_000);
  const baselineRate = load.rateSince(beforeMs);
  const firstExpiresAtMs = performance.now() + LEAD_MS;
  await insertExpiring(pool, wave);
  await pause(Math.max(0, firstExpiresAtMs - performance.now()));
  const expiringMs = performance.now();
  while ((await countReaped(pool, wave.namespace)) < wave.leaseCount) {
    invariant(performance.now() - expiringMs < REAPED_MS_MAX, 'the reapers keep up');
    await pause(LOOK_MS);
  }
  return { baselineRate, duringRate: load.rateSince(expiringMs) };
}

/** Leases whose holders are gone, and which expire within one second after `LEAD_MS`. */
async function insertExpiring(
  pool: pg.Pool,
  { namespace, leaseCount }: { readonly namespace: string; readonly leaseCount: number },
): Promise<void> {
  await pool.query(
    `insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
       renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
     select 'lease', $1, i::text, gen_random_uuid(), 1700000000000 + i, $2, $2, 86400000,
       30000, 50000, 50000, now(), now(),
       now() + ($3 + random() * $4) * interval '1 millisecond'
     from generate_series(1, $5::int) i
     order by md5(i::text)`,
    [namespace, PRINCIPAL, LEAD_MS, SPREAD_MS, leaseCount],
  );
}

/** Counts the rows that wait for the callback of a use case: the table has few others. */
async function countReaped(pool: pg.Pool, namespace: string): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    'select count(*)::int as count from lease_reap where namespace = $1',
    [namespace],
  );
  return rows[0]?.count ?? 0;
}

/** What the database shows of all waves: each lease reaped once, with one event. */
async function testimony(pool: pg.Pool, leaseCount: number): Promise<Figure[]> {
  const { rows } = await pool.query<{ leases: number; once: number; latestMs: number }>(
    `select count(*)::int as leases,
       count(*) filter (where l.end_reason = 'expired' and e.events = 1 and r.reaps = 1)::int as once,
       max(e.late_ms)::float8 as "latestMs"
     from lease l
     cross join lateral (
       select count(*) as events, extract(epoch from max(e.at) - l.expires_at) * 1000 as late_ms
       from lease_event e where e.lease_id = l.lease_id and e.kind = 'expired'
     ) e
     cross join lateral (
       select count(*) as reaps from lease_reap r where r.lease_id = l.lease_id
     ) r
     where l.namespace like 'wave-%'`,
  );
  const [seen] = rows;
  invariant(seen !== undefined, 'a count always answers');
  return [
    {
      what: `leases that three controllers reaped once, with one event each, of ${String(seen.leases)}`,
      result: count(seen.once),
      required: atLeast(leaseCount),
    },
    { what: 'from an expiry to its event, at most', result: milliseconds(seen.latestMs) },
  ];
}

interface Load {
  /** Pairs of acquire and release per second from then until now. */
  rateSince(sinceMs: number): number;
  stop(): Promise<void>;
}

/** Callers that acquire and release until they are stopped, each a key of its own. */
function startLoad(service: LockService): Load {
  const finishedAtMs: number[] = [];
  let isOver = false;
  const loop = async (caller: number): Promise<void> => {
    while (!isOver) {
      const held = await service.take(`load-${String(caller)}`);
      await held.release();
      finishedAtMs.push(performance.now());
    }
  };
  const loops = Promise.all(Array.from({ length: CALLER_COUNT }, (_, caller) => loop(caller)));
  // A loop that fails is reported at the end, where it is awaited.
  loops.catch(() => undefined);
  return {
    rateSince(sinceMs) {
      const tookMs = performance.now() - sinceMs;
      return (finishedAtMs.filter((atMs) => atMs >= sinceMs).length * 1_000) / tookMs;
    },
    async stop() {
      isOver = true;
      await loops;
    },
  };
}
