import { describe, expect, test } from 'vitest';
import { revoke } from '../grants/sql/revoke.ts';
import { granted, type Kernel, openKernel } from '../testing/kernel-fixture.ts';
import {
  countResources,
  readHealth,
  readRecentRenewals,
  recordHealth,
} from './sql/stats-buckets.ts';

interface Bucket {
  readonly agoMs: number;
  readonly renewals: number;
  readonly refused: number;
}

async function insertBuckets({ store }: Kernel, buckets: readonly Bucket[]): Promise<void> {
  await store.general.$queryRaw`
    insert into stats_bucket (bucket_at, face, renewals, refused_renewals)
    select date_bin('10 seconds', clock_timestamp() - b.ago_ms * interval '1 millisecond', timestamptz 'epoch'),
      'lease', b.renewals, b.refused
    from unnest(
      ${buckets.map((one) => one.agoMs)}::float8[],
      ${buckets.map((one) => one.renewals)}::bigint[],
      ${buckets.map((one) => one.refused)}::bigint[]
    ) as b (ago_ms, renewals, refused)
    returning face`;
}

/** The buckets of the last minutes, oldest first. */
function minutes(count: number, of: (agoMs: number) => Omit<Bucket, 'agoMs'>): Bucket[] {
  return Array.from({ length: count * 6 }, (_, index) => {
    const agoMs = (count * 6 - index) * 10_000;
    return { agoMs, ...of(agoMs) };
  });
}

describe('renewals of the last minutes', () => {
  test('are counted without those of the day before, which began no trouble', async () => {
    const kernel = await openKernel();
    await insertBuckets(kernel, [
      { agoMs: 20 * 3_600_000, renewals: 10, refused: 5 },
      ...minutes(6, () => ({ renewals: 100, refused: 0 })),
    ]);

    const recent = await readRecentRenewals(kernel.store.guests);

    expect(recent).toMatchObject({ refused: 0, refusedLately: 0, since: null });
    // Five minutes of 600 each, of which some seconds pass while the test runs.
    expect(recent.renewals).toBeGreaterThan(2_000);
    expect(recent.renewals).toBeLessThan(3_200);
  });

  test('are refused since the first refusal of this run, not since one of another run', async () => {
    const kernel = await openKernel();
    const isIn = (agoMs: number): boolean => agoMs <= 240_000 || agoMs === 1_800_000;
    await insertBuckets(
      kernel,
      minutes(40, (agoMs) => ({ renewals: 100, refused: isIn(agoMs) ? 60 : 0 })),
    );

    const { since, refusedLately } = await readRecentRenewals(kernel.store.guests);

    expect(refusedLately).toBeGreaterThanOrEqual(300);
    const agoMs = Date.now() - (since ?? 0);
    expect(agoMs).toBeGreaterThan(225_000);
    expect(agoMs).toBeLessThan(275_000);
  });

  test('have no beginning of trouble while few of them are refused', async () => {
    const kernel = await openKernel();
    await insertBuckets(
      kernel,
      minutes(6, (agoMs) => ({ renewals: 1_000, refused: agoMs === 60_000 ? 5 : 0 })),
    );

    expect((await readRecentRenewals(kernel.store.guests)).since).toBeNull();
  });
});

describe('the recorded health', () => {
  test('keeps its beginning while every judgement is the same, and begins again with another', async () => {
    const kernel = await openKernel();
    const { general, guests } = kernel.store;
    const judged = async (isHealthy: boolean): Promise<number | undefined> => {
      await recordHealth(general, isHealthy);
      return (await readHealth(guests))?.since;
    };
    const first = await judged(true);
    await general.$queryRaw`update health set since = since - interval '3 hours' returning only_row`;

    const same = await judged(true);
    const other = await judged(false);

    expect(same).toBe((first ?? 0) - 10_800_000);
    expect(other).toBeGreaterThanOrEqual(first ?? Number.NaN);
    expect((await readHealth(guests))?.isHealthy).toBe(false);
  });

  test('is not known after a time in which nobody judged, and begins again after it', async () => {
    const kernel = await openKernel();
    const { general, guests } = kernel.store;
    await recordHealth(general, true);
    await general.$queryRaw`
      update health set since = since - interval '3 hours', judged_at = judged_at - interval '2 minutes'
      returning only_row`;

    const unwatched = await readHealth(guests);
    await recordHealth(general, true);

    expect(unwatched).toBeNull();
    expect(Date.now() - ((await readHealth(guests))?.since ?? 0)).toBeLessThan(60_000);
  });
});

test('grants expire since the first of them was blocked or revoked', async () => {
  const kernel = await openKernel();
  await granted(kernel, { name: 'held' });
  const { leaseId } = await granted(kernel, { face: 'key', name: 'k' });
  await revoke(kernel.store.general, 'key', [
    { leaseId, actor: 'o', reason: 'r', namespaces: null, mode: 'force', abandon: false },
  ]);
  await kernel.store.general.$queryRaw`
    update lease_event set at = at - interval '30 seconds' where lease_id = ${leaseId}::uuid returning id`;

  const { key, lease } = await countResources(kernel.store.guests);

  expect([key.expiring, lease.expiring, lease.expiringSince]).toEqual([1, 0, null]);
  const agoMs = Date.now() - (key.expiringSince ?? 0);
  expect(agoMs).toBeGreaterThan(25_000);
  expect(agoMs).toBeLessThan(90_000);
});
