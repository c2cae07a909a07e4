import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { grantAllWithin, refusalAtLast } from '../grants/index.ts';
import { aRequest } from '../testing/kernel-fixture.ts';
import {
  acquire,
  acquired,
  codeOf,
  inLine,
  isSomeoneWaiting,
  lineOf,
  openLeases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import { declarePermits, whileOverstayed } from '../testing/pool-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';
import {
  acquireAll,
  allOf,
  inLines,
  NAMESPACE,
  one,
  permit,
  releasedAll,
  shared,
} from '../testing/together-fixture.ts';

test('why one lease alone is refused at last names no list of leases', async () => {
  const { store } = await openLeases();
  const request = aRequest({ mode: 'permit' });

  await expect(refusalAtLast(store, [request], { overstayed: [] })).rejects.toMatchObject({
    code: 'lease.permits_not_declared',
    message: expect.not.stringContaining('scopes') as string,
  });
});

describe('an acquire of several leases, of which others may hold some too', () => {
  test('has each lease in its mode: a permit, a share and one alone, all or none', async () => {
    const at = await openLeases();
    await declarePermits(at, { perKey: 2, total: 3 }, 'exports');
    const wanted = [permit('exports', 'x'), shared('b'), 'a'];

    const first = await allOf(acquireAll(at, wanted));
    const beside = await acquireAll(at, [permit('exports', 'x'), shared('b')]);
    const full = await acquireAll(at, [shared('b'), permit('exports', 'x')]);
    await releasedAll(at, first);
    const afterwards = await acquireAll(at, [permit('exports', 'x'), shared('b'), 'a']);

    expect(beside.outcome).toBe('granted');
    expect(full).toMatchObject({
      outcome: 'held',
      namespace: ['exports'],
      key: 'x',
      pool: { used: 2, permits: 2 },
    });
    expect(afterwards.outcome).toBe('granted');
  });

  test('takes nothing of the other leases if one of them is held, and says which', async () => {
    const at = await openLeases();
    await one(at, 'a', { holder: 'bob' });

    const refused = await acquireAll(at, [shared('b'), 'a']);
    const writer = await acquire(at, { namespace: NAMESPACE, name: 'b' });

    expect(refused).toMatchObject({ outcome: 'held', key: 'a', by: 'bob' });
    expect(writer.outcome).toBe('granted');
  });

  test('is refused while the row of a permit that has run out is locked, and says by whom', async () => {
    const at = await openLeases();
    await declarePermits(at, { perKey: 1 }, 'exports');
    const old = await one(at, '1', { namespace: 'exports', mode: 'permit', holder: 'bob' });

    const refused = await whileOverstayed(at, old, () =>
      acquireAll(at, [permit('exports', '1'), 'a']),
    );

    expect(refused).toMatchObject({ outcome: 'held', key: '1', by: 'bob' });
  });

  test('opens a pool whose declaration is being changed when that is done', async () => {
    const at = await openLeases();
    await declarePermits(at, { perKey: 1 }, 'exports');

    const asked = await at.store.general.$transaction(async (tx) => {
      await tx.$queryRaw`select namespace from lease_declaration where namespace = 'exports' for update`;
      let isAnswered = false;
      const answer = acquireAll(at, [permit('exports', '1'), 'a']).finally(() => {
        isAnswered = true;
      });
      await waitUntil(async () => isAnswered || (await isSomeoneWaiting(at)));
      return { answer };
    });

    expect((await asked.answer).outcome).toBe('granted');
  });

  test('without a mode it takes permits, and shared leases alone', async () => {
    const at = await openLeases();
    await declarePermits(at, { perKey: 2 }, 'exports');
    await released(at, await one(at, 'b', { mode: 'shared' }));
    const export1 = { namespace: 'exports', name: '1' };

    await allOf(acquireAll(at, [export1, 'b']));
    const sharing = await acquire(at, { namespace: NAMESPACE, name: 'b', mode: 'shared' });
    const second = await acquire(at, { ...export1, mode: 'permit' });
    const third = await acquire(at, { ...export1, mode: 'permit' });

    expect([sharing.outcome, second.outcome, third.outcome]).toEqual(['held', 'granted', 'held']);
  });

  test('waits in the lines of pools with others, and is granted in its turn', async () => {
    const at = await openLeases({ databaseUrl: await createSlowDatabase() });
    await declarePermits(at, { perKey: 1 }, 'exports');
    const x = { namespace: 'exports', name: 'x' };
    const held = await acquired(at, { ...x, mode: 'permit', holder: 'bob' });
    const reader = await one(at, 'b', { mode: 'shared', holder: 'reader' });
    const waiting = await inLines(at, [permit('exports', 'x'), 'b'], { holder: 'alice' });
    const next = await inLine(at, 'next', { ...x, mode: 'permit' });

    await released(at, held);
    const late = await acquire(at, { namespace: NAMESPACE, name: 'b', mode: 'shared' });
    await released(at, reader);
    const leases = await allOf(waiting.answer);
    await releasedAll(at, leases);

    expect(late.outcome).toBe('held');
    expect((await next.answer).outcome).toBe('granted');
    expect([await lineOf(at, 'x'), await lineOf(at, 'b')]).toEqual([[], []]);
  });

  test('goes on waiting when the holder of a lease begins to share it', async () => {
    const at = await openLeases({ databaseUrl: await createSlowDatabase() });
    const lease = await one(at, 'b', { holder: 'bob' });
    const waiting = await inLines(at, ['a', 'b'], { holder: 'alice' });

    await at.service.downgrade(lease, SERVICE);
    const reader = await acquire(at, { namespace: NAMESPACE, name: 'b', mode: 'shared' });
    await released(at, lease);

    expect(reader.outcome).toBe('held');
    await expect(waiting.answer).resolves.toMatchObject({ outcome: 'granted' });
  });

  test('that is repeated gets the same leases of pools, and after it was cancelled none', async () => {
    const at = await openLeases();
    await declarePermits(at, { perKey: 3 }, 'exports');
    const idempotencyKey = randomUUID();
    const wanted = [permit('exports', 'x'), 'a', shared('b')];

    const first = await allOf(acquireAll(at, wanted, { idempotencyKey }));
    const again = await allOf(acquireAll(at, wanted, { idempotencyKey }));
    const cancelled = await at.service.cancel({ idempotencyKey }, SERVICE);
    const other = await codeOf(
      acquireAll(at, [permit('exports', 'x'), 'a', 'b'], { idempotencyKey }),
    );

    expect(again.map(({ leaseId }) => leaseId)).toEqual(first.map(({ leaseId }) => leaseId));
    expect(again.map(({ key }) => key)).toEqual(['x', 'a', 'b']);
    expect(cancelled).toBe('released');
    expect(other).toBe('request.idempotency_reused');
    expect((await acquireAll(at, ['a', 'b'])).outcome).toBe('granted');
  });

  test('in a mode that one of the leases does not have is refused with its place, and takes nothing', async () => {
    const at = await openLeases();
    await declarePermits(at, { perKey: 2 }, 'exports');

    const asked = acquireAll(at, ['a', { namespace: 'exports', name: 'x', mode: 'shared' }]);

    await expect(asked).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field: 'scopes[1].mode' },
    });
    expect((await acquire(at, { namespace: NAMESPACE, name: 'a' })).outcome).toBe('granted');
  });
});

describe('an acquire of more permits than a namespace has together', () => {
  const tooMany = {
    code: 'request.invalid',
    message: expect.stringContaining('at most 2 of the leases exports') as string,
    details: { field: 'scopes', total: 2 },
  };
  const three = ['x', 'y', 'z'].map((name) => permit('exports', name));

  test('is refused with their number, also if it would wait, and takes no place in line', async () => {
    const at = await openLeases();
    await declarePermits(at, { perKey: 1, total: 2 }, 'exports');

    await expect(acquireAll(at, three)).rejects.toMatchObject(tooMany);
    const waiting = acquireAll(at, ['a', ...three], { waitMs: 60_000 });
    await expect(waiting).rejects.toMatchObject(tooMany);
    expect(await lineOf(at, 'x')).toEqual([]);
    expect((await acquireAll(at, three.slice(1))).outcome).toBe('granted');
  });

  test('is refused also without a mode, and while one of the leases is held from before they were declared', async () => {
    const at = await openLeases();
    await acquired(at, { namespace: 'exports', name: 'x' });
    await declarePermits(at, { perKey: 1, total: 2 }, 'exports');

    const asked = acquireAll(
      at,
      three.map(({ namespace, name }) => ({ namespace, name })),
      { waitMs: 60_000 },
    );

    await expect(asked).rejects.toMatchObject(tooMany);
  });

  test('is refused while it waits if there are fewer then, and keeps nobody back any more', async () => {
    const at = await openLeases();
    await declarePermits(at, { perKey: 1, total: 3 }, 'exports');
    await one(at, 'a', { holder: 'bob' });
    const waiting = await inLines(at, [...three, 'a'], { holder: 'alice' });
    const idempotencyKey = randomUUID();
    const repeated = await inLines(at, [...three, 'a'], { holder: 'carol', idempotencyKey });

    await declarePermits(at, { perKey: 1, total: 2 }, 'exports');

    await expect(waiting.answer).rejects.toMatchObject(tooMany);
    await expect(repeated.answer).rejects.toMatchObject(tooMany);
    const again = acquireAll(at, [...three, 'a'], { holder: 'carol', idempotencyKey });
    await expect(again).rejects.toMatchObject(tooMany);
    expect(await lineOf(at, 'x')).toEqual([]);
    expect((await acquireAll(at, three.slice(1))).outcome).toBe('granted');
  });

  test('in a transaction of a caller is refused, too', async () => {
    const at = await openLeases();
    await declarePermits(at, { perKey: 1, total: 2 }, 'exports');
    const [first, ...others] = three.map((scope) => aRequest(scope));

    const asked = at.store.guests.$transaction(async (tx) =>
      first === undefined ? undefined : grantAllWithin(at.store, tx, [first, ...others]),
    );

    await expect(asked).rejects.toMatchObject(tooMany);
  });
});

test('a permit that only those keep back who wait for other keys is refused with the first of them', async () => {
  const at = await openLeases({ databaseUrl: await createSlowDatabase() });
  await declarePermits(at, { perKey: 1, total: 1 }, 'exports');
  const held = await one(at, 'a', { holder: 'bob' });
  const waiting = await inLines(at, [permit('exports', 'x'), 'a'], { holder: 'alice' });

  const alone = await acquire(at, { namespace: 'exports', name: 'y', mode: 'permit' });
  const together = await acquireAll(at, [permit('exports', 'y'), 'b'], { holder: 'carol' });
  const behind = await inLine(at, 'dan', { namespace: 'exports', name: 'y', mode: 'permit' });
  await released(at, held);
  await releasedAll(at, await allOf(waiting.answer));

  expect(alone).toMatchObject({ outcome: 'held', by: 'alice', remainingMs: 0, waiters: 1 });
  expect(together).toMatchObject({ outcome: 'held', key: 'y', by: 'alice' });
  expect((await behind.answer).outcome).toBe('granted');
});
