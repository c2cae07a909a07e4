import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { StatsOverview } from '@leasehold/keys-core/stats';
import { failCallback, waitUntil } from '@leasehold/testing';
import { metric } from '../testing/metric.ts';
import { startTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { mutate, query } from '../testing/wire.ts';
import { acquireLease, ageLease, lineFor, refOf, wanted } from '../testing/wire-leases.ts';

async function overview(on: TestController, windowMinutes = 5): Promise<StatsOverview> {
  const { secret } = await on.token('viewer');
  const answer = await query(on, 'stats.overview', { secret, input: { windowMinutes } });
  return answer as StatsOverview;
}

/** The overview, as soon as it is in that state. */
async function overviewWhen(
  on: TestController,
  isSo: (seen: StatsOverview) => boolean,
): Promise<StatsOverview> {
  let seen: StatsOverview | undefined;
  await waitUntil(
    async () => {
      seen = await overview(on);
      return isSo(seen);
    },
    { what: 'the overview to tell it', timeoutMs: 20_000, pollMs: 200 },
  );
  return seen ?? overview(on);
}

describe('the overview', () => {
  test('shows what was done: grants, denials, renewals, releases, a wait and its handover', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const lease = await acquireLease(on, secret, { key: 'a' });
    await mutate(on, 'leases.acquire', { secret, input: wanted({ key: 'a' }) });
    await mutate(on, 'leases.heartbeat', {
      secret,
      input: { localTimeMs: 1, renewals: [refOf(lease), { ...refOf(lease), fencingToken: '1' }] },
    });
    const waiting = acquireLease(on, secret, { key: 'a', waitMs: 60_000, holder: 'bob' });
    await waitUntil(async () => (await lineFor(on, 'a')).length === 1);
    await mutate(on, 'leases.release', { secret, input: refOf(lease) });
    await waiting;

    const seen = await overviewWhen(on, ({ totals }) => totals.grants === 2 && totals.renewals > 0);

    expect(seen.totals).toMatchObject({ grants: 2, releases: 1, renewals: 1, refusedRenewals: 1 });
    // The first try of the caller that waited was denied, too.
    expect(seen.totals.denials).toBe(2);
    expect(seen.totals.waitMsP50).toBeGreaterThan(0);
    expect(seen.totals.handoverMsP99).toBeGreaterThan(0);
    expect(seen.totals.handoverMsP99).toBeLessThan(5_000);
    expect(seen.series.reduce((sum, point) => sum + point.grants, 0)).toBe(2);
  });

  test('counts what is held, expiring and overdue now, and how late the reaper is', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    await acquireLease(on, secret, { key: 'held' });
    const blocked = await acquireLease(on, secret, { key: 'blocked' });
    await mutate(on, 'leases.blockRenewal', {
      secret: operator.secret,
      input: { leaseId: blocked.leaseId, reason: 'test' },
    });
    const released = await acquireLease(on, secret, { key: 'released' });
    await mutate(on, 'leases.release', { secret, input: refOf(released) });
    const late = await acquireLease(on, secret, { key: 'late' });
    // The reaper skips locked rows.
    await on.controller.store.guests.$transaction(async (tx) => {
      await ageLease(on, late.leaseId, 45_000);
      await tx.$queryRaw`select name from lease where lease_id = ${late.leaseId}::uuid for update`;
      const seen = await overview(on);

      expect(seen.faces.lease).toMatchObject({ held: 1, expiring: 1, overdue: 1 });
      expect(seen.reaperLagMs).toBeGreaterThan(10_000);
      expect(seen.faces.key).toEqual({
        ...{ held: 0, expiring: 0, overdue: 0 },
        ...{ contended: 0, waiters: 0 },
      });
    });
  });

  test('names the resources with the most waiters, and their holders', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const asking: Promise<unknown>[] = [];
    const held = [];
    for (const [key, waiters] of [
      ['few', 1],
      ['many', 3],
    ] as const) {
      held.push(await acquireLease(on, secret, { key }));
      for (let at = 0; at < waiters; at += 1) {
        const change = { key, waitMs: 60_000, holder: `w${String(at)}` };
        asking.push(mutate(on, 'leases.acquire', { secret, input: wanted(change) }));
      }
      await waitUntil(async () => (await lineFor(on, key)).length === waiters);
    }

    const seen = await overview(on);
    for (const lease of held) await mutate(on, 'leases.release', { secret, input: refOf(lease) });

    expect(seen.faces.lease).toMatchObject({ contended: 2, waiters: 4 });
    expect(seen.contended).toMatchObject([
      { face: 'lease', namespace: 'test', name: 'many', holder: 'alice', waiters: 3 },
      { face: 'lease', namespace: 'test', name: 'few', holder: 'alice', waiters: 1 },
    ]);
    expect(seen.contended[0]?.longestWaitMs).toBeGreaterThanOrEqual(0);
    // The waiters' calls end with their controller.
    void Promise.allSettled(asking);
  });

  test('counts no connect to a running backend as a denial, and a silent drone as stale', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const drone = await startTestDrone(on);
    await startTestDrone(on, { droneId: 'd2' });
    const connect = (): Promise<unknown> =>
      mutate(on, 'keys.connect', {
        secret,
        input: { key: { name: 'k' }, spawn: { program: 'room' } },
      });
    await connect();
    await drone.heartbeat();
    await connect();
    await connect();
    await on.controller.store.general.$queryRaw`
      update drone set heartbeat_at = clock_timestamp() - interval '1 minute' where id = 'd2' returning id`;

    // What is so now is read before what was counted is waited for: nobody renews this key.
    const now = await overview(on);
    const counted = await overviewWhen(on, ({ totals }) => totals.grants === 1);

    expect(counted.totals.denials).toBe(0);
    expect(now.faces.key.held).toBe(1);
    expect(now.drones).toMatchObject({ total: 2, stale: 1 });
    expect(now.backends).toEqual({ scheduled: 1 });
  });

  test('shows how far events are behind, and the transaction that they wait for', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const holding = new pg.Client({
      ...connectionOf(on.databaseUrl),
      application_name: 'monthly-report',
    });
    await holding.connect();
    onTestFinished(() => holding.end());
    await holding.query('begin');
    await holding.query('select pg_current_xact_id()');
    await acquireLease(on, secret, { key: 'a' });

    // Until then a transaction of another test may be an older one.
    const { eventLag } = await overviewWhen(
      on,
      (seen) => seen.eventLag.culprit?.applicationName === 'monthly-report',
    );
    const { rows } = await holding.query<{ pid: number; name: string }>(
      'select pg_backend_pid() as pid, current_database() as name',
    );
    await holding.query('commit');
    const after = await overviewWhen(
      on,
      (seen) => seen.eventLag.culprit?.applicationName !== 'monthly-report',
    );

    const [own] = rows;
    expect(eventLag.lagMs).toBeGreaterThan(0);
    expect(eventLag.culprit).toMatchObject({
      ...{ pid: own?.pid, database: own?.name, preparedAs: null, state: 'idle in transaction' },
    });
    expect(eventLag.culprit?.ageMs).toBeGreaterThanOrEqual(eventLag.lagMs - 1);
    expect(eventLag.culprit?.queryAgeMs).toBeGreaterThanOrEqual(eventLag.lagMs - 1);
    expect(after.eventLag.culprit?.pid).not.toBe(own?.pid);
  });

  test('counts the callbacks of expired leases that fail, as the metric does', async () => {
    const on = await startTestController();
    await failCallback(on.databaseUrl, { namespace: ['test'], key: 'a', error: 'no' });

    const seen = await overviewWhen(on, ({ failingCallbacks }) => failingCallbacks > 0);

    expect(seen.failingCallbacks).toBe(1);
    expect(await metric(on, 'leasehold_reap_callbacks_failing')).toBe(1);
  });

  test('divides a window into steps, the last with the present moment; an unknown window is refused', async () => {
    const on = await startTestController();
    const { secret } = await on.token('viewer');

    const day = await overview(on, 1_440);
    const hour = await overview(on, 60);
    const refused = await query(on, 'stats.overview', { secret, input: { windowMinutes: 1_441 } });

    expect([day.series.length, day.stepMs]).toEqual([120, 720_000]);
    expect([hour.series.length, hour.stepMs]).toEqual([120, 30_000]);
    const last = Date.parse(hour.series.at(-1)?.at ?? '');
    expect(Date.parse(hour.asOf) - last).toBeGreaterThanOrEqual(0);
    expect(Date.parse(hour.asOf) - last).toBeLessThan(30_000);
    expect(hour.totals.waitMsP50).toBeNull();
    expect([day.before, hour.before?.grants]).toEqual([null, 0]);
    expect(refused).toBe('request.invalid');
  });

  test('has what a controller counted before it stopped', async () => {
    const on = await startTestController();
    const second = await startTestController({ databaseUrl: on.databaseUrl });
    const { secret } = await second.token('client');
    const lease = await acquireLease(second, secret);
    await mutate(second, 'leases.heartbeat', {
      secret,
      input: { localTimeMs: 1, renewals: [refOf(lease)] },
    });
    await second.controller.close();

    expect((await overview(on)).totals.renewals).toBe(1);
  });
});
