import { describe, expect, test } from 'vitest';
import { compareFencingTokens } from '../kernel/lease.ts';
import { createReaper } from '../keys/index.ts';
import {
  age,
  aRequest,
  eventsOf,
  granted,
  openKernel,
  releaseOf,
  renewalOf,
} from '../testing/kernel-fixture.ts';
import { remove } from '../testing/model/remove.ts';

describe('grant', () => {
  test('C1 gives a free resource, with an event in the same transaction', async () => {
    const kernel = await openKernel();

    const grant = await granted(kernel, { name: 'free' });

    expect(grant.previous).toBeNull();
    expect(grant.remainingMs).toBeGreaterThan(59_000);
    expect(grant.remainingMs).toBeLessThanOrEqual(60_001);
    expect(await eventsOf(kernel, 'free')).toEqual([`granted ${grant.fencingToken}`]);
  });

  test('C2 C30 refuses a held resource and names the holder, since when and the time left', async () => {
    const kernel = await openKernel();
    const first = await granted(kernel, { holder: 'alice', tag: 't', comment: 'why' });

    const second = await kernel.leases.grant(aRequest({ holder: 'bob' }));

    expect(second).toMatchObject({
      outcome: 'held',
      by: {
        leaseId: first.leaseId,
        holder: 'alice',
        tag: 't',
        comment: 'why',
        grantedAt: first.grantedAt,
      },
    });
    expect(await eventsOf(kernel, 'thing')).toHaveLength(1);
  });

  test('C3 C4 another name, the same name in another namespace and on another face are independent', async () => {
    const kernel = await openKernel();

    const grants = await Promise.all([
      granted(kernel),
      granted(kernel, { name: 'other' }),
      granted(kernel, { namespace: 'elsewhere' }),
      granted(kernel, { face: 'environment' }),
    ]);

    expect(new Set(grants.map((grant) => grant.leaseId)).size).toBe(4);
  });

  test('C4 the holder of a name in a namespace holds nothing below that namespace', async () => {
    const kernel = await openKernel();
    await granted(kernel, { namespace: 'a', name: 'b' });

    for (const [namespace, name] of [
      ['a.b', 'b'],
      ['a.b', 'c'],
      ['', 'a'],
    ] as const) {
      const outcome = await kernel.leases.grant(aRequest({ namespace, name, holder: 'bob' }));
      expect(outcome.outcome).toBe('granted');
    }
  });

  test('C9 I1 exactly one of 64 simultaneous requests is granted, and all are told the same holder', async () => {
    const kernel = await openKernel();

    const outcomes = await Promise.all(
      Array.from({ length: 64 }, (_, index) =>
        kernel.leases.grant(aRequest({ holder: `h${String(index)}` })),
      ),
    );

    const winners = outcomes.filter((outcome) => outcome.outcome === 'granted');
    const seen = outcomes.map((outcome) => {
      if (outcome.outcome === 'granted') return outcome.grant.leaseId;
      return outcome.outcome === 'held' ? outcome.by.leaseId : outcome.outcome;
    });
    expect(winners).toHaveLength(1);
    expect(new Set(seen).size).toBe(1);
  });

  test('C10 names are kept byte for byte', async () => {
    const kernel = await openKernel();
    const names = [
      '../../etc/passwd',
      'e\u0301',
      'é',
      'A',
      'a',
      '\u{10fffd}',
      ' ',
      'x'.repeat(255),
    ];

    await Promise.all(names.map((name) => granted(kernel, { name })));

    const rows = await kernel.store.general.$queryRaw<{ name: string }[]>`select name from lease`;
    expect(rows.map((row) => row.name).sort()).toEqual([...names].sort());
  });

  test('C18 C19 C21 an expired grant is taken over without a reaper, and its end is recorded once', async () => {
    const kernel = await openKernel();
    const old = await granted(kernel);
    await age(kernel, old.leaseId, 60_000);

    const next = await granted(kernel, { holder: 'bob' });

    expect(next.previous).toEqual({
      leaseId: old.leaseId,
      fencingToken: old.fencingToken,
      end: 'expired',
    });
    expect(await createReaper(kernel.store).runOnce()).toMatchObject({ reapedCount: 0 });
    expect(await eventsOf(kernel, 'thing')).toEqual([
      `granted ${old.fencingToken}`,
      `expired ${old.fencingToken}`,
      `taken_over ${next.fencingToken}`,
    ]);
  });

  test('C58 a takeover and a reaper leave one row each for the use case’s callback', async () => {
    const kernel = await openKernel();
    const taken = await granted(kernel, { name: 'taken' });
    const reaped = await granted(kernel, { name: 'reaped' });
    await age(kernel, taken.leaseId, 60_000);
    await age(kernel, reaped.leaseId, 60_000);

    await granted(kernel, { name: 'taken' });
    await createReaper(kernel.store).runOnce();
    await createReaper(kernel.store).runOnce();

    const rows = await kernel.store.general.$queryRaw<
      { id: string }[]
    >`select lease_id::text as id from lease_reap`;
    expect(rows.map((row) => row.id).sort()).toEqual([taken.leaseId, reaped.leaseId].sort());
  });

  test('a request that the database rejects fails none of the others in its batch', async () => {
    const kernel = await openKernel();
    const names = Array.from({ length: 99 }, (_, index) => `n${String(index)}`);

    const outcomes = await Promise.allSettled([
      ...names.map((name) => kernel.leases.grant(aRequest({ name }))),
      kernel.leases.grant(aRequest({ name: 'poison', metadata: { a: '\0' } })),
    ]);

    expect(outcomes.filter((outcome) => outcome.status === 'fulfilled')).toHaveLength(99);
    expect(outcomes.at(-1)).toMatchObject({ status: 'rejected' });
  });

  test('grants nothing during the hold-off of a restored database, and reports how long it lasts', async () => {
    const kernel = await openKernel();
    await kernel.store.witness.look();
    await kernel.store.general.$executeRaw`
      update database_epoch set hold_off_until = clock_timestamp() + interval '50 seconds'`;

    await expect(kernel.leases.grant(aRequest())).rejects.toMatchObject({
      code: 'grant.hold_off',
      details: { reason: 'restored', remainingMs: expect.closeTo(50_000, -4) as number },
    });
  });
});

describe('C17 C60 fencing tokens only grow', () => {
  test('within one millisecond, after release, reap and remove', async () => {
    const kernel = await openKernel();
    const tokens: string[] = [];
    for (let round = 0; round < 20; round += 1) {
      const grant = await granted(kernel);
      tokens.push(grant.fencingToken);
      if (round % 3 === 0) await kernel.leases.release('lease', releaseOf(grant));
      else await age(kernel, grant.leaseId, 60_000);
      if (round % 3 === 1) await createReaper(kernel.store).runOnce();
      const by = { actor: 'op', belief: kernel.store.clockWatch.belief(0) };
      if (round % 3 === 2) await remove(kernel.store.general, 'lease', [grant.leaseId], by);
    }

    const sorted = [...tokens].sort(compareFencingTokens);
    expect(tokens).toEqual(sorted);
    expect(new Set(tokens).size).toBe(20);
  });

  test('and stay the same under renewal', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);

    await kernel.leases.renew('lease', renewalOf(grant));

    const held = await kernel.leases.grant(aRequest());
    expect(held).toMatchObject({ outcome: 'held', by: { fencingToken: grant.fencingToken } });
  });
});
