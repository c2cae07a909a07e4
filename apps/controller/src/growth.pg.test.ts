/** Every table that grows by what callers do has a job that keeps up with them. */
import { createFreeRowRemover } from '@leasehold/keys-core/grants';
import { createLogger } from '@leasehold/service-kit';
import { expect, test } from 'vitest';
import { createBacklogs, MORE, removeOldRows } from './background.ts';
import { countRows, feed, LONG_WATCHED, OLD_KINDS, READS_PER_STATEMENT } from './testing/growth.ts';
import { openTestStore } from './testing/test-store.ts';

const RETENTION_DAYS = 30;
const LOG = createLogger({ name: 'test', level: 'silent' });
/** More than a turn of each kind removes: a statement of a thousand takes half a second of it. */
const FED_COUNT = 4_500;
const STATEMENT_MS = 510;

test.each(OLD_KINDS)(
  'rows of %s that a day has brought, twice as many as a turn removes, are gone after one round',
  async (kind) => {
    const store = await openTestStore();
    const { general } = store;
    await feed(store, kind, { count: FED_COUNT });
    let nowMs = 0;
    const clock = { ...store.clock, nowMs: () => (nowMs += STATEMENT_MS / READS_PER_STATEMENT) };
    const backlogs = createBacklogs(clock);

    const answer = await removeOldRows(
      {
        store: { general, clock, clockWatch: LONG_WATCHED },
        log: LOG,
        retentionDays: RETENTION_DAYS,
        backlogs,
      },
      AbortSignal.timeout(60_000),
    );

    expect(await countRows(store, kind)).toBe(0);
    expect(answer).toBeUndefined();
    expect(Object.keys(backlogs.behindMs())).toContain(kind);
    expect(Math.max(...Object.values(backlogs.behindMs()))).toBe(0);
  },
);

test('no kind of rows is removed that is not fed here', async () => {
  const { general, clock } = await openTestStore();
  const backlogs = createBacklogs(clock);

  await removeOldRows(
    {
      store: { general, clock, clockWatch: LONG_WATCHED },
      log: LOG,
      retentionDays: RETENTION_DAYS,
      backlogs,
    },
    AbortSignal.timeout(60_000),
  );

  expect(Object.keys(backlogs.behindMs()).sort()).toEqual([...OLD_KINDS].sort());
});

test('what is not done after a minute is reported, and goes on without a pause', async () => {
  const store = await openTestStore();
  const { general } = store;
  await feed(store, 'events', { count: 1_001 });
  let nowMs = 0;
  const clock = { ...store.clock, nowMs: () => (nowMs += 2_000) };
  const backlogs = createBacklogs({ nowMs: () => nowMs });
  const round = (): Promise<unknown> =>
    removeOldRows(
      {
        store: { general, clock, clockWatch: LONG_WATCHED },
        log: LOG,
        retentionDays: RETENTION_DAYS,
        backlogs,
      },
      AbortSignal.timeout(60_000),
    );

  expect(await round()).toBe(MORE);
  nowMs += 1_000;
  expect(backlogs.behindMs()['events']).toBeGreaterThan(0);
  expect(await round()).toBeUndefined();
  expect(backlogs.behindMs()['events']).toBe(0);
});

test('free rows and their names are gone together, as many as there are', async () => {
  const store = await openTestStore();
  const { general } = store;
  const count = 21_500;
  const feed = store.reads.connections;
  await feed.query(`
    insert into lease (
      face, namespace, name, lease_id, fencing_token, holder, principal, tag, ttl_ms, renew_after_ms,
      soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at, released_at, end_reason
    )
    select 'lease', 'n', i::text, gen_random_uuid(), i, 'a', 'p', '', 60000, 20000, 40000, 50000, t, t, t, t, 'released'
    from generate_series(1, ${String(count)}) i, (select clock_timestamp() - interval '2 days' as t) t`);
  await feed.query(`
    insert into search_name (kind, namespace, name, text, name_at)
    select 'lease', namespace, name, 'n/' || name, 3 from lease limit 100`);
  const remover = createFreeRowRemover(store);
  let rounds = 0;
  let isMore = true;

  while (isMore) {
    isMore = false;
    rounds += 1;
    await remover.runOnce(undefined, () => {
      isMore = true;
    });
  }

  const { rows } = await general.connections.query(`
    select (select count(*)::int from lease) as leases, (select count(*)::int from search_name) as names`);
  expect(rows).toEqual([{ leases: 0, names: 0 }]);
  expect(rounds).toBe(2);
});
