import { randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startUrlProxy, waitUntil } from '@leasehold/testing';
import { aRequest, granted, openKernel, type Kernel } from '../../testing/kernel-fixture.ts';
import { passingTime } from '../../testing/passing-time.ts';
import { serviceLadder } from '../../kernel/ladder.ts';
import { beginEpoch, checkEpoch } from './epoch.ts';
import type { StoreOptions } from '../open-store.ts';
import type { StoreMemory } from './store-memory.ts';
import { removeOldWitnesses, type WitnessNotice } from './database-witness.ts';
import { readStamp, writeStamp, type WitnessStamp } from './witness-stamp.ts';

const HOUR_MS = 3_600_000;

interface Watched extends Kernel {
  readonly notices: WitnessNotice[];
  /** What its home folder contains by now. */
  readonly home: () => StoreMemory | undefined;
}

async function open(options: Partial<StoreOptions> = {}): Promise<Watched> {
  const notices: WitnessNotice[] = [];
  let memory: StoreMemory | undefined;
  const kernel = await openKernel({
    onWitness: (notice) => notices.push(notice),
    keep: (newest) => {
      memory = newest;
      return Promise.resolve();
    },
    ...options,
  });
  return { ...kernel, notices, home: () => memory };
}

/** Takes back what a process has written since its row had this beat, as a restore does. */
async function goBack({ store }: Kernel, toBeat: number): Promise<void> {
  await store.general.$executeRaw`
    update database_witness set beat = ${toBeat}::bigint where id = ${store.witness.mark.witnessId}::uuid`;
}

async function epochOf({ store }: Kernel): Promise<{ epoch: number; token: string }> {
  const [row] = await store.general.$queryRaw<{ epoch: number; token: string }[]>`
    select epoch, token::text as token from database_epoch`;
  if (row === undefined) throw new Error('the database has no epoch');
  return row;
}

async function stampOf({ store }: Kernel, change: Partial<WitnessStamp> = {}): Promise<string> {
  const [row] = await store.general.$queryRaw<{ secret: string }[]>`
    select witness_secret as secret from database_epoch`;
  const stamp = readStamp(store.witness.stamp() ?? '', row?.secret ?? '');
  if (stamp === undefined || row === undefined) throw new Error('the process has no stamp');
  return writeStamp({ ...stamp, ...change }, row.secret);
}

const HELD_OFF = { code: 'grant.hold_off', details: { reason: 'restored' } };

describe('H-restore a database that has gone back behind what a process has seen', () => {
  test('grants nothing from the first statement on, and holds off once it is noticed', async () => {
    const kernel = await open();
    await granted(kernel, { name: 'before' });
    await kernel.store.witness.look();
    await goBack(kernel, 1);

    await expect(kernel.leases.grant(aRequest())).rejects.toMatchObject(HELD_OFF);
    await kernel.store.witness.look();

    expect(kernel.notices).toEqual([{ kind: 'held_off', cause: 'controller', holdOffMs: 60_000 }]);
    expect((await checkEpoch(kernel.store.general, 0)).holdOffMs).toBeGreaterThan(55_000);
  });

  test('is held off once, by whichever of many processes sees it first', async () => {
    const one = await open();
    const others = await Promise.all([1, 2, 3].map(() => open({ databaseUrl: one.databaseUrl })));
    const all = [one, ...others];
    await granted(one);
    for (const { store } of all) await store.witness.look();
    for (const { store } of all) await store.witness.look();
    for (const kernel of all) await goBack(kernel, 1);

    await Promise.all(all.map(({ store }) => store.witness.look()));
    const { epoch } = await epochOf(one);
    await Promise.all(all.map(({ store }) => store.witness.look()));

    expect(all.flatMap(({ notices }) => notices)).toHaveLength(1);
    expect((await epochOf(one)).epoch).toBe(epoch);
  });

  test('is recognized by the stamp of another process whose row is missing', async () => {
    const one = await open();
    await granted(one);
    const two = await open({ databaseUrl: one.databaseUrl });
    const stamp = await stampOf(one);
    await one.store.general.$executeRaw`delete from database_witness`;
    await two.store.witness.look();

    await two.store.witness.consider(stamp);

    expect(two.notices).toMatchObject([{ kind: 'held_off', cause: 'holder' }]);
    await expect(two.leases.grant(aRequest({ name: 'x' }))).rejects.toMatchObject(HELD_OFF);
  });

  test('is noticed when it is in an earlier epoch, and the next epoch is greater than both', async () => {
    const kernel = await open();
    await granted(kernel);
    const { epoch, token } = await epochOf(kernel);
    await kernel.store.general.$executeRaw`
      update database_epoch set epoch = epoch + 7, token = gen_random_uuid()`;
    await kernel.store.witness.look();
    await kernel.store.general.$executeRaw`
      update database_epoch set epoch = ${epoch}, token = ${token}::uuid, hold_off_until = null`;

    await kernel.store.witness.look();

    expect(kernel.notices).toMatchObject([{ kind: 'held_off', cause: 'controller' }]);
    expect((await epochOf(kernel)).epoch).toBeGreaterThan(epoch + 7);
  });

  test('gives larger tokens afterwards, although its clock is behind the largest token that was given', async () => {
    const kernel = await open();
    const former = await granted(kernel, { name: 'k' });
    await kernel.leases.release('lease', {
      ...former,
      principal: 'token-a',
      actor: 'alice',
      result: 'ok',
      detail: null,
    });
    const largest = String(BigInt(former.fencingToken) + BigInt(HOUR_MS));
    const stamp = await stampOf(kernel, { witnessId: randomUUID(), fencingToken: largest });
    await kernel.store.witness.consider(stamp);
    await kernel.store.general.$executeRaw`update database_epoch set hold_off_until = null`;

    const [known, unknown] = [await granted(kernel, { name: 'k' }), await granted(kernel)];

    expect(BigInt(known.fencingToken)).toBeGreaterThan(BigInt(largest));
    expect(BigInt(unknown.fencingToken)).toBeGreaterThan(BigInt(largest));
  });

  test.each(['controller', 'client'] as const)(
    'C17 gives larger tokens after a failover that a %s has seen the tokens of, although its clock is behind them',
    async (seer) => {
      const kernel = await open();
      const ahead = BigInt(Date.now() + HOUR_MS);
      await kernel.store.general.$executeRaw`update lease_token_floor set floor = ${ahead}`;
      const lost = await granted(kernel, { name: 'k' });
      const stamp = await stampOf(kernel);
      // What the standby that takes over does not have.
      await kernel.store.general.$executeRaw`delete from lease`;
      await kernel.store.general.$executeRaw`update lease_token_floor set floor = 0`;
      await kernel.store.general.$executeRaw`update database_epoch set timeline = timeline - 1`;
      if (seer === 'client') await kernel.store.close();
      const next = seer === 'client' ? await open({ databaseUrl: kernel.databaseUrl }) : kernel;

      await next.store.witness.look();
      if (seer === 'client') await next.store.witness.consider(stamp);
      await next.store.general.$executeRaw`update database_epoch set hold_off_until = null`;
      const [again, other] = [await granted(next, { name: 'k' }), await granted(next)];

      expect(next.notices).toMatchObject([{ kind: 'held_off', cause: 'timeline' }]);
      expect(BigInt(again.fencingToken)).toBeGreaterThan(BigInt(lost.fencingToken));
      expect(BigInt(other.fencingToken)).toBeGreaterThan(BigInt(lost.fencingToken));
    },
  );

  test('F20b is held off for the longest TTL that any process knows, whichever of them sees the failover first', async () => {
    const one = await open();
    await granted(one);
    const two = await open({ databaseUrl: one.databaseUrl });
    await granted(two, { name: 'long', ladder: serviceLadder(2 * HOUR_MS) });
    await one.store.general.$executeRaw`
      update database_epoch set timeline = timeline - 1, longest_ttl_ms = 60000`;

    await one.store.witness.look();
    const before = await checkEpoch(one.store.general, 0);
    await two.store.witness.look();
    const after = await checkEpoch(one.store.general, 0);

    expect(before.holdOffMs).toBeLessThanOrEqual(60_000);
    expect(after.holdOffMs).toBeGreaterThan(2 * HOUR_MS - 10_000);
    expect(after.epoch).toBe(before.epoch);
  });

  test('is held off by a process that kept running when another database is in its place', async () => {
    const kernel = await open();
    await granted(kernel);
    await kernel.store.general.$executeRaw`delete from database_epoch`;
    await kernel.store.general.$executeRaw`delete from database_witness`;

    await kernel.store.witness.look();

    expect(kernel.notices).toMatchObject([{ kind: 'held_off', cause: 'replaced' }]);
    await expect(kernel.leases.grant(aRequest({ name: 'x' }))).rejects.toMatchObject(HELD_OFF);
  });
});

describe('H-restore nothing is held off', () => {
  test('when a controller was killed and starts again', async () => {
    const former = await open();
    await granted(former);
    await former.store.witness.look();
    const remembered = former.home();
    await former.store.close();

    const next = await open({ databaseUrl: former.databaseUrl, remembered });

    expect((await next.leases.grant(aRequest({ name: 'x' }))).outcome).toBe('granted');
    expect(next.notices).toEqual([]);
  });

  test('when two controllers are given one home', async () => {
    const former = await open();
    await granted(former);
    const remembered = former.home();

    const both = await Promise.all(
      [1, 2].map(() => open({ databaseUrl: former.databaseUrl, remembered })),
    );
    for (let round = 0; round < 3; round += 1) {
      await Promise.all([former, ...both].map(({ store }) => store.witness.look()));
    }

    expect([former, ...both].flatMap(({ notices }) => notices)).toEqual([]);
  });

  test('when a process was copied with its memory: it continues with a row of its own', async () => {
    const kernel = await open();
    await granted(kernel);
    await goBack(kernel, 5);

    await kernel.store.witness.look();
    await kernel.store.witness.look();

    expect(kernel.notices).toEqual([{ kind: 'shared_row' }]);
    expect((await kernel.leases.grant(aRequest({ name: 'x' }))).outcome).toBe('granted');
  });

  test('when the answer to a beat was lost, whether the beat was written or not', async () => {
    const { databaseUrl } = await open();
    const { proxy: line, url } = await startUrlProxy(databaseUrl);
    onTestFinished(() => line.close());
    const kernel = await open({ databaseUrl: url });
    await granted(kernel);
    const { beat } = kernel.store.witness.mark;

    for (const direction of ['down', 'up'] as const) {
      const lostBefore = line.lostBytesCount;
      line.drop(direction);
      const looked = kernel.store.witness.look().catch(() => 'lost');
      await waitUntil(() => line.lostBytesCount > lostBefore);
      line.heal();
      expect(await looked).toBe('lost');
      await kernel.store.witness.look();
    }

    expect(kernel.store.witness.mark.beat).toBe(beat + 4);
    expect(kernel.notices).toEqual([]);
  });

  test('when a controller was suspended for so long that its row was removed', async () => {
    const time = await passingTime();
    const kernel = await open({
      databaseUrl: time.databaseUrl,
      clock: time.clock,
      clockWatch: undefined,
    });
    await granted(kernel);

    await time.pass(49 * HOUR_MS);
    await removeOldWitnesses(kernel.store.general, {
      clock: time.clock,
      onFailure: () => undefined,
    });
    const outcome = await kernel.leases.grant(aRequest({ name: 'x' }));

    expect(outcome.outcome).toBe('granted');
    expect(kernel.notices).toEqual([]);
  });

  test('for a stamp of a row that was removed for its age', async () => {
    const kernel = await open();
    await granted(kernel);
    const at = kernel.store.witness.mark.at - 48 * HOUR_MS;

    await kernel.store.witness.consider(await stampOf(kernel, { witnessId: randomUUID(), at }));

    expect(kernel.notices).toEqual([]);
  });

  test('a second time when the database itself has already shown a failover', async () => {
    const one = await open();
    const two = await open({ databaseUrl: one.databaseUrl });
    await granted(one);
    await two.store.witness.look();
    await goBack(one, 0);
    await goBack(two, 0);
    await one.store.general.$executeRaw`update database_epoch set timeline = timeline - 1`;

    for (const { store } of [one, two, one, two]) await store.witness.look();

    expect([...one.notices, ...two.notices]).toMatchObject([{ cause: 'timeline' }]);
  });

  test('because of a home that belongs to another database', async () => {
    const elsewhere = await open();
    await granted(elsewhere);

    const here = await open({ remembered: elsewhere.home() });

    expect((await here.leases.grant(aRequest())).outcome).toBe('granted');
    expect(here.notices).toEqual([{ kind: 'other_database' }]);
  });

  test('because of texts that are not stamps of this database, or are stamps of an earlier epoch', async () => {
    const kernel = await open();
    const elsewhere = await open();
    await granted(kernel);
    await granted(elsewhere);
    const lost = { witnessId: randomUUID(), beat: 1_000_000 };
    const overOf = await stampOf(kernel, lost);
    const { epoch, token } = await epochOf(kernel);
    const loss = { knownEpoch: epoch, longestTtlMs: 0, fencingToken: '0' };
    await beginEpoch(kernel.store.general, { ...loss, cause: 'holder', epochToken: token });
    await kernel.store.general.$executeRaw`update database_epoch set hold_off_until = null`;
    await kernel.store.witness.look();
    const before = await epochOf(kernel);

    const foreign = await stampOf(elsewhere, lost);
    const forged = (await stampOf(kernel)).replace('.1.', '.900.');
    for (const line of ['', 'x', 'a.b.c', 'é'.repeat(600), foreign, forged, overOf]) {
      await kernel.store.witness.consider(line);
    }

    expect(await epochOf(kernel)).toEqual(before);
    expect(kernel.notices).toEqual([]);
    expect((await kernel.leases.grant(aRequest({ name: 'x' }))).outcome).toBe('granted');
  });
});

test('a thousand drones that send back the stamps of one controller cause one query of its row', async () => {
  const one = await open();
  await granted(one);
  const two = await open({ databaseUrl: one.databaseUrl });
  await granted(two, { name: 'y' });
  const stamps = await Promise.all(
    Array.from({ length: 20 }, (_, index) => stampOf(one, { position: `0/${String(index)}` })),
  );

  const asked = await one.store.general.$transaction(async (tx) => {
    await tx.$executeRaw`lock table database_witness in access exclusive mode`;
    const all = Array.from({ length: 1_000 }, (_, index) =>
      two.store.witness.consider(stamps[index % stamps.length]),
    );
    await waitUntil(async () => (await waitingCount(one)) > 0);
    expect(await waitingCount(one)).toBe(1);
    return { all };
  });

  await Promise.all(asked.all);
  expect(two.notices).toEqual([]);
});

async function waitingCount({ store }: Kernel): Promise<number> {
  const rows = await store.reads.$queryRaw<{ count: number }[]>`
    select count(*)::int as count from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`;
  return rows[0]?.count ?? 0;
}
