import type pg from 'pg';
import { describe, expect, test } from 'vitest';
import { expectPrompt, waitUntil } from '@leasehold/testing';
import { serviceLadder } from '../../kernel/ladder.ts';
import type { Grant } from '../../kernel/lease.ts';
import { openSession, someoneWaits } from '../../testing/coordinator-fixture.ts';
import { refsNotHeld, revokeByForce, revokeHoweverLong } from '../../testing/ended-grants.ts';
import { aRequest, granted, openKernel, releaseOf } from '../../testing/kernel-fixture.ts';
import { createSlowDatabase } from '../../testing/shifted-clock.ts';

function assertHeld(
  session: pg.Client,
  { leaseId, fencingToken }: Pick<Grant, 'leaseId' | 'fencingToken'>,
): Promise<pg.QueryResult> {
  return session.query('select leasehold_assert_held($1, $2)', [leaseId, fencingToken]);
}

/** The limits of a session's transaction, in milliseconds; 0 means no limit. */
async function limitsOf(session: pg.Client): Promise<{ statement: number; idle: number }> {
  const { rows } = await session.query<{ name: string; ms: number }>(
    `select name, setting::int as ms from pg_settings
     where name in ('statement_timeout', 'idle_in_transaction_session_timeout')`,
  );
  const msOf = (name: string): number => rows.find((row) => row.name === name)?.ms ?? -1;
  return {
    statement: msOf('statement_timeout'),
    idle: msOf('idle_in_transaction_session_timeout'),
  };
}

describe('leasehold_assert_held, as a service in another language calls it', () => {
  test('passes for a grant in force, of every face', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    const faces = ['lease', 'key', 'environment'] as const;
    const grants = await Promise.all(faces.map((face) => granted(kernel, { face })));

    const passed = [];
    for (const grant of grants) passed.push(await assertHeld(session, grant));

    expect(passed.map((result) => result.rowCount)).toEqual([1, 1, 1]);
  });

  test('raises LH001 for one that is expired, released, revoked, superseded, has another token or never existed', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    const held = await granted(kernel);
    const refs = await refsNotHeld(kernel);

    for (const ref of refs) {
      await expect(assertHeld(session, ref)).rejects.toMatchObject({ code: 'LH001' });
    }
    expect((await assertHeld(session, held)).rowCount).toBe(1);
  });

  test('a later takeover or revoke waits for the commit', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    const revoked = await granted(kernel, { name: 'revoked' });
    const expiring = await granted(kernel, { name: 'expiring' });
    await session.query('begin');
    await assertHeld(session, revoked);
    await assertHeld(session, expiring);

    const ended: string[] = [];
    const revoking = revokeHoweverLong(kernel, revoked).then(() => ended.push('revoked'));
    revoking.catch(() => undefined);
    await someoneWaits(kernel);
    const takeover = await openSession(kernel);
    const taking = takeover
      .query('update lease set lease_id = gen_random_uuid() where lease_id = $1', [
        expiring.leaseId,
      ])
      .then(() => ended.push('taken'));
    await someoneWaits(kernel, 2);
    const before = [...ended];
    await session.query('commit');
    await Promise.all([revoking, taking]);

    expect(before).toEqual([]);
    expect(ended.sort()).toEqual(['revoked', 'taken']);
  });

  test('an earlier revoke rolls the work back', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    const grant = await granted(kernel);
    await session.query('create table work (id int)');
    await session.query('begin');
    await session.query('insert into work values (1)');
    await revokeByForce(kernel, grant);

    await expect(assertHeld(session, grant)).rejects.toMatchObject({ code: 'LH001' });
    const end = await session.query('commit');

    expect(end.command).toBe('ROLLBACK');
    expect((await session.query('select from work')).rowCount).toBe(0);
  });

  test('others are refused during the transaction, and granted the resource after its release', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    const grant = await granted(kernel);
    await session.query('begin');
    await assertHeld(session, grant);

    const refused = await kernel.leases.grant(aRequest({ holder: 'bob' }));
    await session.query('commit');
    await kernel.leases.release('lease', releaseOf(grant));

    expect(refused.outcome).toBe('held');
    expect((await kernel.leases.grant(aRequest({ holder: 'bob' }))).outcome).toBe('granted');
  });

  test('H-assert a process that is paused after it lets go when the lease expires, and the next is granted', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    await session.query('create table work (id int)');
    const grant = await granted(kernel, { ladder: serviceLadder(1_000) });
    await session.query('begin');
    await session.query('insert into work values (1)');
    await assertHeld(session, grant);

    const regrant = await waitUntil(
      async () => {
        const outcome = await kernel.leases.grant(aRequest({ holder: 'bob' }));
        return outcome.outcome === 'granted' ? outcome.grant : undefined;
      },
      { timeoutMs: 10_000 },
    );

    expect(regrant.previous?.leaseId).toBe(grant.leaseId);
    // A session that the server does not end keeps the lock.
    expect(regrant.grantedAt).toBeGreaterThanOrEqual(grant.expiresAt);
    expectPrompt(regrant.grantedAt - grant.expiresAt, 5_000);
    await expect(session.query('commit')).rejects.toThrow();
    const work = await (await openSession(kernel)).query('select from work');
    expect(work.rowCount).toBe(0);
  });

  test('H-assert the server ends a later statement when the lease expires', async () => {
    const kernel = await openKernel({ databaseUrl: await createSlowDatabase() });
    const session = await openSession(kernel);
    const grant = await granted(kernel, { ladder: serviceLadder(1_000) });
    await session.query('begin');
    await assertHeld(session, grant);

    // By statement_timeout, or by transaction_timeout where there is one.
    const code = expect.stringMatching(/^(57014|25P04)$/u) as unknown;
    await expect(session.query('select pg_sleep(20)')).rejects.toMatchObject({ code });
  });

  test('bounds the transaction by the remaining time of the lease, 10 s at most, and then restores the limits', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    await session.query(`set statement_timeout = '1min'`);
    const before = await limitsOf(session);
    const limitsUnder = async (grant: Grant): ReturnType<typeof limitsOf> => {
      await session.query('begin');
      await assertHeld(session, grant);
      const limits = await limitsOf(session);
      await session.query('rollback');
      return limits;
    };

    const ofShort = await limitsUnder(
      await granted(kernel, { name: 'short', ladder: serviceLadder(5_000) }),
    );
    const ofLong = await limitsUnder(await granted(kernel, { name: 'long' }));

    expect(ofShort.statement).toBe(ofShort.idle);
    expect(ofShort.idle).toBeGreaterThan(3_000);
    expect(ofShort.idle).toBeLessThanOrEqual(5_000);
    expect(ofLong).toEqual({ statement: 10_000, idle: 10_000 });
    expect(await limitsOf(session)).toEqual(before);
  });

  test('keeps a smaller limit that the caller has set', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    const grant = await granted(kernel);
    await session.query(`set statement_timeout = '2s'`);
    await session.query('begin');
    await session.query(`set local idle_in_transaction_session_timeout = '700ms'`);

    await assertHeld(session, grant);

    expect(await limitsOf(session)).toEqual({ statement: 2_000, idle: 700 });
  });
});
