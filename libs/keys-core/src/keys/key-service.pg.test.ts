import { describe, expect, test } from 'vitest';
import { setDraining } from '../fleet/sql/drones.ts';
import { KEY_LADDERS } from '../kernel/ladder.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { age } from '../testing/kernel-fixture.ts';
import {
  CLIENT,
  connect,
  keyNamed,
  type Keys,
  openKeys,
  OPERATOR,
  reportOf,
} from '../testing/keys-fixture.ts';
import type { KeyListInput } from './key-types.ts';
import { createReaper } from './index.ts';

async function namesOf(
  on: Keys,
  input: Partial<KeyListInput> = {},
  caller = CLIENT,
): Promise<string[]> {
  const { items } = await on.keys.list({ limit: 100, ...input }, caller);
  return items.map(({ namespace, name }) => (namespace === '' ? name : `${namespace}/${name}`));
}

function key(
  name: string,
  namespace = '',
  tag = '',
): { name: string; namespace: string; tag: string } {
  return { name, namespace, tag };
}

describe('a key as operators see it', () => {
  test('shows its holder, backend and time left, as of one moment of the database', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const made = await connect(on, { key: key('demo', 'a.b', 'blue') });
    await on.keys.report(reportOf(drone, made.backendId, 'ready'));

    const view = await on.keys.get({ name: 'demo', namespace: 'a.b' }, CLIENT);

    expect(view).toMatchObject({
      name: 'demo',
      namespace: 'a.b',
      tag: 'blue',
      phase: 'held',
      leaseId: made.leaseId,
      fencingToken: made.fencingToken,
      holder: drone.droneId,
      droneId: drone.droneId,
      backendId: made.backendId,
      backendStatus: 'ready',
      renewable: true,
      waiters: 0,
      datacenter: 'local',
    });
    expect(Date.parse(view?.expiresAt ?? '') - Date.parse(view?.asOf ?? '')).toBeCloseTo(
      view?.remainingMs ?? 0,
      -3,
    );
  });

  test('shows its ladder, what ended it, and until when its holder may act', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const seen = async (name: string): Promise<unknown> =>
      on.keys.get({ name, namespace: '' }, CLIENT);
    const { backendId } = await connect(on, { key: key('released') });
    const forced = await connect(on, { key: key('forced') });
    const lapsed = await connect(on, { key: key('lapsed') });

    expect(await seen('released')).toMatchObject({
      ladder: KEY_LADDERS.standard,
      stopsBy: null,
      endReason: null,
      releasedAt: null,
    });
    await on.keys.report(reportOf(drone, backendId, 'terminated'));
    const { leaseId } = forced;
    const { stopsBy } = await on.keys.revoke(
      { leaseId, mode: 'force', reason: 'test', abandon: false },
      OPERATOR,
    );
    await age(on, lapsed.leaseId, 60_000);

    expect(await seen('released')).toMatchObject({
      endReason: 'released',
      releasedAt: expect.stringMatching(/Z$/u) as string,
    });
    expect(await seen('forced')).toMatchObject({ endReason: 'revoked', stopsBy });
    expect(await seen('lapsed')).toMatchObject({ phase: 'expired', endReason: 'expired' });
  });

  test('tells whether the program of its last backend failed, and how', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const [running, crashed, asked] = [key('running'), key('crashed'), key('asked')];
    const ends = [
      [running, null],
      [crashed, { reason: 'exited', exitCode: 17 }],
      [asked, { reason: 'revoked', exitCode: 143 }],
    ] as const;
    for (const [of, end] of ends) {
      const { backendId } = await connect(on, { key: of });
      await on.keys.report(reportOf(drone, backendId, 'ready', { address: '127.0.0.1:1' }));
      if (end !== null) await on.keys.report(reportOf(drone, backendId, 'terminated', end));
    }

    const { items } = await on.keys.list({ limit: 10 }, CLIENT);

    expect(Object.fromEntries(items.map(({ name, backendEnd }) => [name, backendEnd]))).toEqual({
      running: null,
      crashed: { reason: 'exited', exitCode: 17, hasFailed: true },
      asked: { reason: 'revoked', exitCode: 143, hasFailed: false },
    });
  });

  test('is null when nobody ever held it, and when the caller may not see it', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    await connect(on, { key: key('demo', 'user2') });

    expect(await on.keys.get({ name: 'other', namespace: 'user2' }, CLIENT)).toBeNull();
    expect(
      await on.keys.get({ name: 'demo', namespace: 'user2' }, { ...CLIENT, namespaces: ['user'] }),
    ).toBeNull();
    expect(await on.keys.get({ name: 'demo', namespace: 'user2' }, CLIENT)).not.toBeNull();
  });
});

describe('a list of keys', () => {
  test('can leave out keys that nobody has held for long, whatever ended them', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const hourMs = 3_600_000;
    for (const name of ['held', 'freed', 'freed-long', 'lapsed', 'lapsed-long']) {
      const { leaseId, backendId } = await connect(on, { key: key(name) });
      if (name.startsWith('freed')) {
        await on.keys.report(reportOf(drone, backendId, 'terminated', { exitCode: 0 }));
      }
      if (name === 'lapsed') await age(on, leaseId, KEY_LADDERS.fast.ttlMs);
      if (name.endsWith('-long')) await age(on, leaseId, 2 * hourMs);
    }
    const { leaseId } = await connect(on, { key: key('renewed') });
    await on.store.general.$executeRaw`
      update lease set granted_at = granted_at - interval '1 day' where lease_id = ${leaseId}::uuid`;

    const recent = await namesOf(on, { endedWithinMs: hourMs });

    expect(recent).toEqual(['freed', 'held', 'lapsed', 'renewed']);
    expect(await namesOf(on)).toHaveLength(6);
  });

  test('filters by namespace, name, prefix, tag, holder and drone', async () => {
    const on = await openKeys();
    const one = await aDrone(on.store.general);
    await connect(on, { key: key('alpha', 'a', 'blue') });
    const made = await connect(on, { key: key('alps', 'a') });
    await connect(on, { key: key('alpha', 'a.b') });
    await setDraining(on.store.general, one.droneId, true);
    const two = await aDrone(on.store.general);
    await connect(on, { key: key('al%a') });

    expect(await namesOf(on, { namespace: 'a' })).toEqual(['a/alpha', 'a/alps']);
    expect(await namesOf(on, { namespace: 'a', includeChildren: true })).toEqual([
      'a/alpha',
      'a/alps',
      'a.b/alpha',
    ]);
    expect(await namesOf(on, { namespace: '' })).toEqual(['al%a']);
    expect(await namesOf(on, { leaseId: made.leaseId })).toEqual(['a/alps']);
    expect(await namesOf(on, { name: 'alpha' })).toEqual(['a/alpha', 'a.b/alpha']);
    expect(await namesOf(on, { prefix: 'alp' })).toEqual(['a/alpha', 'a/alps', 'a.b/alpha']);
    expect(await namesOf(on, { prefix: 'al%' })).toEqual(['al%a']);
    expect(await namesOf(on, { tag: 'blue' })).toEqual(['a/alpha']);
    expect(await namesOf(on, { holder: two.droneId })).toEqual(['al%a']);
    expect(await namesOf(on, { droneId: one.droneId, name: 'alpha' })).toEqual([
      'a/alpha',
      'a.b/alpha',
    ]);
  });

  test('filters by the phase that it shows', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general, { capacity: 100 });
    const made = async (name: string): Promise<{ backendId: string; leaseId: string }> =>
      connect(on, { key: key(name) });
    const revoke = async (
      name: string,
      mode: 'graceful' | 'force',
      abandon: boolean,
    ): Promise<void> => {
      const { leaseId } = await made(name);
      await on.keys.revoke({ leaseId, mode, reason: 'test', abandon }, OPERATOR);
    };
    await made('held');
    await revoke('expiring, graceful', 'graceful', false);
    await revoke('expiring, by force', 'force', false);
    await revoke('free, abandoned', 'force', true);
    const released = await made('free, released');
    await on.keys.report(reportOf(drone, released.backendId, 'terminated'));
    const reaped = await made('expired, reaped');
    await age(on, reaped.leaseId, 60_000);
    await createReaper(on.store).runOnce();
    const lapsed = await made('expired, unnoticed');
    await age(on, lapsed.leaseId, 60_000);

    const byPhase = new Map<string, string[]>();
    for (const phase of ['held', 'expiring', 'expired', 'free'] as const) {
      const { items } = await on.keys.list({ phase, limit: 100 }, CLIENT);
      expect(items.map((item) => item.phase)).toEqual(items.map(() => phase));
      byPhase.set(
        phase,
        items.map((item) => item.name),
      );
    }

    expect(Object.fromEntries(byPhase)).toEqual({
      held: ['held'],
      expiring: ['expiring, by force', 'expiring, graceful'],
      expired: ['expired, reaped', 'expired, unnoticed'],
      free: ['free, abandoned', 'free, released'],
    });
  });

  test('shows a limited caller its namespaces and their children, and none with a similar name', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    for (const namespace of ['', 'user', 'user.a', 'user2', 'us']) {
      await connect(on, { key: key('k', namespace) });
    }

    expect(await namesOf(on, {}, { ...CLIENT, namespaces: ['user'] })).toEqual([
      'user/k',
      'user.a/k',
    ]);
    expect(await namesOf(on, { namespace: 'user2' }, { ...CLIENT, namespaces: ['user'] })).toEqual(
      [],
    );
    expect(await namesOf(on, {}, { ...CLIENT, namespaces: [] })).toEqual([]);
    expect(await namesOf(on)).toHaveLength(5);
  });

  test.each([
    ['name', 'asc'],
    ['name', 'desc'],
    ['grantedAt', 'asc'],
    ['grantedAt', 'desc'],
    ['expiresAt', 'asc'],
    ['expiresAt', 'desc'],
  ] as const)(
    'pages by %s %s through every key once, while others come and go',
    async (sort, direction) => {
      const on = await openKeys();
      await aDrone(on.store.general, { capacity: 100 });
      const names = Array.from({ length: 9 }, (_, index) => `n${String(index)}`);
      for (const [index, name] of names.entries()) {
        // Three of each instant, so that the name has to decide.
        const { leaseId } = await connect(on, { key: key(name) });
        await on.store.general.$executeRaw`
        update lease set granted_at = date_trunc('hour', granted_at) + ${Math.floor(index / 3)} * interval '1 second',
          expires_at = date_trunc('hour', expires_at) + interval '2 hours' + ${Math.floor(index / 3)} * interval '1 second'
        where lease_id = ${leaseId}::uuid`;
      }

      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await on.keys.list({ sort, direction, cursor, limit: 2 }, CLIENT);
        seen.push(...page.items.map(({ name }) => name));
        cursor = page.nextCursor ?? undefined;
        // Between two pages a shown key is removed and a new one is granted.
        await on.store.general
          .$executeRaw`delete from lease where name = ${seen[0]} and name like 'n%'`;
        await connect(on, {
          key: key(direction === 'asc' ? `a${String(seen.length)}` : `z${String(seen.length)}`),
        });
      } while (cursor !== undefined && seen.length < 50);

      const expected = direction === 'asc' ? names : [...names].reverse();
      expect(seen.filter((name) => names.includes(name))).toEqual(expected);
      expect(new Set(seen).size).toBe(seen.length);
    },
  );

  test('refuses a cursor that no list has returned, or that belongs to another order', async () => {
    const on = await openKeys();
    const encoded = (value: unknown): string =>
      Buffer.from(JSON.stringify(value)).toString('base64url');

    const list = (sort: 'name' | 'grantedAt', cursor: string): Promise<unknown> =>
      on.keys.list({ sort, cursor, limit: 10 }, CLIENT);

    for (const place of [
      {},
      [1],
      ['x', 'a', 'b'],
      ['', 1, 'b'],
      ['', 'a\0', 'b'],
      ['', 'a', '\ud800'],
    ]) {
      await expect(list('name', encoded(place))).rejects.toMatchObject({ code: 'request.invalid' });
    }
    for (const place of [
      ['1e300', 'a', 'b'],
      ['', 'a', 'b'],
      ['9e15', 'a', 'b'],
      ['-8e15', 'a', 'b'],
      ['x', 'a', 'b'],
    ]) {
      await expect(list('grantedAt', encoded(place))).rejects.toMatchObject({
        code: 'request.invalid',
      });
    }
    await expect(list('name', encoded(['1', 'a', 'b']))).rejects.toMatchObject({
      code: 'request.invalid',
    });
    expect(await list('grantedAt', encoded(['8e15', 'a', 'b']))).toMatchObject({ items: [] });
    for (const cursor of ['nonsense', encoded(['x']), encoded(['1; drop'])]) {
      await expect(
        on.keys.history({ ...keyNamed('k'), cursor, limit: 1 }, CLIENT),
      ).rejects.toMatchObject({
        code: 'request.invalid',
      });
    }
  });
});

describe('the history of a key', () => {
  test('shows every event with its actor and reason, newest first, page by page', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { leaseId, backendId } = await connect(on);
    await on.keys.blockRenewal({ leaseId, reason: 'freeze' }, OPERATOR);
    await on.keys.allowRenewal({ leaseId }, OPERATOR);
    await on.keys.report(reportOf(drone, backendId, 'terminated', { reason: 'external' }));
    await connect(on);

    const first = await on.keys.history({ ...keyNamed('demo'), limit: 3 }, CLIENT);
    const rest = await on.keys.history(
      { ...keyNamed('demo'), limit: 3, cursor: first.nextCursor ?? '' },
      CLIENT,
    );

    expect(
      [...first.items, ...rest.items].map(({ kind, actor, reason }) => [kind, actor, reason]),
    ).toEqual([
      ['granted', 'client', null],
      ['released', `drone:${drone.droneId}`, 'it was stopped by an operator, or with its drone'],
      ['renewal_allowed', 'operator', null],
      ['renewal_blocked', 'operator', 'freeze'],
      ['granted', 'client', null],
    ]);
    expect(rest.nextCursor).toBeNull();
  });

  test('and its waiters are empty for a caller that may not see it', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on, { key: key('demo', 'user2') });
    await on.keys.report(reportOf(drone, backendId, 'terminating'));
    const limited = { ...CLIENT, namespaces: ['user'] };
    const asked = { name: 'demo', namespace: 'user2', limit: 10 };

    expect(await on.keys.history(asked, limited)).toEqual({ items: [], nextCursor: null });
    expect(await on.keys.waiters(asked, limited)).toEqual({ items: [], nextCursor: null });
    expect((await on.keys.history(asked, CLIENT)).items).toHaveLength(1);
  });
});
