import { invariant } from '@leasehold/keys-core';
import { createReaper } from '@leasehold/keys-core/keys';
import { grant } from '../../libs/keys-core/src/grants/sql/grant.ts';
import type { Figure } from './rig/figures.ts';
import { atMost, milliseconds, perSecond, times } from './rig/quantities.ts';
import { aGrantRequest } from './grants.ts';
import type { BenchDatabase, Rig } from './rig/rig.ts';
import { compare, durationMsOf, median } from './rig/rounds.ts';
import { SEEDED, seedLeases } from './rig/seed.ts';

const BATCH_SIZE = 100;
const BATCHES_PER_ROUND = 40;
const COST_RATIO_MAX = 1.2;
/** Whether the database's clock is believed is not measured: on a busy machine it is doubted for a while. */
const BELIEF = { until: 8.64e15, watchedSince: 0, settledUntil: 0 };
const PASS_MS_MAX = 100;

/** What a grant costs, and what a pass of the reaper costs, when the table is large. */
export async function measureTableSize(rig: Rig): Promise<Figure[]> {
  const small = await rig.database('bench_small');
  const large = await rig.database('bench_large');
  const rowCounts = rig.isQuick
    ? { small: 1_000, large: 20_000 }
    : { small: 10_000, large: 10_000_000 };
  await seedLeases(small.pool, rowCounts.small);
  await seedLeases(large.pool, rowCounts.large);
  const roundCount = rig.isQuick ? 2 : 9;
  const fresh = await compare(
    { name: 'large', round: () => grantFresh(large) },
    { name: 'small', round: () => grantFresh(small) },
    roundCount,
  );
  const taken = await compare(
    { name: 'large', round: () => takeOver(large, rowCounts.large) },
    { name: 'small', round: () => takeOver(small, rowCounts.small) },
    roundCount,
  );
  const cost = (what: string, { ours, theirs, ratio }: typeof fresh): Figure => ({
    what: `cost of ${what} in a table of ${String(rowCounts.large)} rows, against ${String(rowCounts.small)}`,
    ours: perSecond(ours),
    theirs: perSecond(theirs),
    result: times(1 / ratio),
    required: atMost(COST_RATIO_MAX),
  });
  return [
    cost('fresh grants', fresh),
    cost('takeovers', taken),
    await reaperPass(large, rowCounts.large),
  ];
}

async function grantFresh(database: BenchDatabase): Promise<number> {
  const batches = Array.from({ length: BATCHES_PER_ROUND }, () =>
    Array.from({ length: BATCH_SIZE }, () => aGrantRequest()),
  );
  const rate = await rateOfBatches(database, batches);
  // The table keeps its size: the grants of this round are not there in the next one.
  await database.pool.query('delete from lease where name = any($1)', [
    batches.flat().map((request) => request.name),
  ]);
  await database.pool.query('vacuum lease');
  return rate;
}

/** Grants resources whose holders have just let them run out, chosen all over the table. */
async function takeOver(database: BenchDatabase, rowCount: number): Promise<number> {
  const step = Math.max(1, Math.floor(rowCount / (BATCH_SIZE * BATCHES_PER_ROUND)));
  const first = Math.floor(Math.random() * step);
  const count = Math.min(BATCHES_PER_ROUND, Math.floor(rowCount / (step * BATCH_SIZE)));
  const batches = Array.from({ length: count }, (_, batch) =>
    Array.from({ length: BATCH_SIZE }, (__, place) =>
      aGrantRequest(`${SEEDED}${String(first + (place * count + batch) * step)}`),
    ),
  );
  await database.pool.query(
    `update lease set expires_at = clock_timestamp() - interval '1 second' where name = any($1)`,
    [batches.flat().map((request) => request.name)],
  );
  await database.pool.query('vacuum lease');
  return rateOfBatches(database, batches);
}

async function rateOfBatches(
  { store }: BenchDatabase,
  batches: readonly ReturnType<typeof aGrantRequest>[][],
): Promise<number> {
  const durationMs = await durationMsOf(async () => {
    for (const requests of batches) {
      await store.witness.ready();
      const guard = { belief: BELIEF, mark: store.witness.mark };
      const { grants } = await grant(store.transitions, requests, { guard, onLocked: 'skip' });
      invariant(grants.size === requests.length, 'the bench asks for what can be granted');
    }
  });
  return (batches.length * BATCH_SIZE * 1_000) / durationMs;
}

/** Several rounds of passes of the general reaper over a table in which nothing has expired. */
async function reaperPass({ store, pool }: BenchDatabase, rowCount: number): Promise<Figure> {
  await pool.query(
    `update lease set expires_at = clock_timestamp() + interval '1 day' where expires_at < clock_timestamp() + interval '1 hour'`,
  );
  await pool.query('vacuum lease');
  const { rows } = await pool.query<{ pages: number }>(
    `select (pg_relation_size('lease') / current_setting('block_size')::int)::int as pages`,
  );
  const pageCount = rows[0]?.pages ?? 0;
  const reaper = createReaper(store);
  const passes: { durationMs: number; readPages: number }[] = [];
  for (let readPages = 0; readPages < pageCount * 3 && passes.length < 200;) {
    const startedAtMs = performance.now();
    const pass = await reaper.runOnce();
    passes.push({ durationMs: performance.now() - startedAtMs, readPages: pass.readPages });
    readPages += pass.readPages;
  }
  const pagesMax = Math.max(...passes.map((pass) => pass.readPages));
  const whole = passes.filter((pass) => pass.readPages === pagesMax);
  const passMs = median(whole.map((pass) => pass.durationMs));
  return {
    what: `a reaper pass of ${String(pagesMax)} pages at ${String(rowCount)} living leases, ${String(Math.ceil(pageCount / pagesMax))} passes a round`,
    result: milliseconds(passMs),
    required: atMost(PASS_MS_MAX),
  };
}
