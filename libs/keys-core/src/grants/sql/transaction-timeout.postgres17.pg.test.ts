/** From version 17 on, PostgreSQL can bound a transaction as a whole. */
import type pg from 'pg';
import { describe, expect, test } from 'vitest';
import { serviceLadder } from '../../kernel/ladder.ts';
import { openSession } from '../../testing/coordinator-fixture.ts';
import { granted, openKernel } from '../../testing/kernel-fixture.ts';
import { createSlowDatabase } from '../../testing/shifted-clock.ts';
import { fencedTransaction } from '../fenced-transaction.ts';

/** Sends short statements with short pauses between them until the server ends the session. */
async function keepBusy(send: (sql: string) => Promise<unknown>): Promise<never> {
  for (;;) await send('select pg_sleep(0.02)::text');
}

async function transactionTimeoutMs(session: pg.Client): Promise<number> {
  const { rows } = await session.query<{ ms: number }>(
    `select setting::int as ms from pg_settings where name = 'transaction_timeout'`,
  );
  return rows[0]?.ms ?? -1;
}

describe('a transaction under a grant, as a whole', () => {
  test('H-assert one that asserts its lease and never pauses for long is ended with the lease', async () => {
    const kernel = await openKernel({ databaseUrl: await createSlowDatabase() });
    const session = await openSession(kernel);
    const { leaseId, fencingToken } = await granted(kernel, { ladder: serviceLadder(1_000) });
    await session.query('begin');
    await session.query('select leasehold_assert_held($1, $2)', [leaseId, fencingToken]);

    // The session ends in a statement, or between two: then its client is told outside of any.
    const told: unknown[] = [];
    session.on('error', (error) => told.push(error));
    await keepBusy((sql) => session.query(sql)).catch((error: unknown) => told.push(error));

    expect(told).toContainEqual(expect.objectContaining({ code: '25P04' }));
  });

  test('of fenced work has the bound of the work as its limit on the server', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);
    const session = await openSession(kernel);

    const limit = await fencedTransaction(
      kernel.store,
      grant,
      (tx) => tx.$queryRaw<{ ms: number }[]>`
        select setting::int as ms from pg_settings where name = 'transaction_timeout'`,
      { boundMs: 1_500 },
    );

    expect(limit).toEqual([{ ms: 1_500 }]);
    expect(await transactionTimeoutMs(session)).toBe(0);
  });

  test('has a longer limit of the session shortened, and keeps the rest of a shorter one', async () => {
    const kernel = await openKernel();
    const { leaseId, fencingToken } = await granted(kernel);
    const limitWith = async (timeout: string): Promise<number> => {
      const session = await openSession(kernel);
      await session.query(`set transaction_timeout = '${timeout}'`);
      await session.query('begin');
      await session.query('select leasehold_assert_held($1, $2)', [leaseId, fencingToken]);
      return transactionTimeoutMs(session);
    };

    expect(await limitWith('1h')).toBe(10_000);
    const ofShort = await limitWith('5s');
    expect(ofShort).toBeGreaterThan(3_000);
    expect(ofShort).toBeLessThanOrEqual(5_000);
  });
});
