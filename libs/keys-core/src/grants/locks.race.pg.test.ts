import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { KEY_LADDERS, serviceLadder } from '../kernel/ladder.ts';
import { openSession, someoneWaits } from '../testing/coordinator-fixture.ts';
import {
  age,
  aRequest,
  granted,
  openKernel,
  releaseOf,
  renewalOf,
  TRUSTING_WATCH,
} from '../testing/kernel-fixture.ts';
import { passingTime } from '../testing/passing-time.ts';

describe('locks', () => {
  test('C51 beside an open fenced transaction a refused acquire, a renewal and other grants are answered while it is open', async () => {
    const kernel = await openKernel();
    const fenced = await granted(kernel, { name: 'r' });
    const healthy = await granted(kernel, { name: 'q' });
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query('select from lease where lease_id = $1 for key share', [fenced.leaseId]);

    // The transaction stays open. What waited for its lock would give up after the store's own bound.
    const answers = await Promise.all([
      kernel.leases.grant(aRequest({ name: 'r' })),
      kernel.leases.renew('lease', renewalOf(healthy)),
      kernel.leases.renew('lease', renewalOf(fenced)),
      kernel.leases.grant(aRequest({ name: `s${randomUUID()}` })),
    ]);
    await session.query('rollback');

    expect(answers.map(({ outcome }) => outcome)).toEqual([
      'held',
      'renewed',
      'renewed',
      'granted',
    ]);
  });

  test('a takeover is refused during a fenced transaction and granted after it; other grants do not wait', async () => {
    const kernel = await openKernel();
    const fenced = await granted(kernel, { name: 'r' });
    await age(kernel, fenced.leaseId, 60_000);
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query('select from lease where lease_id = $1 for key share', [fenced.leaseId]);

    const [takeover, neighbour] = await Promise.all([
      kernel.leases.grant(aRequest({ name: 'r' })),
      kernel.leases.grant(aRequest({ name: 's' })),
    ]);
    await session.query('commit');
    const after = await kernel.leases.grant(aRequest({ name: 'r' }));

    expect([takeover.outcome, neighbour.outcome, after.outcome]).toEqual([
      'held',
      'granted',
      'granted',
    ]);
  });

  test('C52 a renewal or release that met a locked row until after the expiry is refused', async () => {
    const time = await passingTime();
    const kernel = await time.open({ clockWatch: TRUSTING_WATCH });
    await kernel.store.witness.look();
    const grant = await granted(kernel, { ladder: serviceLadder(1_000) });
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query('select from lease where lease_id = $1 for update', [grant.leaseId]);

    const release = kernel.leases.release('lease', releaseOf(grant));
    await someoneWaits(kernel);
    const whileLocked = kernel.leases.renew('lease', renewalOf(grant));
    await expect(whileLocked).rejects.toMatchObject({ code: 'grant.contended' });
    await time.pass(1_000);
    await session.query('rollback');

    expect(await release).toBe('expired');
    expect(await kernel.leases.renew('lease', renewalOf(grant))).toMatchObject({
      outcome: 'refused',
      reason: 'expired',
    });
  });

  test('F16 a release and a renewal at once may run in either order, and nothing is renewed after the release', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });

    const rounds = Array.from({ length: 40 }, async (_, round) => {
      const grant = await granted(kernel, { name: `r${String(round)}` });
      const renewing = kernel.leases.renew('lease', renewalOf(grant));
      const [release] = await Promise.all([
        other.leases.release('lease', releaseOf(grant)),
        // A renewal that meets the release's lock has no answer.
        renewing.catch(() => undefined),
      ]);
      const { outcome } = await kernel.leases.renew('lease', renewalOf(grant));
      return [release, outcome];
    });

    expect(await Promise.all(rounds)).toEqual(rounds.map(() => ['released', 'refused']));
  });

  test('C53 acquires and renewals of the same rows in opposite orders: each is renewed, and no deadlock reaches a caller', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });
    const names = Array.from({ length: 100 }, (_, index) => `n${String(index).padStart(3, '0')}`);
    const grants = await Promise.all(names.map((name) => granted(kernel, { name })));
    const backwards = [...names].reverse();
    const refs = grants.map((grant) => renewalOf(grant));

    const rounds = await Promise.all(
      Array.from({ length: 15 }, async () => {
        const [asked, forwards, reverse] = await Promise.all([
          Promise.all(backwards.map((name) => other.leases.grant(aRequest({ name })))),
          // A renewal that meets the other's lock at every try has no answer; its holder tries again.
          kernel.leases.renewAll('lease', refs),
          other.leases.renewAll('lease', [...refs].reverse()),
        ]);
        return { asked, renewals: [forwards, [...reverse].reverse()] };
      }),
    );

    const asked = rounds.flatMap((round) => round.asked.map(({ outcome }) => outcome));
    const renewals = rounds.flatMap((round) => round.renewals);
    const refused = renewals.flat().filter((answer) => answer?.outcome === 'refused');
    // The renewal whose lock the others met has renewed the row.
    const neverRenewed = names.filter((_, index) =>
      renewals.every((answers) => answers[index]?.outcome !== 'renewed'),
    );
    expect(new Set(asked)).toEqual(new Set(['held']));
    expect(refused).toEqual([]);
    expect(neverRenewed).toEqual([]);
  });

  test('F11 one locked row neither stops nor delays the other renewals of its call', async () => {
    const kernel = await openKernel();
    const grants = await Promise.all(
      Array.from({ length: 1_000 }, (_, index) =>
        granted(kernel, { face: 'key', name: `n${String(index)}`, ladder: KEY_LADDERS.fast }),
      ),
    );
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query('select from lease where lease_id = $1 for update', [grants[500]?.leaseId]);

    const answers = await kernel.leases.renewAll(
      'key',
      grants.map((grant) => renewalOf(grant)),
    );
    await session.query('rollback');
    const after = await kernel.leases.renewAll(
      'key',
      grants.map((grant) => renewalOf(grant)),
    );

    const unanswered = answers.flatMap((answer, index) => (answer === undefined ? [index] : []));
    expect(unanswered).toEqual([500]);
    expect(answers.filter((answer) => answer?.outcome === 'renewed')).toHaveLength(999);
    expect(after.every((answer) => answer?.outcome === 'renewed')).toBe(true);
  });

  test('F11 while the whole table is locked a hundred grants are refused with the reason, all together and not one after the other', async () => {
    const kernel = await openKernel();
    const session = await openSession(kernel);
    await session.query('begin');
    await session.query('lock table lease in access exclusive mode');
    const names = Array.from({ length: 100 }, (_, index) => `n${String(index)}`);

    const answers = await Promise.allSettled(
      names.map((name) => kernel.leases.grant(aRequest({ name }))),
    );
    await session.query('rollback');
    const after = await Promise.all(names.map((name) => kernel.leases.grant(aRequest({ name }))));

    for (const answer of answers) {
      expect(answer).toMatchObject({
        status: 'rejected',
        reason: { code: 'store.unavailable', details: { reason: 'table_locked' } },
      });
    }
    expect(new Set(after.map(({ outcome }) => outcome))).toEqual(new Set(['granted']));
  });

  test('only one of two simultaneous takeovers of an expired grant, from two controllers, is granted', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });
    for (let round = 0; round < 20; round += 1) {
      const name = `n${String(round)}`;
      const old = await granted(kernel, { name });
      await age(kernel, old.leaseId, 60_000);

      const outcomes = await Promise.all([
        kernel.leases.grant(aRequest({ name })),
        other.leases.grant(aRequest({ name })),
      ]);

      expect(outcomes.map((outcome) => outcome.outcome).sort()).toEqual(['granted', 'held']);
    }
  });
});
