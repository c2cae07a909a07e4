import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { copyTemplate, startTestCluster, waitUntil } from '@leasehold/testing/stack';
import { granted, openKernel, renewalOf } from '../testing/kernel-fixture.ts';

const GRANTS = 200;
const ROUNDS = 4;
/** Each call renews one row of so many, as holders do: some on every page, and all in turn. */
const CALLS_PER_ROUND = 5;

test('renewals stay HOT at the fillfactor that is shipped: they write no indexed column, and find room on their page', async () => {
  // A cluster of its own: a transaction in any database keeps old versions, and so takes the room.
  const cluster = await startTestCluster();
  onTestFinished(() => cluster.stop());
  await stopVacuuming(cluster.url);
  const { url: databaseUrl } = await copyTemplate(cluster.url, 'hot');
  const kernel = await openKernel({ databaseUrl });
  const grants = await Promise.all(
    Array.from({ length: GRANTS }, (_, index) => granted(kernel, { name: `n${String(index)}` })),
  );

  for (let call = 0; call < ROUNDS * CALLS_PER_ROUND; call += 1) {
    const few = grants.filter((_, index) => index % CALLS_PER_ROUND === call % CALLS_PER_ROUND);
    await kernel.leases.renewAll(
      'lease',
      few.map((grant) => renewalOf(grant)),
    );
  }

  // A session reports what it has counted at its end, which comes some time after that of its client.
  await kernel.store.close();
  const session = new pg.Client({ connectionString: databaseUrl });
  await session.connect();
  const { all, hot, fillfactor } = await waitUntil(async () => {
    const { rows } = await session.query<{ all: number; hot: number; fillfactor: string[] }>(
      `select n_tup_upd::int as all, n_tup_hot_upd::int as hot, c.reloptions as fillfactor
       from pg_stat_user_tables s join pg_class c on c.oid = s.relid where s.relname = 'lease'`,
    );
    return rows.find((row) => row.all >= GRANTS * ROUNDS);
  });
  await session.end();
  expect(fillfactor).toContain('fillfactor=70');
  // Those that were begun and sent again are counted, too.
  expect(hot / all).toBeGreaterThanOrEqual(0.99);
});

/** A transaction that counts the rows of the table keeps old versions, too. */
async function stopVacuuming(url: string): Promise<void> {
  const session = new pg.Client({ connectionString: url });
  await session.connect();
  await session.query('alter system set autovacuum = off');
  await session.query('select pg_reload_conf()');
  await session.end();
}
