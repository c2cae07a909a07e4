import { describe, expect, test } from 'vitest';
import {
  aRequest,
  granted,
  openFreshKernel,
  openKernel,
  releaseOf,
  renewalOf,
  type Kernel,
} from '../../testing/kernel-fixture.ts';
import { aDrone } from '../../testing/fleet-fixture.ts';
import { NO_ROWS, connect, openKeys, rowCounts } from '../../testing/keys-fixture.ts';
import { openSession, someoneWaits } from '../../testing/coordinator-fixture.ts';
import { serviceLadder } from '../../kernel/ladder.ts';
import { checkEpoch } from './epoch.ts';

const LONGEST_TTL_MS = 60_000;

/** Makes the database look different from what was noted: restored, or failed over. */
async function makeAnother(
  { store }: Kernel,
  what: 'system identifier' | 'timeline',
): Promise<void> {
  if (what === 'timeline') {
    await store.general.$executeRaw`update database_epoch set timeline = timeline - 1`;
  } else {
    // Another cluster is another run of the server.
    await store.general
      .$executeRaw`update database_epoch set system_identifier = 'of the backup', identified_run = 0`;
  }
}

async function tokenOf({ store }: Kernel): Promise<string | undefined> {
  const rows = await store.general.$queryRaw<
    { token: string }[]
  >`select token::text as token from database_epoch`;
  return rows[0]?.token;
}

describe('the epoch of a database', () => {
  test('begins at one, without a hold-off, and stays while the database is the same', async () => {
    const { store } = await openKernel();

    const first = await checkEpoch(store.general, LONGEST_TTL_MS);
    const again = await checkEpoch(store.general, LONGEST_TTL_MS);

    expect(first).toMatchObject({ isNew: false, holdOffMs: 0 });
    expect(again).toEqual({ ...first, epoch: 1, longestTtlMs: LONGEST_TTL_MS, cause: null });
  });

  test('is the same for a process that checks it while another one begins the first epoch', async () => {
    const kernel = await openFreshKernel();
    const other = await openSession(kernel);
    await other.query('begin');
    const begun = await other.query<{ token: string }>(`
      insert into database_epoch (
        only_row, epoch, system_identifier, timeline, token, longest_ttl_ms, settled_until
      )
      select true, 1, s.system_identifier::text, database_timeline(), gen_random_uuid(), 1000,
        clock_timestamp()
      from pg_control_system() s
      returning token::text`);
    const checking = checkEpoch(kernel.store.general, LONGEST_TTL_MS);
    await someoneWaits(kernel);
    await other.query('commit');

    await expect(checking).resolves.toMatchObject({
      epoch: 1,
      token: begun.rows[0]?.token,
      isNew: false,
      holdOffMs: 0,
      longestTtlMs: LONGEST_TTL_MS,
    });
  });

  test.each(['system identifier', 'timeline'] as const)(
    'F20b another %s holds off new grants until the longest TTL is over; renewals and releases continue',
    async (what) => {
      const kernel = await openKernel();
      await checkEpoch(kernel.store.general, LONGEST_TTL_MS);
      const [renewed, released] = await Promise.all([
        granted(kernel, { name: 'a' }),
        granted(kernel, { name: 'b' }),
      ]);
      const tokenBefore = await tokenOf(kernel);
      await makeAnother(kernel, what);

      const seen = await checkEpoch(kernel.store.general, LONGEST_TTL_MS);

      expect(seen.isNew).toBe(true);
      // Two restores of one backup have different numbers, a minute apart.
      expect(seen.epoch).toBeGreaterThan(1_000_000);
      expect(seen.holdOffMs).toBeGreaterThan(LONGEST_TTL_MS - 5_000);
      expect(await tokenOf(kernel)).not.toBe(tokenBefore);
      const refused = await kernel.leases
        .grant(aRequest({ name: 'c' }))
        .catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: 'grant.hold_off' });
      expect(
        (refused as { details: { remainingMs: number } }).details.remainingMs,
      ).toBeLessThanOrEqual(LONGEST_TTL_MS);
      expect(await kernel.leases.renew('lease', renewalOf(renewed))).toMatchObject({
        outcome: 'renewed',
      });
      expect(await kernel.leases.release('lease', releaseOf(released))).toBe('released');
      await expect(kernel.leases.grant(aRequest({ name: 'b' }))).rejects.toMatchObject({
        code: 'grant.hold_off',
      });
    },
  );

  test('holds off for the longest TTL that was ever noted, whatever this controller’s own is', async () => {
    const kernel = await openKernel();
    await checkEpoch(kernel.store.general, 3_600_000);
    await makeAnother(kernel, 'timeline');

    const { holdOffMs } = await checkEpoch(kernel.store.general, 6_000);

    expect(holdOffMs).toBeGreaterThan(3_590_000);
  });

  test('notes the longer TTL of a later controller, for a later restore', async () => {
    const kernel = await openKernel();
    await checkEpoch(kernel.store.general, 6_000);
    await checkEpoch(kernel.store.general, 3_600_000);
    await makeAnother(kernel, 'timeline');

    const { holdOffMs } = await checkEpoch(kernel.store.general, 6_000);

    expect(holdOffMs).toBeGreaterThan(3_590_000);
  });

  test('F20b holds off for the longest lease that was granted, even if the backup has only shorter ones', async () => {
    const told: number[] = [];
    const kernel = await openKernel({
      keep: ({ longestTtlMs }) => {
        told.push(longestTtlMs);
        return Promise.resolve();
      },
    });
    await checkEpoch(kernel.store.general, LONGEST_TTL_MS);
    await granted(kernel, { ladder: serviceLadder(7_200_000) });
    await kernel.store.general
      .$executeRaw`update database_epoch set longest_ttl_ms = ${LONGEST_TTL_MS}`;
    await makeAnother(kernel, 'timeline');
    const restarted = await openKernel({
      databaseUrl: kernel.databaseUrl,
      remembered: { longestTtlMs: told.at(-1) ?? 0 },
    });

    const { holdOffMs } = await checkEpoch(restarted.store.general, restarted.store.longestTtl.ms);

    expect(told.at(-1)).toBe(7_200_000);
    expect(holdOffMs).toBeGreaterThan(7_190_000);
  });

  test('only one of many controllers that check it at once sees the change, and all see the hold-off', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });
    await checkEpoch(kernel.store.general, LONGEST_TTL_MS);
    await makeAnother(kernel, 'system identifier');

    const seen = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        checkEpoch((index % 2 === 0 ? kernel : other).store.general, LONGEST_TTL_MS),
      ),
    );

    expect(seen.filter(({ isNew }) => isNew)).toHaveLength(1);
    const after = await checkEpoch(kernel.store.general, LONGEST_TTL_MS);
    expect(after).toMatchObject({ epoch: seen[0]?.epoch, isNew: false });
    expect(after.holdOffMs).toBeGreaterThan(0);
  });

  test('connect reports a hold-off too, leaves nothing behind, and starts backends again after its end', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    await checkEpoch(on.store.general, LONGEST_TTL_MS);
    await makeAnother(on, 'timeline');
    await checkEpoch(on.store.general, LONGEST_TTL_MS);

    await expect(connect(on)).rejects.toMatchObject({ code: 'grant.hold_off' });
    expect(await rowCounts(on)).toEqual(NO_ROWS);

    await on.store.general.$executeRaw`update database_epoch set hold_off_until = null`;
    expect(await connect(on)).toMatchObject({ spawned: true });
  });

  test('F20b grants are held off from the first moment, before any controller has checked', async () => {
    const kernel = await openKernel();
    await checkEpoch(kernel.store.general, LONGEST_TTL_MS);
    await granted(kernel, { name: 'before' });
    await makeAnother(kernel, 'timeline');

    await expect(kernel.leases.grant(aRequest())).rejects.toMatchObject({
      code: 'grant.hold_off',
      details: { remainingMs: LONGEST_TTL_MS },
    });
  });

  test('a hold-off ends by itself when its time is over', async () => {
    const kernel = await openKernel();
    await checkEpoch(kernel.store.general, LONGEST_TTL_MS);
    await makeAnother(kernel, 'timeline');
    await checkEpoch(kernel.store.general, LONGEST_TTL_MS);

    await kernel.store.general.$executeRaw`
      update database_epoch set hold_off_until = hold_off_until - interval '61 seconds'`;

    expect(await kernel.leases.grant(aRequest())).toMatchObject({ outcome: 'granted' });
    expect(await checkEpoch(kernel.store.general, LONGEST_TTL_MS)).toMatchObject({
      isNew: false,
      holdOffMs: 0,
    });
  });
});
