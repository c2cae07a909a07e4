import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { expect, test } from 'vitest';
import type { Caller } from '../kernel/face-types.ts';
import { OPERATOR } from '../testing/keys-fixture.ts';
import { acquire, acquired, ALIVE, inLine, lineOf, SERVICE } from '../testing/lease-fixture.ts';
import { openOperatedLeases, type OperatedLeases } from '../testing/lease-operations-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';
import { createLeasesTogether } from './acquiring-all.ts';
import type { ContentionView } from './lease-types.ts';

const NAMESPACE = 'orders';
const OF = { namespace: NAMESPACE } as const;

async function waits(on: OperatedLeases, caller: Caller = OPERATOR): Promise<ContentionView[]> {
  return (await on.operations.contention({ limit: 100 }, caller)).items;
}

/** What each holder of a lease waits for itself, by the names of the leases. */
function chainsOf(items: readonly ContentionView[]): Record<string, (string | undefined)[]> {
  return Object.fromEntries(
    items.map(({ name, holders }) => [name, holders.map(({ waitsFor }) => waitsFor?.name)]),
  );
}

test('a holder that waits itself is shown with what it waits for, and those who wait in a circle both are', async () => {
  const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
  await acquired(on, { ...OF, name: 'a', holder: 'ann' });
  await acquired(on, { ...OF, name: 'b', holder: 'bob' });
  await acquired(on, { ...OF, name: 'c', holder: 'cay' });
  await inLine(on, 'ann', { ...OF, name: 'b' });
  await inLine(on, 'bob', { ...OF, name: 'a' });
  await inLine(on, 'dan', { ...OF, name: 'c' });

  const items = await waits(on);

  expect(chainsOf(items)).toEqual({ a: ['b'], b: ['a'], c: [undefined] });
  const [ofB] = items;
  expect(ofB?.holders[0]?.waitsFor).toEqual({
    face: 'lease',
    ...OF,
    name: 'a',
    since: items[1]?.since,
  });
});

test('a holder is not shown to wait with another token, in a namespace that the caller may not see, or for itself alone', async () => {
  const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
  await acquired(on, { ...OF, name: 'a', holder: 'ann' });
  await acquired(on, { namespace: 'hidden', name: 'h', holder: 'hal' });
  await inLine(on, 'bob', { ...OF, name: 'a' });
  await inLine(on, 'ann', { ...OF, name: 'a' });

  expect(chainsOf(await waits(on))).toEqual({ a: [undefined] });
  await inLine(on, 'ann', { namespace: 'hidden', name: 'h' }, ALIVE, {
    ...SERVICE,
    principal: 'token:another',
  });
  expect(chainsOf(await waits(on))).toMatchObject({ a: [undefined] });
  await inLine(on, 'ann', { namespace: 'hidden', name: 'h' });
  await waitUntil(async () => (await lineOf(on, 'h')).length === 2);
  expect(chainsOf(await waits(on))).toMatchObject({ a: ['h'] });
  expect(chainsOf(await waits(on, { ...OPERATOR, namespaces: [NAMESPACE] }))).toEqual({
    a: [undefined],
  });
});

test('those who share a lease are counted, and the first three are named', async () => {
  const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
  for (const [index, holder] of ['r1', 'r2', 'r3', 'r4'].entries()) {
    await acquired(on, {
      ...OF,
      name: 'doc',
      holder,
      mode: 'shared',
      ttlMs: 60_000 + 1_000 * index,
    });
  }
  await inLine(on, 'writer', { ...OF, name: 'doc', mode: 'exclusive' });

  const [waiter] = await waits(on);

  expect(waiter).toMatchObject({
    waiter: 'writer',
    mode: null,
    holderCount: 4,
    permits: null,
  });
  expect(waiter?.holders.map(({ holder, mode }) => `${holder} ${String(mode)}`)).toEqual([
    'r1 shared',
    'r2 shared',
    'r3 shared',
  ]);
});

test('who waits for a permit is shown with how many there are, for each key and for all', async () => {
  const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
  await declarePermits(on, { perKey: 2, total: 3 }, NAMESPACE);
  for (const name of ['x', 'x', 'y']) await acquired(on, { ...OF, name, mode: 'permit' });
  await inLine(on, 'late', { ...OF, name: 'y', mode: 'permit' });

  const [waiter] = await waits(on);

  expect(waiter).toMatchObject({
    mode: 'permit',
    holderCount: 1,
    permits: { perKey: 2, total: 3 },
    totalUsed: 3,
  });
});

test('of who waits because all keys together have no more permits it is told, also why, how many are used', async () => {
  const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
  await declarePermits(on, { perKey: 2, total: 3 }, NAMESPACE);
  for (const name of ['x', 'x', 'y']) await acquired(on, { ...OF, name, mode: 'permit' });
  await inLine(on, 'late', { ...OF, name: 'z', mode: 'permit' });

  const [waiter] = await waits(on);
  const why = await on.operations.why({ ...OF, name: 'z', windowMinutes: 60 }, OPERATOR);

  expect(waiter).toMatchObject({ holders: [], permits: { total: 3 }, totalUsed: 3 });
  expect(why).toMatchObject({ holderCount: 0, total: { used: 3, permits: 3 } });
});

test('a request for several leases is shown in each line with what else it wants', async () => {
  const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
  const names = ['a', 'b', 'c', 'd', 'e'];
  await acquired(on, { ...OF, name: 'e', holder: 'ann' });
  const together = createLeasesTogether({ store: on.store });
  const scopes = names.map((name) => ({ ...OF, name }));
  const asked = { scopes, ttlMs: 60_000, waitMs: 60_000, holder: 'mover', localTimeMs: 0 };
  together
    .acquireAll({ ...asked, idempotencyKey: randomUUID() }, SERVICE, ALIVE)
    .catch(() => undefined);
  await waitUntil(async () => (await lineOf(on, 'e')).includes('mover'));
  void acquire(on, { ...OF, name: 'a', holder: 'single', waitMs: 60_000 }).catch(() => undefined);
  await waitUntil(async () => (await lineOf(on, 'a')).includes('single'));

  const items = await waits(on);

  const wanted = items.map(({ name, waiter, together: others }) => [
    `${waiter} ${name}`,
    others?.count,
    others?.others.map((other) => other.name).join(' '),
  ]);
  expect(wanted).toEqual([
    ['mover a', 4, 'b c d'],
    ['mover b', 4, 'a c d'],
    ['mover c', 4, 'a b d'],
    ['mover d', 4, 'a b c'],
    ['mover e', 4, 'a b c'],
    ['single a', undefined, undefined],
  ]);
});
