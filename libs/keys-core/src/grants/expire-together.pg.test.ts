import { expect, test } from 'vitest';
import { createReaper } from '../keys/index.ts';
import { onlyRow } from '../postgres/sql.ts';
import { openSession } from '../testing/coordinator-fixture.ts';
import {
  age,
  eventsOf,
  granted,
  type Kernel,
  MACHINE_IDS,
  openKernel,
} from '../testing/kernel-fixture.ts';

const LEASES = 10_000;

/** Leases that all expired a moment ago, and one in between that has not. */
async function expireTogether(kernel: Kernel): Promise<void> {
  const session = await openSession(kernel);
  await session.query(`
    insert into lease (
      face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms, renew_after_ms,
      soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at
    )
    select 'lease', 'burst', 'l' || n, gen_random_uuid(), n, 'h', 'p', 60000, 20000, 50000, 50000,
      clock_timestamp() - interval '61 seconds', clock_timestamp() - interval '61 seconds',
      clock_timestamp() + case when n = 5000 then 1 else -1 end * interval '60 seconds'
    from generate_series(1, ${String(LEASES + 1)}) n`);
}

interface Ends {
  events: number;
  ofDifferentLeases: number;
  reaps: number;
  live: number;
}

async function endsOf({ store }: Kernel): Promise<Ends> {
  return onlyRow(
    await store.general.$queryRaw<Ends[]>`
      select
        (select count(*)::int from lease_event where kind = 'expired') as events,
        (select count(distinct lease_id)::int from lease_event where kind = 'expired') as "ofDifferentLeases",
        (select count(*)::int from lease_reap) as reaps,
        (select count(*)::int from lease where end_reason is null) as live`,
  );
}

test('I11 F15 ten thousand leases that expire together are ended once each by three reapers, with one event each', async () => {
  const first = await openKernel();
  const { databaseUrl } = first;
  const kernels = [first, await openKernel({ databaseUrl }), await openKernel({ databaseUrl })];
  await expireTogether(first);

  // A pass leaves rows that another reaper has locked to the next pass.
  const reapers = kernels.map(({ store }) => createReaper(store));
  let reapedCount = 0;
  for (let passCount = 0; passCount < 20 && (await endsOf(first)).live > 1; passCount += 1) {
    const passes = await Promise.all(reapers.map((reaper) => reaper.runOnce()));
    reapedCount += passes.reduce((sum, pass) => sum + pass.reapedCount, 0);
  }

  expect(await endsOf(first)).toEqual({
    events: LEASES,
    ofDifferentLeases: LEASES,
    reaps: LEASES,
    live: 1,
  });
  expect(reapedCount).toBe(LEASES);
});

test('I11 a growing table is swept whole: a grant that expires at its beginning does not wait', async () => {
  const kernel = await openKernel({ ids: { ...MACHINE_IDS, random: () => 0 } });
  const reaper = createReaper(kernel.store);
  const early = await granted(kernel, { name: 'early' });
  await fill(kernel, 'first');
  await reaper.runOnce();
  await fill(kernel, 'second');
  await age(kernel, early.leaseId, 60_000);

  await reaper.runOnce();

  const kinds = (await eventsOf(kernel, 'early')).map((line) => line.split(' ')[0]);
  expect(kinds).toEqual(['granted', 'expired']);
});

/** Makes the table larger by many pages of leases in force. */
async function fill({ store }: Kernel, namespace: string): Promise<void> {
  await store.general.$queryRaw`
    insert into lease (
      face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms, renew_after_ms,
      soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at
    )
    select 'lease', ${namespace}, 'l' || n, gen_random_uuid(), n, 'h', 'p', 60000, 20000, 50000, 50000,
      clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 hour'
    from generate_series(1, 2000) n
    returning 1 as one`;
}
