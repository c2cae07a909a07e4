import type pg from 'pg';
import { insertRows, MINUTE_MS, type Row, type World } from './world.ts';

const BUCKET_MS = 10_000;
const HOURS = 3;
/** The upper bounds of durations, as in the store's histogram. */
const BOUNDS_MS = [
  1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000,
  3_000, 5_000, 7_000, 10_000, 15_000, 20_000, 30_000, 50_000, 70_000, 100_000, 120_000,
];
const BOUNDS_COUNT = BOUNDS_MS.length;

/** What is unusual about a time, as factors and probabilities. */
interface Mood {
  readonly grants: number;
  readonly waits: number;
  readonly slower: number;
  readonly denials: number;
  readonly expires: number;
  readonly refuses: number;
}

const CALM: Mood = {
  grants: 1,
  waits: 1,
  slower: 1,
  denials: 0.25,
  expires: 0.06,
  refuses: 0.03,
};
/** A deployment of the search indexer went wrong: many waited, and some without success. */
const TROUBLE: Mood = {
  grants: 0.6,
  waits: 3.5,
  slower: 9,
  denials: 2.2,
  expires: 0.8,
  refuses: 0.7,
};
const TROUBLE_AGO_MS = { from: 27 * MINUTE_MS, to: 21 * MINUTE_MS };

function moodOf(face: string, agoMs: number): Mood {
  const isTrouble = face === 'lease' && agoMs <= TROUBLE_AGO_MS.from && agoMs >= TROUBLE_AGO_MS.to;
  return isTrouble ? TROUBLE : CALM;
}

/** How busy each face is in ten seconds. */
const FACES = [
  { face: 'key', grants: 14, renewals: 44, waitMs: 160, handoverMs: 900, waiters: 2 },
  { face: 'lease', grants: 62, renewals: 118, waitMs: 90, handoverMs: 14, waiters: 15 },
  { face: 'environment', grants: 0.4, renewals: 5, waitMs: 0, handoverMs: 0, waiters: 0 },
] as const;

/** Puts the figures of the last hours into the database's small buckets. */
export async function addStatistics(sql: pg.Pool, world: World): Promise<void> {
  const rows: Row[] = [];
  const nowMs = Math.floor(world.nowMs / BUCKET_MS) * BUCKET_MS;
  for (let agoMs = HOURS * 60 * MINUTE_MS; agoMs > 0; agoMs -= BUCKET_MS) {
    for (const face of FACES) rows.push(bucket(world, face, { atMs: nowMs - agoMs, agoMs }));
  }
  // These figures include the past events, which must not be counted again.
  await sql.query('update stats_cursor set through_id = (select max(id) from lease_event)');
  await sql.query('delete from stats_bucket');
  await insertRows(sql, 'stats_bucket', rows);
  await sql.query(REFUSED_RENEWALS);
}

/** An event for each number of refused renewals, of any grant of its face. */
const REFUSED_RENEWALS = `
  with fact as (
    insert into lease_event (
      at, face, namespace, name, lease_id, fencing_token, kind, actor, reason, detail
    )
    select b.bucket_at + interval '2 seconds', g.face, g.namespace, g.name, g.lease_id, g.fencing_token,
      'renewal_refused', g.actor, 'expired',
      jsonb_build_object('holder', g.detail ->> 'holder', 'count', b.refused_renewals, 'endedAt', b.bucket_at)
    from stats_bucket b
    cross join lateral (
      select v.* from lease_event v
      where v.face = b.face and v.kind in ('granted', 'taken_over')
      order by md5(v.id::text || b.bucket_at::text)
      limit 1
    ) g
    where b.refused_renewals > 0
    order by b.bucket_at
    returning at, id
  )
  insert into refused_renewal (at, event_id) select f.at, f.id from fact f`;

function bucket(
  world: World,
  of: (typeof FACES)[number],
  { atMs, agoMs }: { readonly atMs: number; readonly agoMs: number },
): Row {
  const { chance } = world;
  const mood = moodOf(of.face, agoMs);
  // The load of a working day rises and falls slowly, and differs every ten seconds.
  const tide =
    1 + 0.28 * Math.sin(agoMs / (31 * MINUTE_MS)) + 0.1 * Math.sin(agoMs / (4 * MINUTE_MS));
  const about = (mean: number): number =>
    Math.max(
      0,
      Math.round(mean * tide * (chance.int(75, 125) / 100) - 0.5 + chance.int(0, 100) / 100),
    );
  const sometimes = (probability: number, most: number): number =>
    chance.happens(probability) ? chance.int(1, most) : 0;
  const grants = about(of.grants * mood.grants);
  const waits = about(of.waiters * mood.waits);
  return {
    bucket_at: new Date(atMs).toISOString(),
    face: of.face,
    grants,
    releases: about(of.grants * mood.grants * 0.96),
    expiries: sometimes(mood.expires, 3),
    revocations: sometimes(mood.refuses / 4, 1),
    denials: about(of.waiters * mood.denials),
    renewals: about(of.renewals),
    refused_renewals: sometimes(mood.refuses, 4),
    waits: histogram(world, waits, of.waitMs * mood.slower),
    handovers: histogram(world, Math.min(waits, grants), of.handoverMs * mood.slower),
  };
}

/** Durations with a long tail around a median, counted by bounds; null for none. */
function histogram(world: World, count: number, medianMs: number): number[] | null {
  if (count === 0 || medianMs === 0) return null;
  const counts = new Array<number>(BOUNDS_COUNT + 1).fill(0);
  for (let index = 0; index < count; index += 1) {
    const tail = (world.chance.int(-100, 100) + world.chance.int(-100, 100)) / 100;
    const durationMs = medianMs * Math.exp(1.1 * tail + (world.chance.happens(0.02) ? 1.6 : 0));
    const found = BOUNDS_MS.findIndex((bound) => durationMs <= bound);
    const place = found === -1 ? BOUNDS_COUNT : found;
    counts[place] = (counts[place] ?? 0) + 1;
  }
  return counts;
}
