import { expect, test } from 'vitest';
import {
  granted,
  MACHINE_CLOCK,
  openFreshKernel,
  openKernel,
} from '../../testing/kernel-fixture.ts';
import {
  listRefusals,
  recordRefusedRenewals,
  type Refusal,
  type RefusalListInput,
  Refusals,
  removeRefusals,
} from './refusals.ts';

const REFUSAL: Refusal = {
  face: 'key',
  namespace: 'a',
  name: 'x',
  code: 'spawn.no_drone',
  principal: 't1',
  actor: 'web',
  holder: null,
  reason: 'No drone offers "room".',
};

async function open() {
  const { store } = await openKernel();
  let aheadMs = 0;
  const refusals = new Refusals({ nowMs: () => MACHINE_CLOCK.nowMs() + aheadMs });
  const list = (input: Partial<RefusalListInput> = {}, limits: string[] | null = null) =>
    listRefusals(store, { limit: 100, ...input }, limits);
  const note = (change: Partial<Refusal> = {}): void => refusals.note({ ...REFUSAL, ...change });
  const flush = (): Promise<void> => refusals.flush(store);
  return { store, note, flush, list, pass: (ms: number) => (aheadMs += ms) };
}

test('refusals of one resource with one code are counted, with the caller and the reason of the last one', async () => {
  const { note, flush, list, pass } = await open();
  note();
  pass(2_000);
  note({ actor: 'cron', reason: 'No drone is ready.' });
  note({ code: 'key.tag_mismatch' });
  await flush();
  note({ actor: 'web' });
  await flush();

  const { items } = await list();

  const counts = Object.fromEntries(items.map((one) => [one.code, one.count]));
  expect(counts).toEqual({ 'spawn.no_drone': 3, 'key.tag_mismatch': 1 });
  const counted = items.find(({ code }) => code === 'spawn.no_drone');
  expect(counted).toMatchObject({ actor: 'web', reason: REFUSAL.reason, datacenter: 'local' });
  const { firstAt = '', lastAt = '' } = counted ?? {};
  expect(Date.parse(lastAt) - Date.parse(firstAt)).toBeGreaterThanOrEqual(1_999);
});

test('are listed by resource, code and time, page by page, and each reader sees its namespaces', async () => {
  const { store, note, flush, list } = await open();
  note();
  note({ namespace: 'a.b', face: 'lease', code: 'held', holder: 'alice' });
  note({ namespace: 'ab' });
  await flush();
  await store.general.$executeRaw`
    update refusal set last_at = last_at - interval '2 hours', hour_at = hour_at - interval '2 hours'
    where namespace = 'ab'`;
  const names = async (...asked: Parameters<typeof list>) =>
    (await list(...asked)).items.map(({ namespace }) => namespace).sort();

  expect(await names()).toEqual(['a', 'a.b', 'ab']);
  expect(await names({ namespace: 'a' })).toEqual(['a', 'a.b']);
  expect(await names({ namespace: 'a', name: 'x' })).toEqual(['a']);
  expect(await names({ face: 'lease' })).toEqual(['a.b']);
  expect(await names({ code: 'held' })).toEqual(['a.b']);
  expect(await names({ windowMinutes: 60 })).toEqual(['a', 'a.b']);
  expect(await names({}, ['a'])).toEqual(['a', 'a.b']);
  expect(await names({}, [])).toEqual([]);
  const paged: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await list({ limit: 1, cursor });
    paged.push(...page.items.map(({ namespace }) => namespace));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  expect(paged.sort()).toEqual(['a', 'a.b', 'ab']);
  await expect(list({ cursor: 'x' })).rejects.toMatchObject({ code: 'request.invalid' });
});

test('one caller cannot fill the table, nor push out the refusals of others', async () => {
  const { note, flush, list, pass } = await open();
  for (let i = 0; i < 3_000; i += 1) note({ name: `n${String(i)}` });
  note({ principal: 't2', name: 'other' });
  note({ name: 'n0' });
  await flush();
  const count = async () => {
    const { items } = await list({ limit: 1_000 });
    return items.length;
  };

  expect(await count()).toBe(501);
  expect((await list({ name: 'n0' })).items).toMatchObject([{ count: 2 }]);
  expect((await list({ name: 'other' })).items).toHaveLength(1);
  pass(3_600_000);
  note({ name: 'n2999' });
  await flush();
  expect(await count()).toBe(502);
});

test('many callers together leave each other some room', async () => {
  const { note, flush, list } = await open();
  for (let i = 0; i < 2_500; i += 1) {
    note({ principal: `t${String(i % 5)}`, name: `n${String(i)}` });
  }
  for (let i = 0; i < 100; i += 1) {
    note({ principal: 'late', namespace: 'b', name: `n${String(i)}` });
  }
  await flush();

  expect((await list({ limit: 1_000, namespace: 'b' })).items).toHaveLength(20);
});

test('what could not be written is written the next time', async () => {
  const { store, note, flush, list } = await open();
  note();
  await store.general.$executeRaw`alter table refusal rename to away`;
  await expect(flush()).rejects.toThrow();
  await store.general.$executeRaw`alter table away rename to refusal`;
  note();
  await flush();

  expect((await list()).items).toMatchObject([{ count: 2 }]);
});

test('are removed after a week', async () => {
  const { store, note, flush, list } = await open();
  note();
  note({ name: 'old' });
  await flush();
  await store.general.$executeRaw`
    update refusal set hour_at = hour_at - interval '8 days' where name = 'old'`;
  const failures: unknown[] = [];

  await removeRefusals(store.general, {
    clock: MACHINE_CLOCK,
    onFailure: (_kind, error) => failures.push(error),
  });

  expect(failures).toEqual([]);
  expect((await list()).items.map(({ name }) => name)).toEqual(['x']);
});

test('C59 the event of a refused renewal gets its number after its transaction has an id', async () => {
  const kernel = await openFreshKernel();
  const { leaseId, fencingToken } = await granted(kernel);
  const { general } = kernel.store;
  // It runs when the number is given, and before the row is written.
  await general.$executeRaw`
    create function assert_transaction_id() returns trigger language plpgsql as $$
      begin
        assert pg_current_xact_id_if_assigned() is not null;
        return new;
      end
    $$`;
  await general.$executeRaw`
    create trigger assert_transaction_id before insert on lease_event
    for each row execute function assert_transaction_id()`;
  const at = { firstAgeMs: 0, lastAgeMs: 0 };
  const row = { face: 'lease', leaseId, fencingToken, principal: 'x', count: 1, ...at } as const;

  await recordRefusedRenewals(general, [{ ...row, reason: 'expired' }]);

  const events = await general.$queryRaw<unknown[]>`
    select 1 from lease_event where kind = 'renewal_refused'`;
  expect(events).toHaveLength(1);
});
