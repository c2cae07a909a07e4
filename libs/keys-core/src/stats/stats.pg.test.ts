import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { revoke } from '../grants/sql/revoke.ts';
import type { Face } from '../kernel/resource.ts';
import { createReaper } from '../keys/index.ts';
import { SILENT_OBSERVER } from '../postgres/kernel-store.ts';
import { insertEvents, openWriter } from '../testing/event-fixture.ts';
import {
  age,
  granted,
  type Kernel,
  openFreshKernel,
  openKernel,
  releaseOf,
} from '../testing/kernel-fixture.ts';
import { DURATION_PLACES } from './histogram.ts';
import {
  addToBuckets,
  createEventRollup,
  type EventRollup,
  readSeries,
  removeOldBuckets,
  type StatsCounts,
} from './sql/stats-buckets.ts';

/** The totals of every bucket, by face: grants, releases, expiries, revocations. */
async function totals({ store }: Kernel): Promise<Partial<Record<Face, number[]>>> {
  const rows = await store.general.$queryRaw<{ face: Face; numbers: number[] }[]>`
    select b.face, array[sum(b.grants), sum(b.releases), sum(b.expiries), sum(b.revocations)]::float8[]
      as numbers
    from stats_bucket b group by b.face`;
  return Object.fromEntries(rows.map(({ face, numbers }) => [face, numbers]));
}

async function cursorOf({ store }: Kernel): Promise<number> {
  const rows = await store.general.$queryRaw<{ id: number }[]>`
    select through_id::int as id from stats_cursor`;
  return rows[0]?.id ?? Number.NaN;
}

/** Rolls up until every event of the test is counted: a transaction of another database may hold it up. */
async function rollUpAll(kernel: Kernel, rollup: EventRollup): Promise<void> {
  await waitUntil(
    async () => {
      await rollup.runOnce();
      const rows = await kernel.store.general.$queryRaw<{ left: number }[]>`
        select count(*)::int as left from lease_event v
        where v.id > (select c.through_id from stats_cursor c)`;
      return rows[0]?.left === 0;
    },
    { what: 'the last event to be counted' },
  );
}

function counts(change: Partial<StatsCounts> = {}): StatsCounts {
  return {
    face: 'lease',
    denials: 0,
    renewals: 0,
    waits: null,
    handovers: null,
    ...change,
  };
}

function histogram(place: number, count: number): number[] {
  return Array.from({ length: DURATION_PLACES }, (_, at) => (at === place ? count : 0));
}

/** Inserts a bucket of `agoMs` ago. */
async function insertBucket({ store }: Kernel, agoMs: number, grants: number): Promise<void> {
  await store.general.$queryRaw`
    insert into stats_bucket as t (bucket_at, face, grants)
    values (
      date_bin('10 seconds', clock_timestamp() - ${agoMs} * interval '1 millisecond', timestamptz 'epoch'),
      'lease', ${grants}::bigint
    )
    on conflict (bucket_at, face) do update set grants = t.grants + excluded.grants
    returning t.face`;
}

describe('roll-up of events', () => {
  test('counts what was done through the kernel, by face', async () => {
    const kernel = await openKernel();
    const first = await granted(kernel, { name: 'a' });
    await kernel.leases.release('lease', releaseOf(first));
    const second = await granted(kernel, { name: 'a' });
    await age(kernel, second.leaseId, 120_000);
    const third = await granted(kernel, { name: 'a' });
    await kernel.leases.release('lease', releaseOf(third, { result: 'failed' }));
    const key = await granted(kernel, { face: 'key', name: 'k' });
    await revoke(kernel.store.general, 'key', [
      {
        leaseId: key.leaseId,
        actor: 'o',
        reason: 'r',
        namespaces: null,
        mode: 'force',
        abandon: false,
      },
    ]);
    const lapsed = await granted(kernel, { face: 'environment', name: 'e' });
    await age(kernel, lapsed.leaseId, 120_000);
    await createReaper(kernel.store).runOnce();

    await rollUpAll(kernel, createEventRollup(kernel.store));

    expect(await totals(kernel)).toEqual({
      lease: [3, 2, 1, 0],
      key: [1, 0, 0, 1],
      environment: [1, 0, 1, 0],
    });
  });

  test('counts each event once when controllers roll up at the same time, again and again', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });
    const writer = await openWriter(kernel);
    const rollup = createEventRollup(kernel.store);
    const others = [other, kernel, other].map(({ store }) => createEventRollup(store));

    for (let round = 0; round < 80; round += 1) {
      await insertEvents(writer, 60);
      await Promise.all([rollup, ...others].map((one) => one.runOnce()));
    }
    await rollUpAll(kernel, rollup);

    expect(await totals(kernel)).toEqual({ lease: [4_800, 0, 0, 0] });
  });

  test('does not miss an event whose transaction commits after later events were counted', async () => {
    const kernel = await openKernel();
    const rollup = createEventRollup(kernel.store);
    const late = await openWriter(kernel);
    const writer = await openWriter(kernel);
    await late.query('begin');
    await insertEvents(late, 1);
    await insertEvents(writer, 3);

    await rollup.runOnce();
    await createEventRollup(kernel.store).runOnce();
    const before = await totals(kernel);
    await late.query('commit');
    await rollUpAll(kernel, rollup);

    expect(before).toEqual({});
    expect(await totals(kernel)).toEqual({ lease: [4, 0, 0, 0] });
  });

  test('does nothing while another controller has the cursor, and does not wait for it', async () => {
    const kernel = await openKernel();
    const writer = await openWriter(kernel);
    await insertEvents(writer, 3);
    await writer.query('begin');
    await writer.query('select through_id from stats_cursor for update');

    const { countedCount } = await createEventRollup(kernel.store).runOnce();
    await writer.query('rollback');

    await rollUpAll(kernel, createEventRollup(kernel.store));

    expect(countedCount).toBe(0);
    expect(await totals(kernel)).toEqual({ lease: [3, 0, 0, 0] });
  });

  test('works off a backlog in bounded steps, and counts no event that is older than the buckets', async () => {
    const kernel = await openKernel();
    const writer = await openWriter(kernel);
    await insertEvents(writer, 25_000);
    const [old = 0] = await insertEvents(writer, 1);
    await writer.query(`update lease_event set at = at - interval '26 hours' where id = $1`, [old]);

    await rollUpAll(kernel, createEventRollup(kernel.store));

    expect(await totals(kernel)).toEqual({ lease: [25_000, 0, 0, 0] });
    expect(await cursorOf(kernel)).toBe(old);
  });

  test('after a restore to an earlier moment goes on from there', async () => {
    const kernel = await openFreshKernel();
    const writer = await openWriter(kernel);
    await writer.query(`
      insert into database_epoch (epoch, system_identifier, timeline, token, longest_ttl_ms)
      select 1, s.system_identifier::text, database_timeline(), gen_random_uuid(), 1
      from pg_control_system() s`);
    const rollup = createEventRollup(kernel.store);
    const [first = 0] = await insertEvents(writer, 5);
    await rollUpAll(kernel, rollup);
    // What a restore leaves: the first event, its count, and event numbers that are given again.
    await writer.query(`delete from lease_event where id > $1`, [first]);
    await writer.query(`select setval('lease_event_id_seq', $1)`, [first]);
    await writer.query(`update lease_event_mark set removed_through_id = 0`);
    await writer.query(`update stats_cursor set through_id = $1`, [first]);
    await writer.query(`update stats_bucket set grants = 1`);
    await writer.query(`update database_epoch set epoch = 2`);
    await rollup.runOnce();
    await insertEvents(writer, 2);

    await rollUpAll(kernel, rollup);

    expect(await totals(kernel)).toEqual({ lease: [3, 0, 0, 0] });
  });
});

describe('buckets', () => {
  test('two controllers add to the same one, and no count is lost', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });
    const said = counts({ denials: 1, renewals: 2, waits: histogram(4, 1) });

    await Promise.all(
      Array.from({ length: 40 }, (_, round) =>
        addToBuckets((round % 2 === 0 ? kernel : other).store.general, [
          counts({ ...said, face: 'key' }),
          said,
        ]),
      ),
    );
    await addToBuckets(kernel.store.general, [counts({ handovers: histogram(2, 7) })]);

    const { steps } = await readSeries(kernel.store.general, { stepMs: 60_000, stepCount: 2 });
    const sum = (read: (step: (typeof steps)[number]) => number | undefined): number =>
      steps.reduce((total, step) => total + (read(step) ?? 0), 0);
    expect(sum((step) => step.denials)).toBe(80);
    expect(sum((step) => step.renewals)).toBe(160);
    expect(sum((step) => step.waits[4])).toBe(80);
    expect(sum((step) => step.handovers[2])).toBe(7);
  });

  test('a histogram of fewer places is added to one of more', async () => {
    const kernel = await openKernel();

    await addToBuckets(kernel.store.general, [counts({ waits: [5] })]);
    await addToBuckets(kernel.store.general, [counts({ waits: histogram(0, 1) })]);

    const { steps } = await readSeries(kernel.store.general, { stepMs: 60_000, stepCount: 2 });
    expect(steps.reduce((sum, step) => sum + (step.waits[0] ?? 0), 0)).toBe(6);
  });

  test('a window holds the buckets of its steps and no others', async () => {
    const kernel = await openKernel();
    await insertBucket(kernel, 0, 1);
    await insertBucket(kernel, 30_000, 10);
    await insertBucket(kernel, 120_000, 100);
    await insertBucket(kernel, -60_000, 1_000);

    const { asOf, steps } = await readSeries(kernel.store.general, {
      stepMs: 10_000,
      stepCount: 6,
    });

    expect(steps.map((step) => step.grants)).toEqual([10, 1]);
    for (const { at } of steps) expect(at % 10_000).toBe(0);
    expect(asOf - (steps[1]?.at ?? 0)).toBeLessThan(20_000);
  });

  test('those that no window reaches any more are removed, and no others', async () => {
    const kernel = await openKernel();
    const pass = {
      clock: kernel.store.clock,
      onFailure: (_kind: string, error: unknown) => {
        throw error;
      },
    };
    const anHour = 3_600_000;
    await insertBucket(kernel, 24.9 * anHour, 1);
    await insertBucket(kernel, 25.1 * anHour, 1);
    await insertBucket(kernel, 40 * anHour, 1);

    expect(await removeOldBuckets(kernel.store.general, pass)).toBe(2);
    expect(await removeOldBuckets(kernel.store.general, pass)).toBe(0);
  });
});

describe('handovers', () => {
  test('a grant reports how long the resource was free since its release or its expiry', async () => {
    const kernel = await openKernel();
    const first = await granted(kernel, { name: 'a' });
    await kernel.leases.release('lease', releaseOf(first));
    await age(kernel, first.leaseId, 5_000);
    const second = await granted(kernel, { name: 'a' });
    await age(kernel, second.leaseId, 61_000);
    const third = await granted(kernel, { name: 'a' });

    expect(first.freeMs).toBeNull();
    expect(second.freeMs).toBeGreaterThanOrEqual(5_000);
    expect(second.freeMs).toBeLessThan(15_000);
    expect(third.freeMs).toBeGreaterThanOrEqual(0);
    expect(third.freeMs).toBeLessThan(11_000);
  });

  test('a grant to a caller that did not wait is no handover', async () => {
    const told: number[] = [];
    const kernel = await openKernel({
      observer: { ...SILENT_OBSERVER, handedOver: (_face, ms) => told.push(ms) },
    });
    const first = await granted(kernel, { name: 'a' });
    await kernel.leases.release('lease', releaseOf(first));
    await granted(kernel, { name: 'a' });

    expect(told).toEqual([]);
  });
});
