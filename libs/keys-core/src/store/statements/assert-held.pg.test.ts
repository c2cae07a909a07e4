import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { describe, expect, test } from 'vitest';
import type { Grant } from '../../kernel/outcomes.ts';
import { openSession, someoneWaits } from '../../testing/coordinator-fixture.ts';
import {
  age,
  aRequest,
  granted,
  openKernel,
  releaseOf,
  type Kernel,
} from '../../testing/kernel-fixture.ts';
import { revoke } from './revoke.ts';

function assertHeld(
  session: pg.Client,
  { leaseId, fencingToken }: Pick<Grant, 'leaseId' | 'fencingToken'>,
): Promise<pg.QueryResult> {
  return session.query('select leasehold_assert_held($1, $2)', [leaseId, fencingToken]);
}

function revokeByForce(kernel: Kernel, grant: Grant): Promise<unknown> {
  return revoke(kernel.store.prisma, grant.face, [
    {
      leaseId: grant.leaseId,
      mode: 'force',
      abandon: false,
      actor: 'op',
      reason: 'r',
      namespaces: null,
    },
  ]);
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

  test('raises LH001 for one that is expired, released, revoked, superseded, has another token or never was', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    const expired = await granted(kernel, { name: 'expired' });
    await age(kernel, expired.leaseId, 60_000);
    const released = await granted(kernel, { name: 'released' });
    await kernel.leases.release('lease', releaseOf(released));
    const revoked = await granted(kernel, { name: 'revoked' });
    await revokeByForce(kernel, revoked);
    const superseded = await granted(kernel, { name: 'superseded' });
    await age(kernel, superseded.leaseId, 60_000);
    const next = await granted(kernel, { name: 'superseded' });
    const refs = [
      ...[expired, released, revoked, superseded],
      { leaseId: next.leaseId, fencingToken: superseded.fencingToken },
      { leaseId: randomUUID(), fencingToken: '1' },
    ];

    for (const ref of refs) {
      await expect(assertHeld(session, ref)).rejects.toMatchObject({ code: 'LH001' });
    }
    expect((await assertHeld(session, next)).rowCount).toBe(1);
  });

  test('a takeover and a revoke that come after it wait for the commit', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    const revoked = await granted(kernel, { name: 'revoked' });
    const expiring = await granted(kernel, { name: 'expiring' });
    await session.query('begin');
    await assertHeld(session, revoked);
    await assertHeld(session, expiring);

    const ended: string[] = [];
    const revoking = revokeByForce(kernel, revoked).then(() => ended.push('revoked'));
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

  test('a revoke that came first rolls the work back', async () => {
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

  test('the resource is refused to others while it is held so, and given after', async () => {
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
});
