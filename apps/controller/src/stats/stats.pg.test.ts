import { describe, expect, test } from 'vitest';
import type { StatsOverview } from '@leasehold/keys-core/stats';
import { waitUntil } from '@leasehold/testing';
import { startTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { mutate, query } from '../testing/wire.ts';
import { acquireLease, lineFor, refOf, wanted } from '../testing/wire-leases.ts';

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
    { what: 'the overview to tell it', pollMs: 200 },
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

    // Events are counted by a job, what is no event by the controller: each is written by itself.
    const seen = await overviewWhen(
      on,
      ({ totals }) =>
        totals.grants === 2 &&
        totals.releases > 0 &&
        totals.renewals > 0 &&
        totals.refusedRenewals > 0 &&
        totals.waitMsP50 !== null &&
        totals.handoverMsP99 !== null,
    );

    expect(seen.totals).toMatchObject({ grants: 2, releases: 1, renewals: 1, refusedRenewals: 1 });
    // The first try of the caller that waited was denied, too.
    expect(seen.totals.denials).toBe(2);
    expect(seen.totals.waitMsP50).toBeGreaterThan(0);
    expect(seen.totals.handoverMsP99).toBeGreaterThan(0);
    expect(seen.totals.handoverMsP99).toBeLessThan(5_000);
    expect(seen.series.reduce((sum, point) => sum + point.grants, 0)).toBe(2);
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
