import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { openSession } from '../testing/coordinator-fixture.ts';
import { explaining } from '../testing/explaining.ts';
import { A_GUARD, aRequest, openKernel } from '../testing/kernel-fixture.ts';
import { isNotEnded, lockHeld } from './sql/guard.ts';
import { claimReapRow, deleteReapRow, endStale, recordReapFailure } from './sql/reap.ts';
import { acquireOrRenew } from './sql/renew.ts';

const ROWS = 50_000;

describe('plans', () => {
  test('neither fenced work, nor a leader’s renewal, nor a page of reaping reads the whole table', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    await session.query(`
      insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms,
        renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
      select 'lease', 'n' || i % 100, 'r' || i, gen_random_uuid(), i, 'h', 'p', 60000, 20000, 50000,
        50000, now(), now(), now() + interval '1 minute'
      from generate_series(1, ${String(ROWS)}) i;
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor)
      select l.face, l.namespace, l.name, l.lease_id, l.fencing_token, 'granted', 'h' from lease l;
      insert into lease_reap (lease_id, face, namespace, name, fencing_token)
      select gen_random_uuid(), 'lease', 'n' || i % 100, 'r' || i, i
      from generate_series(1, ${String(ROWS)}) i`);
    await session.query('analyze');
    const { sql, plans } = explaining(session);
    const ref = { leaseId: randomUUID(), fencingToken: '1' };
    const page = { after: { namespace: 'n7', name: 'r5' }, limit: 100, belief: A_GUARD.belief };

    await acquireOrRenew(sql, aRequest({ namespace: 'n1', name: 'r1' }), A_GUARD);
    await endStale(sql, { namespace: 'n7', includeChildren: true }, page).catch(() => undefined);
    await claimReapRow(sql, ref.leaseId);
    await deleteReapRow(sql, ref.leaseId);
    await recordReapFailure(sql, ref.leaseId, 'x');

    expect(plans).toHaveLength(5);
    for (const plan of plans) {
      expect(plan).not.toMatch(/Seq Scan on (lease|lease_reap|lease_event)\b/u);
    }
    // The plans of functions are not shown, so their reads are counted.
    const [counts] = await kernel.store.general.$transaction(async (tx) => {
      await lockHeld(tx, ref, 10_000);
      await isNotEnded(tx, ref);
      return tx.$queryRaw<{ wholeReads: number; indexReads: number }[]>`
        select seq_scan::int as "wholeReads", idx_scan::int as "indexReads"
        from pg_stat_xact_user_tables where relid = 'lease'::regclass`;
    });
    expect(counts).toEqual({ wholeReads: 0, indexReads: 2 });
  });
});
