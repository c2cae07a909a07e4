import { expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { listEvents } from '../events/index.ts';
import { SILENT_OBSERVER } from '../postgres/kernel-store.ts';
import { fillDatabase } from '../testing/explaining.ts';
import {
  age,
  granted,
  MACHINE_CLOCK,
  openKernel,
  releaseOf,
  renewalOf,
} from '../testing/kernel-fixture.ts';
import { removeOldRefusals } from './sql/refusals.ts';
import { readSeries } from './sql/stats-buckets.ts';
import { createStatsCounter } from './index.ts';
import { numbersOf } from './histogram.ts';

async function openCounted() {
  const stats = createStatsCounter();
  let aheadMs = 0;
  const clock = { ...MACHINE_CLOCK, nowMs: () => MACHINE_CLOCK.nowMs() + aheadMs };
  const kernel = await openKernel({ observer: stats.observing(SILENT_OBSERVER), clock });
  const { general } = kernel.store;
  const flush = (options = {}): Promise<void> => stats.flush(kernel.store, options);
  const list = async (input = {}) =>
    (await listEvents(general, { kinds: ['renewal_refused'], limit: 100, ...input }, null)).items;
  const counted = async (): Promise<number> =>
    numbersOf((await readSeries(general, { stepMs: 60_000, stepCount: 5 })).steps).refusedRenewals;
  return { kernel, flush, list, counted, goOn: (ms: number) => (aheadMs += ms) };
}

const countOf = (event: { detail: unknown } | undefined): unknown =>
  (event?.detail as { count?: unknown } | undefined)?.count;

test('each refusal is listed with who, which grant, its token, why and when it had ended', async () => {
  const { kernel, flush, list, counted } = await openCounted();
  const late = await granted(kernel, { name: 'late' });
  const gone = await granted(kernel, { name: 'gone', holder: 'bob', actor: 'bob' });
  await age(kernel, late.leaseId, 63_000);
  await kernel.leases.release('lease', releaseOf(gone));
  const next = await granted(kernel, { name: 'gone', holder: 'carl' });

  await kernel.leases.renewAll('lease', [
    renewalOf(late),
    renewalOf(gone),
    renewalOf({ leaseId: '00000000-0000-4000-8000-000000000000', fencingToken: '1' }),
    renewalOf(next),
  ]);
  await flush();

  const events = await list({ direction: 'asc' });
  const lateEvent = events.find(({ name }) => name === 'late');
  expect(events).toHaveLength(2);
  expect(lateEvent).toMatchObject({
    leaseId: late.leaseId,
    fencingToken: late.fencingToken,
    reason: 'expired',
    kind: 'renewal_refused',
    actor: 'alice',
    detail: { holder: 'alice', count: 1 },
  });
  const { endedAt } = lateEvent?.detail as { endedAt: string };
  expect((lateEvent?.at ?? 0) - Date.parse(endedAt)).toBeGreaterThanOrEqual(3_000 - 1);
  expect(events.find(({ name }) => name === 'gone')).toMatchObject({
    actor: 'bob',
    fencingToken: gone.fencingToken,
    reason: 'released',
    detail: { holder: 'bob', nextHolder: 'carl', nextToken: next.fencingToken },
  });
  expect(await counted()).toBe(2);
});

test('a holder that goes on asking makes one row a minute, and the numbers of the rows are those counted', async () => {
  const { kernel, flush, list, counted, goOn } = await openCounted();
  const grant = await granted(kernel);
  await age(kernel, grant.leaseId, 61_000);
  const ask = async (times: number): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      await kernel.leases.renew('lease', renewalOf(grant, { fencingToken: grant.fencingToken }));
      await flush();
    }
  };

  await ask(4);
  expect((await list()).map(countOf)).toEqual([1]);
  goOn(61_000);
  await flush();
  expect((await list()).map(countOf).sort()).toEqual([1, 3]);
  await ask(2);
  await flush({ isLast: true });

  const numbers = (await list()).map(countOf) as number[];
  expect(numbers).toHaveLength(3);
  expect(numbers.reduce((sum, one) => sum + one, 0)).toBe(6);
  expect(await counted()).toBe(6);
});

test('what could not be written is written the next time, once', async () => {
  const { kernel, flush, list, counted } = await openCounted();
  const grant = await granted(kernel);
  await age(kernel, grant.leaseId, 61_000);
  await kernel.leases.renew('lease', renewalOf(grant));
  await kernel.store.general.$executeRaw`alter table stats_bucket rename to away`;

  await expect(flush()).rejects.toThrow();
  expect(await list()).toEqual([]);
  await kernel.store.general.$executeRaw`alter table away rename to stats_bucket`;
  await flush();
  await flush();

  expect((await list()).map(countOf)).toEqual([1]);
  expect(await counted()).toBe(1);
});

test('a reader that names no kinds does not get it, and its place goes when events are old', async () => {
  const { kernel, flush, list } = await openCounted();
  const grant = await granted(kernel);
  await age(kernel, grant.leaseId, 61_000);
  await kernel.leases.renew('lease', renewalOf(grant));
  await flush();
  const pass = {
    clock: kernel.store.clock,
    onFailure: (_: string, error: unknown) => expect.fail(String(error)),
  };

  expect((await list({ kinds: undefined })).map(({ kind }) => kind)).toEqual([
    'expired',
    'granted',
  ]);
  expect(await list({ windowMinutes: 5, leaseId: grant.leaseId })).toHaveLength(1);
  expect(await removeOldRefusals(kernel.store.general, pass, 1)).toBe(0);
  await kernel.store.general.$executeRaw`update refused_renewal set at = at - interval '2 days'`;
  expect(await removeOldRefusals(kernel.store.general, pass, 1)).toBe(1);
});

test('refused renewals are found among many events by their places', async () => {
  const { url } = await createTestDatabase();
  const { planOf, close } = await fillDatabase(
    url,
    `insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor)
     select 'lease', 'n', 'r', gen_random_uuid(), i, case when i % 20 = 0 then 'renewal_refused' else 'granted' end, 'a'
     from generate_series(1, 200000) i;
     insert into refused_renewal select at, id from lease_event where kind = 'renewal_refused'`,
  );
  const plan = await planOf((sql) =>
    listEvents(
      // The bounds are read first; an explained statement answers no rows.
      {
        $queryRaw: async (strings: TemplateStringsArray, ...values: unknown[]) => {
          const rows: unknown[] = await sql.$queryRaw(strings, ...values);
          return rows.length > 0
            ? rows
            : [
                {
                  epoch: 1,
                  lastId: '1',
                  removedThroughId: '0',
                  oldestId: '1',
                  countedThroughId: '0',
                },
              ];
        },
      } as never,
      { kinds: ['renewal_refused'], limit: 100 },
      null,
    ),
  );
  await close();

  expect(plan).toContain('refused_renewal_pkey');
  expect(plan).toContain('lease_event_pkey');
  expect(plan).not.toMatch(/Seq Scan on (?:lease_event|refused_renewal)\b/u);
});
