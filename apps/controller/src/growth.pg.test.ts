/** Every table that grows by what callers do has a job that keeps up with them. */
import { createFreeRowRemover } from '@leasehold/keys-core/grants';
import { openStore, type Store } from '@leasehold/keys-core/postgres';
import { createBootClock, createLogger, systemIds } from '@leasehold/service-kit';
import { createTestDatabase } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { createBacklogs, MORE, removeOldRows } from './background.ts';

const RETENTION_DAYS = 30;
const LOG = createLogger({ name: 'test', level: 'silent' });
/** More than a turn of each kind removes: a statement of a thousand takes half a second of it. */
const FED_COUNT = 4_500;
const STATEMENT_MS = 500;

async function openDatabase(): Promise<Store> {
  const { url } = await createTestDatabase();
  const store = openStore({
    databaseUrl: url,
    datacenter: 'local',
    clock: createBootClock(),
    ids: systemIds(),
  });
  onTestFinished(() => store.close());
  return store;
}

/** Statements that insert what callers and drones have made more than its retention ago, by table. */
const FEEDS: Readonly<Record<string, string>> = {
  lease_event: `insert into lease_event (at, face, namespace, name, lease_id, fencing_token, kind, actor)
    select clock_timestamp() - interval '31 days', 'lease', 'n', i::text, gen_random_uuid(), i, 'granted', 'a'
    from generate_series(1, FED) i`,
  lease_request: `insert into lease_request (id, answer, created_at)
    select lease_request_id('p', i::text), '{}', clock_timestamp() - interval '25 hours' from generate_series(1, FED) i`,
  lease_reap: `insert into lease_reap (lease_id, face, namespace, name, fencing_token, expired_at)
    select gen_random_uuid(), 'lease', 'n', i::text, i, clock_timestamp() - interval '26 hours'
    from generate_series(1, FED) i`,
  lease_waiter: `insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
    select 'lease', 'n', i::text, gen_random_uuid(), 'a', 'p', clock_timestamp() - interval '1 minute'
    from generate_series(1, FED) i`,
  environment_superseding: `insert into environment_superseding (
      namespace, name, action, priority, at, after_event_id, request_id, refusal
    )
    select 'n', i::text, 'deploy', 0, clock_timestamp() - interval '9 days', i, gen_random_uuid(), '{}'
    from generate_series(1, FED) i`,
  backend: `insert into backend (
      id, drone_id, datacenter, clock_id, program, args, env, namespace, name, tag, lease_id, fencing_token,
      status, status_rank, created_at, status_at
    )
    select 'b-' || i, 'd1', 'local', gen_random_uuid(), 'room', '[]', '{}', '', i::text, '', gen_random_uuid(), 1,
      'terminated', 9, t, t
    from generate_series(1, FED) i, (select clock_timestamp() - interval '31 days' as t) t`,
  backend_action: `insert into backend_action (backend_id, drone_id, kind, payload, acked_at)
    select 'b-' || i, 'd1', 'spawn', '{}', clock_timestamp() - interval '25 hours' from generate_series(1, FED) i`,
  audit: `insert into audit (at, actor, role, action, resource)
    select clock_timestamp() - interval '31 days', 'ann', 'admin', 'a', 'r' from generate_series(1, FED)`,
};

test.each(Object.keys(FEEDS))(
  'rows of %s that a day has brought, twice as many as a turn removes, are gone after one round',
  async (table) => {
    const store = await openDatabase();
    const { general } = store;
    await general.connections.query(String(FEEDS[table]).replaceAll('FED', String(FED_COUNT)));
    let nowMs = 0;
    const clock = { ...store.clock, nowMs: () => (nowMs += STATEMENT_MS) };
    const backlogs = createBacklogs(clock);

    const answer = await removeOldRows(
      { store: { general, clock }, log: LOG, retentionDays: RETENTION_DAYS, backlogs },
      AbortSignal.timeout(60_000),
    );

    const { rows } = await general.connections.query(`select count(*)::int as left from ${table}`);
    expect(rows).toEqual([{ left: 0 }]);
    expect(answer).toBeUndefined();
    expect(Math.max(...Object.values(backlogs.behindMs()))).toBe(0);
  },
);

test('what is not done after a minute is reported, and goes on without a pause', async () => {
  const store = await openDatabase();
  const { general } = store;
  await general.connections.query(String(FEEDS['lease_event']).replaceAll('FED', '1001'));
  let nowMs = 0;
  const clock = { ...store.clock, nowMs: () => (nowMs += 5_000) };
  const backlogs = createBacklogs({ nowMs: () => nowMs });
  const round = (): Promise<unknown> =>
    removeOldRows(
      { store: { general, clock }, log: LOG, retentionDays: RETENTION_DAYS, backlogs },
      AbortSignal.timeout(60_000),
    );

  expect(await round()).toBe(MORE);
  nowMs += 1_000;
  expect(backlogs.behindMs()['events']).toBeGreaterThan(0);
  expect(await round()).toBeUndefined();
  expect(backlogs.behindMs()['events']).toBe(0);
});

test('free rows and their names are gone together, as many as there are', async () => {
  const store = await openDatabase();
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
