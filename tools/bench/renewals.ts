import { invariant } from '@leasehold/keys-core';
import { measureDroneRenewals } from './drone-renewals.ts';
import type { Figure } from './rig/figures.ts';
import { atLeast, perSecond, share, times } from './rig/quantities.ts';
import { compare, rateOf } from './rig/rounds.ts';
import type { BenchDatabase, Rig } from './rig/rig.ts';
import { PRINCIPAL, readGrants, seedLeases, settle, type GrantToRenew } from './rig/seed.ts';

/** As many as one call of `keys.renew` may hold. */
const BATCH_SIZE = 1_000;
/** Two controllers' worth of calls under way: neither side is measured waiting for its own turn. */
const CALLER_COUNT = 2;

/** The least that renews the same grants: no lock before the judgement, no reasons for refusals. */
const RAW_RENEWAL = `
  update lease
  set renewed_at = clock_timestamp(), expires_at = clock_timestamp() + ttl_ms * interval '1 millisecond'
  where lease_id = any($1::uuid[]) and renewable and released_at is null and end_reason is null
    and expires_at > clock_timestamp()
  returning lease_id, expires_at`;

/** Renewals as `keys.renew` sends them against raw SQL in batches as large, and their HOT ratio. */
export async function measureRenewals(rig: Rig): Promise<Figure[]> {
  const database = await rig.database('bench_renewals');
  await seedLeases(database.pool, rig.isQuick ? 10_000 : 100_000);
  const calls = batches(await readGrants(database.pool));
  const roundMs = rig.isQuick ? 200 : 2_000;
  const nextCall = rotation(calls);
  const round = (work: (call: Call) => Promise<void>) => async () => {
    const rate = await rateOf(CALLER_COUNT, roundMs, (caller) => work(nextCall(caller)));
    await settle(database.pool);
    return rate * BATCH_SIZE;
  };
  const { ours, theirs, ratio } = await compare(
    { name: 'lease store', round: round((call) => renewThroughStore(database, call)) },
    { name: 'raw SQL', round: round((call) => renewRaw(database, call)) },
    rig.isQuick ? 2 : 9,
  );
  const hot = await hotRatioOfRenewals(rig);
  return [
    {
      what: 'renewals in calls of 1,000, against raw SQL',
      ours: perSecond(ours),
      theirs: perSecond(theirs),
      result: times(ratio),
      required: atLeast(0.7),
      goal: atLeast(0.9),
    },
    {
      what: 'HOT share of renewals',
      result: share(hot),
      required: atLeast(0.9),
    },
    ...(await measureDroneRenewals(rig)),
  ];
}

interface Call {
  readonly grants: readonly GrantToRenew[];
  readonly leaseIds: readonly string[];
}

function batches(grants: readonly GrantToRenew[]): Call[] {
  const calls: Call[] = [];
  for (let first = 0; first + BATCH_SIZE <= grants.length; first += BATCH_SIZE) {
    const part = grants.slice(first, first + BATCH_SIZE);
    calls.push({ grants: part, leaseIds: part.map((grant) => grant.leaseId) });
  }
  return calls;
}

/** Each caller goes through a share of its own, round after round: no two calls ask for a row at once. */
function rotation(calls: readonly Call[]): (caller: number) => Call {
  const share = Math.floor(calls.length / CALLER_COUNT);
  const turns = new Array<number>(CALLER_COUNT).fill(0);
  return (caller) => {
    const turn = turns[caller] ?? 0;
    turns[caller] = turn + 1;
    const call = calls[caller * share + (turn % share)];
    invariant(call !== undefined, 'there is a call for every caller');
    return call;
  };
}

async function renewThroughStore({ leases }: BenchDatabase, { grants }: Call): Promise<void> {
  const outcomes = await leases.renewAll(
    'key',
    grants.map((grant) => ({ ...grant, principal: PRINCIPAL })),
  );
  invariant(
    outcomes.every((answer) => answer?.outcome === 'renewed'),
    'the bench renews living grants',
  );
}

async function renewRaw({ pool }: BenchDatabase, { leaseIds }: Call): Promise<void> {
  const { rowCount } = await pool.query({ name: 'renew', text: RAW_RENEWAL, values: [leaseIds] });
  invariant(rowCount === leaseIds.length, 'the bench renews living grants');
}

/** Renews every grant of a fresh table several times, and reads what PostgreSQL has counted. */
async function hotRatioOfRenewals(rig: Rig): Promise<number> {
  const database = await rig.database('bench_hot');
  await seedLeases(database.pool, rig.isQuick ? 5_000 : 50_000);
  const calls = batches(await readGrants(database.pool));
  for (let pass = 0; pass < 5; pass += 1) {
    for (const call of calls) await renewThroughStore(database, call);
  }
  const expectedCount = calls.length * BATCH_SIZE * 5;
  for (let look = 0; look < 100; look += 1) {
    // A session reports its counts when it has been idle for a moment.
    const { rows } = await database.pool.query<{ all: number; hot: number }>(
      `select n_tup_upd::int as all, n_tup_hot_upd::int as hot
       from pg_stat_user_tables where relname = 'lease'`,
    );
    const [counted] = rows;
    if (counted !== undefined && counted.all >= expectedCount) return counted.hot / counted.all;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return Number.NaN;
}
