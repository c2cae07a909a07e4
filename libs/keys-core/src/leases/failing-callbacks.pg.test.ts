import { describe, expect, test } from 'vitest';
import { aCoordinator, makeNotes, note, openSession } from '../testing/coordinator-fixture.ts';
import { explaining } from '../testing/explaining.ts';
import { age, granted } from '../testing/kernel-fixture.ts';
import { OPERATOR } from '../testing/keys-fixture.ts';
import { SERVICE } from '../testing/lease-fixture.ts';
import { openOperatedLeases, type OperatedLeases } from '../testing/lease-operations-fixture.ts';
import { countFailingCallbacks, readFailingCallbacks } from './sql/contention.ts';

const LIMITED = { ...OPERATOR, namespaces: ['a'] };

/** Lets a lease of each namespace expire, one after the other, and has its use case fail with this error. */
async function failed(
  on: OperatedLeases,
  namespaces: readonly string[],
  error: unknown,
): Promise<void> {
  for (const namespace of namespaces) {
    const { leaseId } = await granted(on, { namespace, name: 'x' });
    await age(on, leaseId, 60_000);
    await aCoordinator(on).reapStaleLeases([namespace.split('.')], false, () => {
      throw error;
    });
  }
}

describe('failing callbacks', () => {
  test('are shown with lease, service, tries, error, next try and end, and no longer once they succeed', async () => {
    const on = await openOperatedLeases();
    await makeNotes(on);
    await on.operations.declare({ declarations: [{ namespace: 'a', ttlMs: 30_000 }] }, SERVICE);
    await failed(on, ['a'], new Error('no such account'));
    await granted(on, { namespace: 'a', name: 'x', holder: 'bob' });

    const shown = await on.operations.failingCallbacks({ limit: 10 }, OPERATOR);
    const counted = await countFailingCallbacks(on.store.general);
    await on.store.general.$executeRaw`update lease_reap set next_attempt_at = clock_timestamp()`;
    await aCoordinator(on).reapStaleLeases([['a']], false, (_id, scope, tx) => note(tx, scope.key));
    const after = await on.operations.failingCallbacks({ limit: 10 }, OPERATOR);

    expect(shown.items).toMatchObject([
      { namespace: 'a', name: 'x', service: 'service', tries: 1, lastError: 'no such account' },
    ]);
    const [one] = shown.items;
    const sinceExpiredMs = (at: string | undefined): number =>
      Date.parse(at ?? '') - Date.parse(one?.expiredAt ?? '');
    expect(sinceExpiredMs(one?.nextTryAt)).toBeGreaterThan(0);
    expect(sinceExpiredMs(one?.droppedAt)).toBe(24 * 60 * 60 * 1_000);
    expect(counted).toBe(1);
    expect([after.items, await countFailingCallbacks(on.store.general)]).toEqual([[], 0]);
  });

  test('one that was never tried is not among them', async () => {
    const on = await openOperatedLeases();
    const { leaseId } = await granted(on, { namespace: 'a', name: 'x' });
    await age(on, leaseId, 60_000);
    await granted(on, { namespace: 'a', name: 'x', holder: 'bob' });

    const { items } = await on.operations.failingCallbacks({ limit: 10 }, OPERATOR);

    expect(items).toEqual([]);
  });

  test('an error of any length and any text is kept to a bound', async () => {
    const on = await openOperatedLeases();
    await failed(on, ['a'], new Error(`\0${'😀'.repeat(100_000)}`));
    await failed(on, ['b'], { toString: () => 'not an Error' });

    const { items } = await on.operations.failingCallbacks({ limit: 10 }, OPERATOR);

    expect(Buffer.byteLength(items[0]?.lastError ?? '')).toBe(1_024);
    expect(items[1]?.lastError).toBe('not an Error');
  });

  test('come page by page, oldest first, of a namespace and its children, and only those that the caller may see', async () => {
    const on = await openOperatedLeases();
    await failed(on, ['a.c', 'b', 'a', 'ab'], new Error('no'));
    const namesOf = ({ items }: { items: { namespace: string }[] }): string[] =>
      items.map(({ namespace }) => namespace);

    const first = await on.operations.failingCallbacks({ limit: 3 }, OPERATOR);
    const rest = await on.operations.failingCallbacks(
      { limit: 3, cursor: first.nextCursor ?? '' },
      OPERATOR,
    );
    const within = await on.operations.failingCallbacks({ namespace: 'a', limit: 10 }, OPERATOR);
    const limited = await on.operations.failingCallbacks({ limit: 10 }, LIMITED);

    expect([...namesOf(first), ...namesOf(rest)]).toEqual(['a.c', 'b', 'a', 'ab']);
    expect(rest.nextCursor).toBeNull();
    expect(namesOf(within)).toEqual(['a.c', 'a']);
    expect(namesOf(limited)).toEqual(['a.c', 'a']);
    await expect(
      on.operations.failingCallbacks({ limit: 3, cursor: 'WyJhIiwiYiJd' }, OPERATOR),
    ).rejects.toMatchObject({ code: 'request.invalid' });
  });

  test('are found and counted without reading the callbacks that nobody has claimed', async () => {
    const on = await openOperatedLeases();
    const session = await openSession(on);
    await session.query(`
      insert into lease_reap (lease_id, face, namespace, name, fencing_token, attempts, next_attempt_at)
      select gen_random_uuid(), 'lease', 'n' || i % 100, 'r' || i, i, (i % 1000 = 0)::int, now()
      from generate_series(1, 50000) i`);
    await session.query('analyze');
    const { sql, plans } = explaining(session);

    const page = { namespace: 'n', namespaces: ['n'], after: null, limit: 100 } as const;
    await readFailingCallbacks(sql, page);
    await countFailingCallbacks(sql);

    expect(plans).toHaveLength(2);
    for (const plan of plans) {
      expect(plan).toContain('lease_reap_failing_idx');
      expect(plan).not.toMatch(/Seq Scan on lease_reap\b/u);
    }
  });
});
