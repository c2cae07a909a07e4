import { describe, expect, onTestFinished, test } from 'vitest';
import { fillDatabase, heldLeases } from '../testing/explaining.ts';
import { A_GUARD, aRequest, openKernel } from '../testing/kernel-fixture.ts';
import { grant, readRefusals } from './sql/grant.ts';
import { readEndedGrants } from './sql/past-grants.ts';
import { release } from './sql/release.ts';
import { renew } from './sql/renew.ts';
import { deleteFreeRows } from './sql/retention.ts';

const ROWS = 50_000;

describe('plans', () => {
  test('no transition reads the whole table at a representative size', async () => {
    const kernel = await openKernel();
    const { client, explaining, close } = await fillDatabase(kernel.databaseUrl, heldLeases(ROWS));
    onTestFinished(close);
    const { rows } = await client.query<{ id: string; token: string }>(
      'select lease_id as id, fencing_token as token from lease limit 500',
    );
    const refs = rows.map(({ id, token }) => ({
      leaseId: id,
      fencingToken: token,
      principal: 'p',
      actor: 'a',
      result: 'ok' as const,
      detail: null,
    }));
    const { sql, plans } = explaining();

    await grant(
      sql,
      refs.map((_, index) => aRequest({ name: `r${String(index)}`, namespace: 'n' })),
      {
        guard: A_GUARD,
        onLocked: 'skip',
      },
    );
    await renew(sql, 'lease', refs);
    await release(sql, 'lease', refs, 'skip');
    await readEndedGrants(sql, 'lease', refs);
    // Explained statements return no row, and this one expects a row always.
    await expect(
      deleteFreeRows(sql, {
        fromPage: 0,
        toPage: 100,
        limit: 1_000,
        datacenter: 'local',
        belief: A_GUARD.belief,
      }),
    ).rejects.toThrow('one row expected');

    expect(plans).toHaveLength(5);
    for (const plan of plans) expect(plan).not.toMatch(/Seq Scan on lease\b/u);
  });

  test('a crowd in one line is not read when other leases are granted and released', async () => {
    const kernel = await openKernel();
    const { explaining, close } = await fillDatabase(
      kernel.databaseUrl,
      `
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
      select 'lease', 'n', 'wanted', gen_random_uuid(), '{}', 'p', now() + interval '1 minute'
      from generate_series(1, 5000)`,
    );
    onTestFinished(close);
    const { sql, plans } = explaining();
    const request = aRequest({ name: 'other', namespace: 'n' });

    await grant(sql, [request], { guard: A_GUARD, onLocked: 'skip' });
    await readRefusals(sql, [request], A_GUARD.mark);
    await release(
      sql,
      'lease',
      [
        {
          leaseId: request.leaseId,
          fencingToken: '1',
          principal: 'p',
          actor: 'a',
          result: 'ok',
          detail: null,
        },
      ],
      'skip',
    );

    expect(plans).toHaveLength(3);
    for (const plan of plans) expect(plan).not.toMatch(/Seq Scan on lease_waiter\b/u);
  });
});
