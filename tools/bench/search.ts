import { KEY_LADDERS, type Caller } from '@leasehold/keys-core';
import { createKeyService } from '@leasehold/keys-core/keys';
import { createNameFiller, createSearchService } from '@leasehold/keys-core/search';
import type { Figure } from './rig/figures.ts';
import { atMost, megabytes, microseconds, milliseconds } from './rig/quantities.ts';
import type { BenchDatabase, Rig } from './rig/rig.ts';
import { durationMsOf } from './rig/rounds.ts';
import { settle } from './rig/seed.ts';

const FOUND_MS = 100;
const FIRST_PAGE_MS = 2_000;
const ROUNDS = 60;
const LIST_ROUNDS = 7;
const HEARTBEAT_MS = 7_000;

const ANYONE: Caller = { principal: 'bench', actor: 'bench', role: 'admin', namespaces: null };
const LIMITED: Caller = { ...ANYONE, namespaces: ['team-7', 'team-9.app-59'] };

/** What is searched for, by what is hard about it. Half of all names contain `room`. */
const NEEDLES: Record<string, string> = {
  'an exact name': 'team-7.app-7/Room-7',
  'a part of few names': '424242',
  'a part of a name in another case': 'M-42424',
  'the beginning of many names': 'roo',
  'a part of half of all names': 'oom',
  'a whole namespace': 'team-7.app-57/',
  'one character': 'r',
  'one character that is rare': 'q',
  'two characters': 'oo',
  'two characters that nothing has': 'zq',
  'a part of some thousand names': 'm-77',
  nothing: 'nothing-of-this',
  'pieces of many names that no name has together': 'room-team',
  'text that is not ASCII': 'größe-4',
};

/** How long it takes to find something by a part of its name, at a million names, and what that costs. */
export async function measureSearch(rig: Rig): Promise<Figure[]> {
  const size = rig.isQuick ? 50_000 : 1_000_000;
  const database = await rig.database('bench_search');
  await seedNames(database, size);
  const before = await databaseBytes(database);
  const filledMs = await durationMsOf(() => fillNames(database));
  await database.pool.query('vacuum analyze search_name');
  const after = await databaseBytes(database);
  const search = createSearchService({
    ...{ store: database.store, heartbeatMs: HEARTBEAT_MS },
    onFailure: (error) => {
      throw error;
    },
  });
  const figures: Figure[] = [];
  for (const [what, text] of Object.entries(NEEDLES)) {
    const took = await timesOf(ROUNDS, () => search.find({ text, limit: 20 }, ANYONE));
    figures.push(findFigure(`find ${what} ("${text}")`, took));
  }
  const took = await timesOf(ROUNDS, () => search.find({ text: 'oom', limit: 20 }, LIMITED));
  figures.push(findFigure('find a part of half of all names, for a limited caller', took));
  for (const [what, text] of Object.entries(NEEDLES)) {
    figures.push(await listFigure(database, `list keys with ${what} ("${text}")`, text));
  }
  return [
    ...figures,
    {
      what: `names of ${String(size)} resources: on disk`,
      result: megabytes(after - before),
      theirs: megabytes(before),
      peer: 'everything else',
    },
    {
      what: 'filling the name of one resource that was there before',
      result: microseconds((filledMs * 1_000) / size),
    },
  ];
}

function findFigure(what: string, took: readonly number[]): Figure {
  return {
    what: `${what}: p99, and p50`,
    result: milliseconds(percentile(took, 0.99)),
    ours: milliseconds(percentile(took, 0.5)),
    required: atMost(FOUND_MS),
  };
}

async function listFigure(
  { store, leases }: BenchDatabase,
  what: string,
  contains: string,
): Promise<Figure> {
  const keys = createKeyService({
    ...{ store, leases, ladder: KEY_LADDERS.standard, heartbeatMs: HEARTBEAT_MS },
    chooseDrone: () => Promise.reject(new Error('nothing is started here')),
  });
  const took = await timesOf(LIST_ROUNDS, () =>
    keys.list({ contains, includeChildren: true, limit: 100 }, ANYONE),
  );
  return {
    what: `${what}: worst, and median`,
    result: milliseconds(Math.max(...took)),
    ours: milliseconds(percentile(took, 0.5)),
    required: atMost(FIRST_PAGE_MS),
  };
}

async function timesOf(rounds: number, read: () => Promise<unknown>): Promise<number[]> {
  const took: number[] = [];
  // The first one warms up.
  for (let round = 0; round <= rounds; round += 1) took.push(await durationMsOf(read));
  return took.slice(1);
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** Keys and leases in half of each other, in no order of names, nine of ten held. */
async function seedNames({ pool }: BenchDatabase, size: number): Promise<void> {
  await pool.query(
    `insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
       renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at, released_at, end_reason)
     select case when i % 4 < 2 then 'key' else 'lease' end, 'team-' || i % 50 || '.app-' || i % 500,
       case when i % 2 = 1 then 'Room-' || i when i % 1000 = 0 then 'Größe-' || i
         else 'job-' || substr(md5(i::text), 1, 8) || '-' || i end,
       gen_random_uuid(), i, 'd' || i % 100, 'bench', 86400000, 30000, 40000, 50000, now(), now(),
       now() + interval '1 day', case when i % 10 = 3 then now() end, case when i % 10 = 3 then 'released' end
     from generate_series(1, $1::int) i
     order by md5(i::text)`,
    [size],
  );
  await settle(pool);
}

/** As a controller fills the names of a database that was in use before. */
async function fillNames({ store, pool }: BenchDatabase): Promise<void> {
  const filler = createNameFiller(store);
  for (;;) {
    await filler.runOnce();
    const { rows } = await pool.query(
      "select from search_mark where part = 'leases' and walked_at is null",
    );
    if (rows.length === 0) return;
  }
}

async function databaseBytes({ pool }: BenchDatabase): Promise<number> {
  const { rows } = await pool.query<{ bytes: string }>(
    'select pg_database_size(current_database()) as bytes',
  );
  return Number(rows[0]?.bytes);
}
