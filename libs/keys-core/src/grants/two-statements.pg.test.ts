import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import type { PoolSql } from '../postgres/pool.ts';
import { statementOf } from '../postgres/sql.ts';
import {
  age,
  aRequest,
  eventsOf,
  granted,
  type Kernel,
  openKernel,
  releaseOf,
} from '../testing/kernel-fixture.ts';
import { createLeaseStore } from './lease-store.ts';

/** What only a statement that grants has in it. */
const IS_GRANT = 'insert into lease as l';

/** A controller of this kernel's database, whose statements that grant are noted. */
interface Watched extends Kernel {
  /** How many statements that grant were sent. */
  readonly sentCount: () => number;
}

/** `beforeFull` is called before the second statement of a batch that grants. */
function watched(kernel: Kernel, beforeFull?: () => Promise<unknown>): Watched {
  const { transitions } = kernel.store;
  let sentCount = 0;
  const $queryRaw: PoolSql<'transitions'>['$queryRaw'] = async (query, ...values) => {
    const statement = statementOf(query, values);
    if (statement.text.includes(IS_GRANT)) {
      sentCount += 1;
      if (sentCount === 2) await beforeFull?.();
    }
    return transitions.$queryRaw(statement);
  };
  const store = { ...kernel.store, transitions: { ...transitions, $queryRaw } };
  return { ...kernel, store, leases: createLeaseStore(store), sentCount: () => sentCount };
}

/** A lease whose time is over, which only the full statement takes over. */
async function aLapsedLease(kernel: Kernel): Promise<void> {
  const { leaseId } = await granted(kernel, { holder: 'former' });
  await age(kernel, leaseId, 120_000);
}

describe('the short statement and the full one', () => {
  test('a resource that is free, again or for the first time, takes one statement', async () => {
    const kernel = await openKernel();
    const one = watched(kernel);
    const first = await granted(one);
    await one.leases.release('lease', releaseOf(first));

    const second = await granted(watched(kernel));

    expect(one.sentCount()).toBe(1);
    expect(second.previous).toEqual({
      leaseId: first.leaseId,
      fencingToken: first.fencingToken,
      end: 'released',
    });
    expect(second.freeMs).toBeGreaterThanOrEqual(0);
  });

  test('a held resource is refused without the full statement', async () => {
    const kernel = await openKernel();
    await granted(kernel);
    const one = watched(kernel);

    expect(await one.leases.grant(aRequest({ holder: 'bob' }))).toMatchObject({ outcome: 'held' });
    expect(one.sentCount()).toBe(1);
  });

  test('one batch: what is free is granted by the one, what has lapsed by the other', async () => {
    const kernel = await openKernel();
    await aLapsedLease(kernel);
    const one = watched(kernel);

    const [free, lapsed] = await Promise.all([granted(one, { name: 'free' }), granted(one)]);

    expect(one.sentCount()).toBe(2);
    expect(free.previous).toBeNull();
    expect(lapsed.previous?.end).toBe('expired');
    expect((await eventsOf(kernel, 'thing')).map((line) => line.split(' ')[0])).toEqual([
      'granted',
      'expired',
      'taken_over',
    ]);
  });

  test('a lease that another controller takes over in between is refused, with its holder', async () => {
    const kernel = await openKernel();
    await aLapsedLease(kernel);
    const other = watched(kernel);
    const one = watched(kernel, () => granted(other, { holder: 'other' }));

    expect(await one.leases.grant(aRequest({ holder: 'late' }))).toMatchObject({
      outcome: 'held',
      by: { holder: 'other' },
    });
  });

  test('a free lease that another controller takes while the short statement runs is not granted again', async () => {
    const kernel = await openKernel();
    await kernel.leases.release('lease', releaseOf(await granted(kernel)));
    const { general } = kernel.store;
    // The first that makes the next token waits: it has chosen the row, and not taken it yet.
    await general.$executeRaw`
      create or replace function lease_next_token(previous bigint)
      returns bigint language plpgsql volatile parallel safe set lock_timeout = 0 as $$
      begin
        if pg_try_advisory_xact_lock(1) then perform pg_advisory_xact_lock(2); end if;
        return coalesce(previous, 0) + 1;
      end $$`;

    const late = await general.$transaction(async (tx) => {
      await tx.$queryRaw`select pg_advisory_xact_lock(2)::text as locked`;
      const asked = kernel.leases.grant(aRequest({ holder: 'late' }));
      await waitUntil(
        async () =>
          (
            await tx.$queryRaw<unknown[]>`
              select 1 as one from pg_locks where locktype = 'advisory' and objid = 2 and not granted`
          ).length > 0,
        { what: 'the statement that makes a token' },
      );
      const other = createLeaseStore(kernel.store);
      expect(await other.grant(aRequest({ holder: 'other' }))).toMatchObject({
        outcome: 'granted',
      });
      return { asked };
    });

    expect(await late.asked).toMatchObject({ outcome: 'held', by: { holder: 'other' } });
    expect((await eventsOf(kernel, 'thing')).map((line) => line.split(' ')[0])).toEqual([
      'granted',
      'released',
      'granted',
    ]);
  });

  test('a waiter that arrives in between is not passed', async () => {
    const kernel = await openKernel();
    await aLapsedLease(kernel);
    const one = watched(
      kernel,
      () => kernel.store.general.$executeRaw`
        insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
        values ('lease', 'test', 'thing', gen_random_uuid(), 'early', 'p', now() + interval '1 minute')`,
    );

    expect(await one.leases.grant(aRequest())).toMatchObject({
      outcome: 'queued',
      head: { waiter: 'early' },
    });
    expect(await eventsOf(kernel, 'thing')).toHaveLength(1);
  });

  test('a late duplicate is not granted, whether it comes after its grant has ended or in between', async () => {
    const kernel = await openKernel();
    const key = { idempotencyKey: randomUUID(), fingerprint: 'f' };
    const ended = await granted(kernel, { name: 'first', ...key });
    await kernel.leases.release('lease', releaseOf(ended));
    await aLapsedLease(kernel);
    const other = { idempotencyKey: randomUUID(), fingerprint: 'f' };
    const one = watched(kernel, () => granted(kernel, { name: 'elsewhere', ...other }));

    expect(await watched(kernel).leases.grant(aRequest({ name: 'first', ...key }))).toEqual({
      outcome: 'recorded',
    });
    expect(await one.leases.grant(aRequest(other))).toEqual({ outcome: 'recorded' });
    expect(await eventsOf(kernel, 'first')).toHaveLength(2);
    expect(await eventsOf(kernel, 'thing')).toHaveLength(1);
  });

  test('what the short statement has granted stays granted when the full one fails', async () => {
    const kernel = await openKernel();
    await aLapsedLease(kernel);
    const one = watched(kernel, () => Promise.reject(new Error('the connection is gone')));

    const [free, lapsed] = await Promise.all([granted(one, { name: 'free' }), granted(one)]);

    expect(await eventsOf(kernel, 'free')).toEqual([`granted ${free.fencingToken}`]);
    expect(lapsed.previous?.end).toBe('expired');
  });
});

test('a release that comes after the time of its lease is not answered by the short statement alone', async () => {
  const kernel = await openKernel();
  const [late, early] = [await granted(kernel), await granted(kernel, { name: 'early' })];
  await age(kernel, late.leaseId, 120_000);

  const outcomes = await Promise.all([
    kernel.leases.release('lease', releaseOf(late)),
    kernel.leases.release('lease', releaseOf(early)),
    kernel.leases.release('lease', releaseOf({ leaseId: randomUUID(), fencingToken: '1' })),
  ]);

  expect(outcomes).toEqual(['expired', 'released', 'not_found']);
  expect(await eventsOf(kernel, 'thing')).toEqual([
    `granted ${late.fencingToken}`,
    `expired ${late.fencingToken}`,
  ]);
});
