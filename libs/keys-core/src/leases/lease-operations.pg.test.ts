import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { listAudit } from '../access/index.ts';
import { createReaper } from '../keys/index.ts';
import { countByNamespace } from '../lists/sql/resource-list.ts';
import { age, BY, eventsOf, UNAUDITED } from '../testing/kernel-fixture.ts';
import { OPERATOR } from '../testing/keys-fixture.ts';
import { acquire, acquired, lineOf, released, SERVICE } from '../testing/lease-fixture.ts';
import { openOperatedLeases, type OperatedLeases } from '../testing/lease-operations-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';
import type { LeaseListInput } from './lease-types.ts';

const LIMITED = { ...OPERATOR, namespaces: ['a'] };

async function namesOf(
  on: OperatedLeases,
  input: Partial<LeaseListInput> = {},
  caller = OPERATOR,
): Promise<string[]> {
  const { items } = await on.operations.list({ limit: 100, ...input }, caller);
  return items.map(({ namespace, name }) => (namespace === '' ? name : `${namespace}/${name}`));
}

describe('a lease as operators see it', () => {
  test('shows its holder, comment, metadata and time left, as of one moment of the database', async () => {
    const on = await openOperatedLeases();
    const lease = await acquired(on, { comment: 'nightly', metadata: { build: [7] } });

    const view = await on.operations.get({ namespace: 'user.update', name: '42' }, OPERATOR);

    expect(view).toMatchObject({
      name: '42',
      namespace: 'user.update',
      phase: 'held',
      leaseId: lease.leaseId,
      fencingToken: lease.fencingToken,
      holder: 'alice',
      action: null,
      comment: 'nightly',
      metadata: { build: [7] },
      ttlMs: 60_000,
      renewable: true,
      waiters: 0,
      datacenter: 'local',
    });
    expect(Date.parse(view?.expiresAt ?? '') - Date.parse(view?.asOf ?? '')).toBeCloseTo(
      view?.remainingMs ?? 0,
      -3,
    );
  });

  test('an environment shows what it is leased for', async () => {
    const on = await openOperatedLeases({}, 'environment');
    await acquired(on, { namespace: '', name: 'prod', action: 'verify' });

    expect(await on.operations.get({ namespace: '', name: 'prod' }, OPERATOR)).toMatchObject({
      action: 'verify',
    });
    await released(on, await acquired(on, { namespace: '', name: 'test', action: 'deploy' }));
    expect(await namesOf(on)).toEqual(['prod', 'test']);
    expect(await namesOf(on, { action: 'verify' })).toEqual(['prod']);
    expect(await namesOf(on, { phase: 'free' })).toEqual(['test']);
  });

  test('is null when nobody ever held it, and when the caller may not see it', async () => {
    const on = await openOperatedLeases();
    await acquired(on, { namespace: 'ab' });

    expect(await on.operations.get({ namespace: 'ab', name: 'other' }, OPERATOR)).toBeNull();
    expect(await on.operations.get({ namespace: 'ab', name: '42' }, LIMITED)).toBeNull();
    expect(await on.operations.get({ namespace: 'ab', name: '42' }, OPERATOR)).not.toBeNull();
  });
});

describe('a list of leases', () => {
  test('of a namespace includes its children, and no namespace with a similar name', async () => {
    const on = await openOperatedLeases();
    for (const namespace of ['', 'a', 'a.b', 'a.b.c', 'a-b', 'ab', 'a_b', 'b']) {
      await acquired(on, { namespace, name: 'x' });
    }

    expect(await namesOf(on, { namespace: 'a' })).toEqual(['a/x', 'a.b/x', 'a.b.c/x']);
    expect(await namesOf(on, { namespace: 'a', includeChildren: false })).toEqual(['a/x']);
    expect(await namesOf(on, { namespace: 'a.b' })).toEqual(['a.b/x', 'a.b.c/x']);
    expect(await namesOf(on, { namespace: '' })).toHaveLength(8);
    expect(await namesOf(on, {}, LIMITED)).toEqual(['a/x', 'a.b/x', 'a.b.c/x']);
    expect(await namesOf(on, { namespace: 'b' }, LIMITED)).toEqual([]);
  });

  test('can be filtered by the id of a grant, for people who come from the audit', async () => {
    const on = await openOperatedLeases();
    const { leaseId } = await acquired(on, { namespace: 'ab' });
    await acquired(on, { namespace: 'a' });

    expect(await namesOf(on, { leaseId })).toEqual(['ab/42']);
    expect(await namesOf(on, { leaseId }, LIMITED)).toEqual([]);
    expect(await namesOf(on, { leaseId: randomUUID() })).toEqual([]);
  });

  test('filters by name, prefix and holder', async () => {
    const on = await openOperatedLeases();
    await acquired(on, { namespace: 'a', name: 'alpha', holder: 'bob' });
    await acquired(on, { namespace: 'a', name: 'al%', holder: 'eve' });
    await acquired(on, { namespace: 'b', name: 'alpha', holder: 'eve' });

    expect(await namesOf(on, { name: 'alpha' })).toEqual(['a/alpha', 'b/alpha']);
    expect(await namesOf(on, { prefix: 'al%' })).toEqual(['a/al%']);
    expect(await namesOf(on, { holder: 'eve' })).toEqual(['a/al%', 'b/alpha']);
    expect(await namesOf(on, { holder: 'eve', namespace: 'b' })).toEqual(['b/alpha']);
  });

  test('filters by the phase that it shows', async () => {
    const on = await openOperatedLeases();
    await acquired(on, { name: 'held' });
    const blocked = await acquired(on, { name: 'expiring' });
    await on.operations.blockRenewal({ leaseId: blocked.leaseId }, OPERATOR);
    const lapsed = await acquired(on, { name: 'expired, unnoticed' });
    await age(on, lapsed.leaseId, 60_000);
    const reaped = await acquired(on, { name: 'expired, reaped' });
    await age(on, reaped.leaseId, 60_000);
    await released(on, await acquired(on, { name: 'free, released' }));
    const revoked = await acquired(on, { name: 'free, revoked' });
    const { leaseId } = revoked;
    await on.operations.revoke({ leaseId, mode: 'force', reason: 'test' }, OPERATOR);

    const byPhase: Record<string, string[]> = {};
    for (const phase of ['held', 'expiring', 'expired', 'free'] as const) {
      const { items } = await on.operations.list({ phase, limit: 100 }, OPERATOR);
      expect(items.every((item) => item.phase === phase)).toBe(true);
      byPhase[phase] = items.map(({ name }) => name);
    }

    expect(byPhase).toEqual({
      held: ['held'],
      expiring: ['expiring'],
      expired: ['expired, reaped', 'expired, unnoticed'],
      free: ['free, released', 'free, revoked'],
    });
    await createReaper(on.store).runOnce();
    expect(await namesOf(on, { phase: 'expired' })).toHaveLength(2);
  });

  test.each([
    ['name', 'asc'],
    ['name', 'desc'],
    ['grantedAt', 'asc'],
    ['expiresAt', 'desc'],
  ] as const)(
    'by %s %s shows each lease that stays once, while others come and go',
    async (sort, direction) => {
      const on = await openOperatedLeases();
      const names = ['n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7'];
      for (const name of names) await acquired(on, { name });

      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await on.operations.list({ sort, direction, cursor, limit: 2 }, OPERATOR);
        seen.push(...page.items.map(({ name }) => name));
        cursor = page.nextCursor ?? undefined;
        await acquired(on, { name: `m${String(seen.length)}`, ttlMs: 120_000 });
      } while (cursor !== undefined && seen.length < 50);

      const expected = direction === 'asc' ? names : [...names].reverse();
      expect(seen.filter((name) => names.includes(name))).toEqual(expected);
      expect(new Set(seen).size).toBe(seen.length);
    },
  );

  test('a tree that is cut loses its deepest namespaces, and no whole branch', async () => {
    const on = await openOperatedLeases();
    for (const namespace of ['a.b.c', 'a.d', 'z']) await acquired(on, { namespace });
    const which = { namespace: '', namespaces: null, limit: 4 };

    const nodes = await countByNamespace(on.store.general, 'lease', which);

    expect(nodes.map(({ namespace }) => namespace)).toEqual(['', 'a', 'z', 'a.b']);
  });

  test('the tree counts each namespace with its children, and shows a limited caller its part', async () => {
    const on = await openOperatedLeases();
    for (const namespace of ['', 'a', 'a.b', 'a.b', 'a.c', 'ab']) {
      await acquired(on, { namespace, name: randomUUID() });
    }
    await released(on, await acquired(on, { namespace: 'a.b', name: 'free' }));

    const tree = await on.operations.tree({}, OPERATOR);
    const part = await on.operations.tree({ namespace: 'a' }, OPERATOR);
    const limited = await on.operations.tree({}, LIMITED);

    const counts = (items: { namespace: string; held: number; free: number }[]): unknown[] =>
      items.map(({ namespace, held, free }) => [namespace, held, free]);
    const below = [
      ['a', 4, 1],
      ['a.b', 2, 1],
      ['a.c', 1, 0],
    ];
    expect(counts(tree.items)).toEqual([['', 6, 1], ...below, ['ab', 1, 0]]);
    expect(tree.isComplete).toBe(true);
    expect(counts(part.items)).toEqual(below);
    expect(counts(limited.items)).toEqual(below);
  });

  test("the tree may leave out Leasehold's own leases", async () => {
    const on = await openOperatedLeases();
    for (const namespace of ['leasehold', 'a']) await acquired(on, { namespace, name: 'x' });
    const counts = async (input: { withoutOwn?: boolean }): Promise<unknown[]> =>
      (await on.operations.tree(input, OPERATOR)).items.map(({ namespace, held }) => [
        namespace,
        held,
      ]);

    expect(await counts({})).toEqual([
      ['', 2],
      ['a', 1],
      ['leasehold', 1],
    ]);
    expect(await counts({ withoutOwn: true })).toEqual([
      ['', 1],
      ['a', 1],
    ]);
  });
});

describe('waiters', () => {
  test('are shown in order for one lease, and for all leases with the holder that they wait for', async () => {
    const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
    const lease = await acquired(on, { namespace: 'a', holder: 'holder' });
    const answers = [];
    for (const holder of ['first', 'second']) {
      answers.push(acquire(on, { namespace: 'a', holder, waitMs: 60_000 }));
      await waitUntil(async () => {
        const { items } = await on.operations.waiters(
          { namespace: 'a', name: '42', limit: 10 },
          OPERATOR,
        );
        return items.at(-1)?.waiter === holder;
      });
    }

    const line = await on.operations.waiters({ namespace: 'a', name: '42', limit: 1 }, OPERATOR);
    const rest = await on.operations.waiters(
      { namespace: 'a', name: '42', limit: 1, cursor: line.nextCursor ?? '' },
      OPERATOR,
    );
    const { items } = await on.operations.contention({ limit: 10 }, LIMITED);
    const paged = await on.operations.contention({ limit: 1 }, OPERATOR);
    const next = await on.operations.contention(
      { limit: 1, cursor: paged.nextCursor ?? '' },
      OPERATOR,
    );
    const elsewhere = await on.operations.contention({ limit: 10, namespace: 'b' }, OPERATOR);
    await on.store.general.$executeRaw`
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
      values ('key', 'a', '42', gen_random_uuid(), 'web', 'web', clock_timestamp() + interval '1 hour')`;
    const ofAll = await on.operations.contention({ limit: 10, faces: ['key', 'lease'] }, OPERATOR);
    const ofKeys = await on.operations.contention({ limit: 10, faces: ['key'] }, OPERATOR);
    const seen = await on.operations.get({ namespace: 'a', name: '42' }, OPERATOR);

    expect([...line.items, ...rest.items].map(({ waiter }) => waiter)).toEqual(['first', 'second']);
    expect(rest.nextCursor).toBeNull();
    expect(items).toMatchObject([
      {
        face: 'lease',
        namespace: 'a',
        name: '42',
        waiter: 'first',
        place: 1,
        holders: [{ holder: 'holder', mode: null, waitsFor: null }],
        holderCount: 1,
      },
      { waiter: 'second', place: 2, holders: [{ holder: 'holder' }] },
    ]);
    expect(items[0]?.holders[0]?.remainingMs).toBeGreaterThan(50_000);
    expect([...paged.items, ...next.items].map(({ place }) => place)).toEqual([1, 2]);
    expect(elsewhere.items).toEqual([]);
    const keyLine = {
      face: 'key',
      namespace: 'a',
      name: '42',
      waiter: 'web',
      place: 1,
      holders: [],
      holderCount: 0,
    };
    expect(ofKeys.items).toMatchObject([keyLine]);
    expect(ofAll.items).toMatchObject([{ face: 'lease' }, { face: 'lease' }, keyLine]);
    expect(seen?.waiters).toBe(2);
    await released(on, lease);
    for (const answer of answers) {
      const given = await answer;
      if (given.outcome === 'granted') await released(on, given.lease);
    }
    expect(await lineOf(on)).toEqual([]);
  });
});

describe('operators', () => {
  test('C33 C15 block a renewal once: changed is true, then false; they can allow it again', async () => {
    const on = await openOperatedLeases();
    const { leaseId, fencingToken } = await acquired(on);
    const renew = async (): Promise<unknown> =>
      on.service.heartbeat({ localTimeMs: 1, renewals: [{ leaseId, fencingToken }] }, SERVICE);

    const first = await on.operations.blockRenewal({ leaseId, reason: 'freeze' }, OPERATOR);
    const second = await on.operations.blockRenewal({ leaseId }, OPERATOR);
    expect([first, second]).toEqual([{ changed: true }, { changed: false }]);
    expect(await renew()).toMatchObject([{ outcome: 'refused', reason: 'renewal_blocked' }]);

    expect(await on.operations.allowRenewal({ leaseId }, OPERATOR)).toMatchObject({
      changed: true,
    });
    expect(await renew()).toMatchObject([{ outcome: 'renewed' }]);
  });

  test('an act is in the audit once, with what it was done to, and not when it changed nothing', async () => {
    const on = await openOperatedLeases();
    const { leaseId } = await acquired(on);
    const block = { leaseId, reason: 'freeze' };
    const revoke = { leaseId, mode: 'force', reason: 'stuck' } as const;

    for (const changed of [true, false]) {
      expect(
        await on.operations.blockRenewal(block, OPERATOR, { ...BY, action: 'leases.blockRenewal' }),
      ).toEqual({ changed });
      await on.operations.allowRenewal({ leaseId }, OPERATOR, {
        ...BY,
        action: 'leases.allowRenewal',
      });
      await on.operations.revoke(revoke, OPERATOR, { ...BY, action: 'leases.revoke' });
    }

    const { items } = await listAudit(on.store.reads, { limit: 10, resource: `lease:${leaseId}` });
    const granted = { face: 'lease', namespace: 'user.update', name: '42' };
    expect(items).toMatchObject([
      { ...BY, action: 'leases.revoke', reason: 'stuck', detail: { ...granted, mode: 'force' } },
      { ...BY, action: 'leases.allowRenewal', reason: null, detail: granted },
      { ...BY, action: 'leases.blockRenewal', reason: 'freeze', detail: granted },
    ]);
  });

  test.each([
    ['lease', {}],
    ['environment', { action: 'deploy' }],
  ] as const)(
    'what cannot be recorded is not done: the %s stays held and renewable, without an event',
    async (face, change) => {
      const on = await openOperatedLeases({}, face);
      const { leaseId, fencingToken } = await acquired(on, change);
      const before = await eventsOf(on, '42');

      await expect(
        on.operations.revoke({ leaseId, mode: 'force', reason: 'stuck' }, OPERATOR, {
          ...UNAUDITED,
          action: 'leases.revoke',
        }),
      ).rejects.toThrow();
      await expect(
        on.operations.blockRenewal({ leaseId }, OPERATOR, {
          ...UNAUDITED,
          action: 'leases.blockRenewal',
        }),
      ).rejects.toThrow();

      expect(
        await on.service.heartbeat(
          { localTimeMs: 1, renewals: [{ leaseId, fencingToken }] },
          SERVICE,
        ),
      ).toMatchObject([{ outcome: 'renewed' }]);
      expect(await eventsOf(on, '42')).toEqual(before);
    },
  );

  test('C34 a lease revoked by force is free at once, and its late holder is fenced', async () => {
    const on = await openOperatedLeases();
    const old = await acquired(on);
    const held = await on.operations.get({ namespace: 'user.update', name: old.key }, OPERATOR);

    const revoked = await on.operations.revoke(
      { leaseId: old.leaseId, mode: 'force', reason: 'stuck' },
      OPERATOR,
    );
    const next = await acquired(on, { holder: 'bob' });

    expect(revoked.outcome).toBe('revoked');
    expect(held).not.toBeNull();
    expect(revoked.stopsBy).toBe(held?.expiresAt);
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(old.fencingToken) + 1n);
    expect(await on.service.heartbeat({ localTimeMs: 1, renewals: [old] }, SERVICE)).toMatchObject([
      { outcome: 'refused', reason: 'revoked' },
    ]);
    expect(await released(on, old)).toBe('revoked');
    expect(
      await on.operations.get({ namespace: 'user.update', name: '42' }, OPERATOR),
    ).toMatchObject({ holder: 'bob', phase: 'held' });
  });

  test('a lease revoked by force is given to the head of its line at once', async () => {
    const on = await openOperatedLeases();
    const old = await acquired(on);
    const waiting = acquire(on, { holder: 'bob', waitMs: 60_000 });
    await waitUntil(async () => (await lineOf(on)).length === 1);

    await on.operations.revoke({ leaseId: old.leaseId, mode: 'force', reason: 'x' }, OPERATOR);

    expect(await waiting).toMatchObject({ outcome: 'granted' });
  });

  test('a lease revoked gracefully is not renewed, and stays with its holder until it expires', async () => {
    const on = await openOperatedLeases();
    const lease = await acquired(on);

    const { outcome } = await on.operations.revoke(
      { leaseId: lease.leaseId, mode: 'graceful', reason: 'drain' },
      OPERATOR,
    );

    expect(outcome).toBe('revoking');
    expect(await acquire(on, { holder: 'bob' })).toMatchObject({ outcome: 'held', by: 'alice' });
    expect(await released(on, lease)).toBe('released');
  });

  test('get the answer gone for leases that have ended, are of another face or outside their namespaces', async () => {
    const on = await openOperatedLeases();
    const environments = await openOperatedLeases({ databaseUrl: on.databaseUrl }, 'environment');
    const lease = await acquired(on, { namespace: 'b' });
    const input = { leaseId: lease.leaseId, mode: 'force', reason: 'x' } as const;

    const gone = { outcome: 'gone', stopsBy: null };
    expect(await environments.operations.revoke(input, OPERATOR)).toEqual(gone);
    expect(await on.operations.revoke(input, LIMITED)).toEqual(gone);
    expect(await on.operations.blockRenewal(input, LIMITED)).toMatchObject({ changed: false });
    expect(await released(on, lease)).toBe('released');
    expect(await on.operations.revoke(input, OPERATOR)).toEqual(gone);
  });

  test('the history shows who did what and why, newest first', async () => {
    const on = await openOperatedLeases();
    const { leaseId } = await acquired(on);
    await on.operations.blockRenewal({ leaseId, reason: 'freeze' }, OPERATOR);
    await on.operations.revoke({ leaseId, mode: 'force', reason: 'stuck' }, OPERATOR);

    const of = { namespace: 'user.update', name: '42', limit: 2 };
    const first = await on.operations.history(of, OPERATOR);
    const rest = await on.operations.history({ ...of, cursor: first.nextCursor ?? '' }, OPERATOR);

    const shown = [...first.items, ...rest.items];
    expect(shown.map(({ kind, actor, reason }) => [kind, actor, reason])).toEqual([
      ['revoked', 'operator', 'stuck'],
      ['renewal_blocked', 'operator', 'freeze'],
      ['granted', 'service', null],
    ]);
    expect(await on.operations.history(of, LIMITED)).toEqual({ items: [], nextCursor: null });
    expect(await eventsOf(on, '42')).toHaveLength(3);
  });
});
