import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createTestDatabase, waitUntil } from '@leasehold/testing';
import { compareFencingTokens, type Grant, type GrantRequest } from '../kernel/lease.ts';
import { readLeases } from '../postgres/sql.ts';
import { aBackend } from '../testing/fleet-fixture.ts';
import {
  age,
  aGuard,
  aRequest,
  granted,
  type Kernel,
  openKernel,
  releaseOf,
} from '../testing/kernel-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { makeClockShiftable } from '../testing/shifted-clock.ts';
import { createFreeRowRemover } from './index.ts';
import { grantWithin } from './pooling.ts';
import { grant as grantStatement } from './sql/grant.ts';
import { joinLine } from './sql/line.ts';

const DAY_MS = 24 * 3_600_000;

/** A resource whose row ended two days ago, with a token of that time. */
async function longFree(kernel: Kernel, change: Partial<GrantRequest> = {}): Promise<Grant> {
  const grant = await granted(kernel, change);
  const { face } = aRequest(change);
  await kernel.leases.release(face, releaseOf(grant));
  await age(kernel, grant.leaseId, 2 * DAY_MS);
  const token = String(BigInt(grant.fencingToken) - BigInt(2 * DAY_MS));
  await kernel.store.general
    .$executeRaw`update lease set fencing_token = ${token}::bigint where lease_id = ${grant.leaseId}::uuid`;
  return { ...grant, fencingToken: token };
}

/** Lets so many days pass for all rows, and for their tokens. */
async function letPass({ store }: Kernel, days: number): Promise<void> {
  const ms = days * DAY_MS;
  await store.general.$executeRaw`
    update lease set
      fencing_token = fencing_token - ${ms}::bigint,
      granted_at = granted_at - ${ms}::float8 * interval '1 millisecond',
      renewed_at = renewed_at - ${ms}::float8 * interval '1 millisecond',
      expires_at = expires_at - ${ms}::float8 * interval '1 millisecond',
      released_at = released_at - ${ms}::float8 * interval '1 millisecond'`;
}

async function namesLeft({ store }: Kernel): Promise<string[]> {
  const rows = await store.general.$queryRaw<{ name: string }[]>`
    select name from lease order by name`;
  return rows.map(({ name }) => name);
}

function expectGrowing(grants: readonly { readonly fencingToken: string }[]): void {
  const tokens = grants.map((grant) => grant.fencingToken);
  expect(tokens).toEqual([...tokens].sort(compareFencingTokens));
  expect(new Set(tokens).size).toBe(tokens.length);
}

test('rows that ended more than a day ago are deleted, and the next token is larger', async () => {
  const kernel = await openKernel();
  const old = await longFree(kernel, { name: 'old' });
  await kernel.leases.release('lease', releaseOf(await granted(kernel, { name: 'recent' })));
  await granted(kernel, { name: 'held' });

  const deletedCount = await createFreeRowRemover(kernel.store).runOnce();

  expect(deletedCount).toBe(1);
  expect(await namesLeft(kernel)).toEqual(['held', 'recent']);
  expectGrowing([old, await granted(kernel, { name: 'old' })]);
});

test('an environment is known for more than a week after its last release', async () => {
  const kernel = await openKernel();
  const grant = await granted(kernel, { face: 'environment', name: 'prod' });
  await kernel.leases.release('environment', releaseOf(grant));

  await letPass(kernel, 2);
  await createFreeRowRemover(kernel.store).runOnce();
  const known = await namesLeft(kernel);
  await letPass(kernel, 5);
  await createFreeRowRemover(kernel.store).runOnce();
  const afterAWeek = await namesLeft(kernel);
  await letPass(kernel, 2);
  await createFreeRowRemover(kernel.store).runOnce();

  expect(known).toEqual(['prod']);
  expect(afterAWeek).toEqual(['prod']);
  expect(await namesLeft(kernel)).toEqual([]);
});

test('C60 tokens grow when the clock went 30 days ahead and came back before the row was deleted', async () => {
  const { url } = await createTestDatabase();
  const shift = await makeClockShiftable(url);
  const kernel = await openKernel({ databaseUrl: url });
  const before = await granted(kernel);
  await kernel.leases.release('lease', releaseOf(before));

  await shift(30 * DAY_MS);
  const ahead = await granted(kernel);
  await kernel.leases.release('lease', releaseOf(ahead));
  await shift(0);
  await age(kernel, ahead.leaseId, 32 * DAY_MS);
  const deletedCount = await createFreeRowRemover(kernel.store).runOnce();
  const after = await granted(kernel);

  expect(deletedCount).toBe(0);
  expectGrowing([before, ahead, after]);
});

test('C60 tokens grow when the row was deleted while the clock was 30 days ahead, and it came back then', async () => {
  const { url } = await createTestDatabase();
  const shift = await makeClockShiftable(url);
  const kernel = await openKernel({ databaseUrl: url });
  await shift(30 * DAY_MS);
  const ahead = await granted(kernel);
  await kernel.leases.release('lease', releaseOf(ahead));

  await shift(32 * DAY_MS);
  const deletedCount = await createFreeRowRemover(kernel.store).runOnce();
  await shift(0);
  const back = await granted(kernel);
  const other = await granted(kernel, { name: 'never held before' });

  expect(deletedCount).toBe(1);
  expectGrowing([ahead, back]);
  expectGrowing([ahead, other]);
});

test('C61 the sealed row of a key that moved to another datacenter is kept', async () => {
  const kernel = await openKernel();
  await longFree(kernel, { face: 'key', name: 'moved' });
  await longFree(kernel, { face: 'key', name: 'at home' });
  await kernel.store.general.$executeRaw`
    update lease set home_reservation = case name when 'moved' then 'dc2.' else 'local.' end || ${randomUUID()}`;

  await createFreeRowRemover(kernel.store).runOnce();

  expect(await namesLeft(kernel)).toEqual(['moved']);
});

test('rows that a callback, a waiter or a living backend refers to are kept', async () => {
  const kernel = await openKernel();
  const owed = await longFree(kernel, { name: 'owes a callback' });
  await kernel.store.general.$executeRaw`
    insert into lease_reap (lease_id, face, namespace, name, fencing_token)
    values (${owed.leaseId}::uuid, 'lease', 'test', 'owes a callback', 1)`;
  await longFree(kernel, { name: 'waited for' });
  await joinLine(kernel.store.general, [
    {
      face: 'lease',
      namespace: 'test',
      name: 'waited for',
      ticketId: randomUUID(),
      waiter: 'bob',
      principal: 'token-b',
      idempotencyKey: 'k',
    },
  ]);
  const lives = await longFree(kernel, { face: 'key', name: 'lives' });
  await aBackend(kernel.store.general, { droneId: 'd1', leaseId: lives.leaseId });
  const over = await longFree(kernel, { face: 'key', name: 'over' });
  await aBackend(kernel.store.general, {
    droneId: 'd1',
    leaseId: over.leaseId,
    status: 'terminated' as const,
  });

  await createFreeRowRemover(kernel.store).runOnce();

  expect(await namesLeft(kernel)).toEqual(['lives', 'owes a callback', 'waited for']);
});

test('a row that is being granted is skipped', async () => {
  const kernel = await openKernel();
  await longFree(kernel);

  const deletedCount = await kernel.store.general.$transaction(async (tx) => {
    await tx.$queryRaw`select name from lease for update`;
    return createFreeRowRemover(kernel.store).runOnce();
  });

  expect(deletedCount).toBe(0);
});

test('a grant that meets the deletion of its row waits for it, and its token is larger', async () => {
  const kernel = await openKernel();
  const old = await longFree(kernel);

  const outcome = await kernel.store.general.$transaction(async (tx) => {
    await createFreeRowRemover({
      ...kernel.store,
      general: tx as typeof kernel.store.general,
    }).runOnce();
    const asked = kernel.leases.grant(aRequest());
    await waitUntil(() => isSomebodyWaiting(kernel), { what: 'the grant to wait for the row' });
    return { asked };
  });

  const answer = await outcome.asked;
  expect(answer.outcome).toBe('granted');
  if (answer.outcome === 'granted') expectGrowing([old, answer.grant]);
});

test('a grant whose snapshot still has the row inserts nothing once the row is gone', async () => {
  const kernel = await openKernel();
  await longFree(kernel);
  const request = aRequest();
  const guard = await aGuard(kernel.store);

  const granting = await kernel.store.general.$transaction(async (tx) => {
    await createFreeRowRemover({
      ...kernel.store,
      general: tx as typeof kernel.store.general,
    }).runOnce();
    const asked = grantStatement(kernel.store.slowLane, [request], { guard, onLocked: 'wait' });
    await waitUntil(() => isSomebodyWaiting(kernel), { what: 'the grant to wait for the row' });
    return { asked };
  });

  expect((await granting.asked).grants).toEqual(new Map());
  expect(await readLeases(kernel.store.general, [request])).toEqual([undefined]);
});

test('many controllers at once delete each row only once', async () => {
  const kernel = await openKernel();
  for (let index = 0; index < 20; index += 1) {
    await longFree(kernel, { name: `row ${String(index)}` });
  }

  const counts = await Promise.all(
    Array.from({ length: 4 }, () => createFreeRowRemover(kernel.store).runOnce()),
  );

  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(20);
});

async function isSomebodyWaiting({ store }: Kernel): Promise<boolean> {
  const rows = await store.renewals.$queryRaw<{ waiting: boolean }[]>`
    select exists (
      select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
    ) as waiting`;
  return rows[0]?.waiting === true;
}

describe('the rows of a pool', () => {
  test.each([
    ['permits of each key', { perKey: 2 }, 'permit'],
    ['permits with a total', { perKey: 2, total: 3 }, 'permit'],
    ['a lease that is shared', undefined, 'shared'],
  ] as const)(
    'of %s go when nobody has held it for days, and the next token is larger',
    async (_of, permits, mode) => {
      const kernel = await openKernel();
      if (permits !== undefined) await declarePermits(kernel, permits);
      const grants = [await granted(kernel, { mode }), await granted(kernel, { mode })];
      for (const grant of grants) await kernel.leases.release('lease', releaseOf(grant));
      const remover = createFreeRowRemover(kernel.store);

      const atOnce = await remover.runOnce();
      await letPass(kernel, 2);
      // The slots go first, and the own rows once they are gone.
      const later = [await remover.runOnce(), await remover.runOnce(), await remover.runOnce()];
      const left = await namesLeft(kernel);
      const next = await granted(kernel, { mode });

      expect(atOnce).toBe(0);
      expect(later.at(-1)).toBe(0);
      expect(left).toEqual([]);
      const tokens = aged(grants, 2);
      expectGrowing([...tokens, next]);
      const [floor] = await kernel.store.general.$queryRaw<{ floor: string }[]>`
      select floor::text from lease_token_floor`;
      expect(BigInt(floor?.floor ?? 0) >= BigInt(tokens.at(-1)?.fencingToken ?? 0)).toBe(true);
    },
  );

  test('stay while one holds a permit, of its key and of all keys together', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2, total: 3 });
    const held = await granted(kernel, { mode: 'permit', name: 'held' });
    const left = await granted(kernel, { mode: 'permit', name: 'left' });
    await kernel.leases.release('lease', releaseOf(left));
    const remover = createFreeRowRemover(kernel.store);

    await letPass(kernel, 2);
    await kernel.store.general.$executeRaw`
      update lease set expires_at = clock_timestamp() + interval '1 hour' where lease_id = ${held.leaseId}::uuid`;
    await remover.runOnce();
    await remover.runOnce();

    expect(await namesLeft(kernel)).toEqual(['\u001F', '\u001F1', 'held']);
  });

  test('stay while a transaction grants a permit of the total, and its key goes on above it', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2, total: 3 });
    const remover = createFreeRowRemover(kernel.store);
    await kernel.leases.release('lease', releaseOf(await granted(kernel, { mode: 'permit' })));
    await letPass(kernel, 2);
    // Of the key, its own row alone is left.
    await remover.runOnce();
    const request = aRequest({ mode: 'permit' });

    const made = await kernel.store.guests.$transaction(async (tx) => {
      const outcome = await grantWithin(kernel.store, tx, request);
      await remover.runOnce();
      return outcome;
    });
    const left = await namesLeft(kernel);
    await remover.runOnce();

    expect(made?.outcome).toBe('granted');
    expect(left).toContain(request.name);
    expect(await namesLeft(kernel)).toEqual(left);
  });

  test('a permit of the total is not granted on the own row of a key that is being deleted', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2, total: 3 });
    const { name } = aRequest();
    const old = await granted(kernel, { mode: 'permit' });

    const { asked } = await kernel.store.general.$transaction(async (tx) => {
      await tx.$executeRaw`delete from lease where name = ${name}`;
      const asked = kernel.leases.grant(aRequest({ mode: 'permit' }));
      await waitUntil(() => isSomebodyWaiting(kernel), { what: 'the grant to wait for the row' });
      return { asked };
    });

    const answer = await asked;
    expect(answer.outcome).toBe('granted');
    if (answer.outcome === 'granted') expectGrowing([old, answer.grant]);
    expect(await namesLeft(kernel)).toContain(name);
  });
});

/** The same with the tokens that they have after so many days. */
function aged(grants: readonly Grant[], days: number): Grant[] {
  return grants.map((grant) => ({
    ...grant,
    fencingToken: String(BigInt(grant.fencingToken) - BigInt(days * DAY_MS)),
  }));
}
