import { describe, expect, test } from 'vitest';
import type { CallbackSql } from '../postgres/open-store.ts';
import {
  aCoordinator,
  acquired,
  aUseCase,
  makeNotes,
  note,
} from '../testing/coordinator-fixture.ts';
import {
  aRequest,
  eventsOf,
  granted,
  MACHINE_CLOCK,
  openKernel,
} from '../testing/kernel-fixture.ts';

/** Fails a statement as a deadlock would. */
async function loseOnce(tx: CallbackSql, tries: { count: number }, timesMax = 1): Promise<void> {
  tries.count += 1;
  if (tries.count <= timesMax) {
    await tx.$executeRaw`do $$ begin raise exception 'lost' using errcode = '40P01'; end $$`;
  }
}

describe('acquire', () => {
  test('C1 C48 grants, with a deadline in the holder’s own clock, a grace before the expiry', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('a');
    const before = MACHINE_CLOCK.nowMs();

    const answer = await coordinator.acquire(lease, 0);

    const after = MACHINE_CLOCK.nowMs();
    expect(answer).toMatchObject({ outcome: 'granted', leaseId: lease.key() });
    expect(lease.deadlines).toHaveLength(1);
    expect(lease.deadlines[0]).toBeGreaterThan(before + 49_000);
    expect(lease.deadlines[0]).toBeLessThanOrEqual(after + 50_000);
  });

  test('C2 C30 refuses a held lease, returns the holder and the start, and calls no hook', async () => {
    const kernel = await openKernel();
    const other = await granted(kernel, { holder: 'bob', comment: 'why' });
    const calls: string[] = [];
    const lease = aUseCase('thing', { willInsert: () => calls.push('insert') });

    const answer = await aCoordinator(kernel).acquire(lease, 0);

    expect(answer).toMatchObject({
      outcome: 'held',
      by: 'bob',
      since: new Date(other.grantedAt).toISOString(),
      comment: 'why',
    });
    expect(calls).toEqual([]);
    expect(lease.deadlines).toEqual([]);
  });

  test('commits what willInsert writes with the grant, and gives it the id, token and deadline', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const lease = aUseCase('a', {
      willInsert: (tx, at, grant) =>
        note(tx, `${grant.leaseId} ${grant.fencingToken} ${String(at)}`),
    });

    const answer = await acquired(aCoordinator(kernel), lease);

    const { leaseId, fencingToken, deadlines } = answer;
    expect(await notes()).toEqual([`${leaseId} ${fencingToken} ${String(deadlines.loseAtMs)}`]);
    expect(lease.deadlines).toEqual([deadlines.loseAtMs]);
  });

  test('rolls the grant back when willInsert throws, and the caller gets its error', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const thrown = new TypeError('mine');
    const lease = aUseCase('a', {
      async willInsert(tx) {
        await note(tx, 'x');
        throw thrown;
      },
    });

    await expect(aCoordinator(kernel).acquire(lease, 0)).rejects.toBe(thrown);

    expect(await notes()).toEqual([]);
    expect(lease.deadlines).toEqual([]);
    expect(await eventsOf(kernel, 'a')).toEqual([]);
    expect(await kernel.leases.grant(aRequest({ name: 'a' }))).toMatchObject({
      outcome: 'granted',
    });
  });

  test('retries a transaction that conflicted with another one, together with its hook', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const tries = { count: 0 };
    const lease = aUseCase('a', {
      async willInsert(tx) {
        await note(tx, 'x');
        await loseOnce(tx, tries, 2);
      },
    });

    await acquired(aCoordinator(kernel), lease);

    expect(tries.count).toBe(3);
    expect(await notes()).toEqual(['x']);
    expect(await eventsOf(kernel, 'a')).toHaveLength(1);
  });

  test('fails as contended when every try conflicts, and nothing is granted', async () => {
    const kernel = await openKernel();
    const tries = { count: 0 };
    const lease = aUseCase('a', { willInsert: (tx) => loseOnce(tx, tries, Infinity) });

    await expect(aCoordinator(kernel).acquire(lease, 0)).rejects.toMatchObject({
      code: 'grant.contended',
    });

    expect(tries.count).toBe(4);
    expect(await eventsOf(kernel, 'a')).toEqual([]);
  });

  test('rolls back a hook that takes longer than its lease lasts', async () => {
    const kernel = await openKernel();
    const lease = aUseCase('a', {
      durationMs: () => 1_000,
      willInsert: (tx) => tx.$queryRaw`select pg_sleep(60)::text`,
    });

    await expect(aCoordinator(kernel).acquire(lease, 0)).rejects.toMatchObject({
      code: 'request.deadline',
    });

    expect(await eventsOf(kernel, 'a')).toEqual([]);
  });

  test('F18 finds its grant when it is repeated with the same key after a lost answer', async () => {
    const kernel = await openKernel();
    const first = aUseCase('a', { willInsert: () => undefined });
    const grant = await acquired(aCoordinator(kernel), first);
    const again = aUseCase('a', { key: () => first.key(), willInsert: () => undefined });

    const answer = await acquired(aCoordinator(kernel), again);

    expect(answer).toMatchObject({ leaseId: grant.leaseId, fencingToken: grant.fencingToken });
    expect(again.deadlines[0]).toBeGreaterThan(0);
    expect(await eventsOf(kernel, 'a')).toHaveLength(1);
  });

  test('I1 refuses the second of two processes that use one key: they are not one holder', async () => {
    const kernel = await openKernel();
    const bob = aCoordinator(kernel, 'bob');
    const lease = aUseCase('a');
    await acquired(aCoordinator(kernel, 'alice'), lease);
    const again = (): ReturnType<typeof aUseCase> => aUseCase('a', { key: () => lease.key() });

    expect(await bob.acquire(again(), 0)).toMatchObject({ outcome: 'held', by: 'alice' });
    await expect(bob.acquire(again(), 300)).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field: 'key' },
    });
  });

  test('C10 refuses a key that is no UUID, a bad scope, a bad duration and a bad wait', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const scoped = (namespace: string[], key = 'k') => ({ scope: () => ({ namespace, key }) });

    const bad = [
      aUseCase('a', { key: () => 'mine' }),
      aUseCase('a', scoped(['a.b'])),
      aUseCase('a', scoped([''])),
      aUseCase('a', scoped(['a'], '')),
    ];

    for (const lease of bad) {
      await expect(coordinator.acquire(lease, 0)).rejects.toMatchObject({
        code: 'request.invalid',
      });
    }
    await expect(coordinator.acquire(aUseCase('a'), -1)).rejects.toMatchObject({
      code: 'request.invalid',
    });
    const short = aUseCase('a', { durationMs: () => 999 });
    await expect(coordinator.acquire(short, 0)).rejects.toMatchObject({
      code: 'lease.ttl_out_of_range',
    });
  });

  test('a comment and metadata are kept with the grant, and the comment is shown to callers that are refused', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const about = { comment: () => 'release 7', metadata: () => ({ build: 7, left: undefined }) };
    await acquired(coordinator, aUseCase('a', about));
    await coordinator.acquireOrRenew(aUseCase('b', about));

    const refused = await aCoordinator(kernel, 'bob').acquire(aUseCase('a'), 0);

    const rows = await kernel.store.general.$queryRaw`
      select comment, metadata from lease order by name`;
    expect(refused).toMatchObject({ outcome: 'held', comment: 'release 7' });
    expect(rows).toEqual([
      { comment: 'release 7', metadata: { build: 7 } },
      { comment: 'release 7', metadata: { build: 7 } },
    ]);
  });

  test.each([
    ['comment', { comment: () => 'x'.repeat(1_025) }],
    ['comment', { comment: () => 'a\0' }],
    ['metadata', { metadata: () => ({ a: '\0' }) }],
    ['metadata', { metadata: () => 'x'.repeat(17_000) }],
    ['metadata', { metadata: () => ({ a: 1n }) }],
    ['metadata', { metadata: () => () => 1 }],
  ])('C10 refuses a bad %s, and grants nothing', async (field, about) => {
    const kernel = await openKernel();

    await expect(aCoordinator(kernel).acquire(aUseCase('a', about), 0)).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field },
    });

    expect(await eventsOf(kernel, 'a')).toEqual([]);
  });

  test('one use case object obtains one lease', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('a');
    await acquired(coordinator, lease);
    await coordinator.releaseOk(lease, 'x');

    await expect(coordinator.acquire(lease, 0)).rejects.toMatchObject({ code: 'request.invalid' });
  });
});
