import { randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readItems } from '../bulk/sql.ts';
import { createObserving } from '../events/index.ts';
import { HEARTBEAT_MS } from '../kernel/ladder.ts';
import type { SlotMode } from '../kernel/lease.ts';
import { createSearchService } from '../search/index.ts';
import { recordRefusedRenewals } from '../stats/sql/refusals.ts';
import { readMostWaitedFor } from '../stats/sql/stats-buckets.ts';
import { openStream } from '../testing/event-fixture.ts';
import type { GrantedLease } from '../leases/lease-types.ts';
import { OPERATOR } from '../testing/keys-fixture.ts';
import { acquired, inLine } from '../testing/lease-fixture.ts';
import { openOperatedLeases, type OperatedLeases } from '../testing/lease-operations-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';

const SCOPE = { namespace: 'user.update', name: '42' } as const;

interface Kind {
  readonly kind: string;
  readonly mode: SlotMode;
  readonly permits?: { readonly perKey: number; readonly total: number | null };
}

/** What several may hold at once. Their grants are in rows that are named in two ways. */
const KINDS: readonly Kind[] = [
  { kind: 'permits of each key', mode: 'permit', permits: { perKey: 2, total: null } },
  { kind: 'permits of all keys together', mode: 'permit', permits: { perKey: 2, total: 5 } },
  { kind: 'a lease that is shared', mode: 'shared' },
];

/** Two hold it, and a third one waits. */
async function heldByTwo({ mode, permits }: Kind) {
  const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
  if (permits !== undefined) await declarePermits(on, permits, SCOPE.namespace);
  const one = await acquired(on, { mode, holder: 'one', metadata: { at: 'work' } });
  await makeEarlier(on, one, 4);
  const two = await acquired(on, { mode, holder: 'two' });
  await inLine(on, 'three', { mode: mode === 'permit' ? mode : 'exclusive' });
  return { on, one, two };
}

/** As if it had been granted so much earlier. */
async function makeEarlier(
  { store }: OperatedLeases,
  { leaseId }: GrantedLease,
  byMs: number,
): Promise<void> {
  await store.general.$executeRaw`
    update lease set granted_at = granted_at - ${byMs} * interval '1 ms' where lease_id = ${leaseId}::uuid`;
  await store.general.$executeRaw`
    update lease_event set at = at - ${byMs} * interval '1 ms' where lease_id = ${leaseId}::uuid`;
}

/** The first state that an observer is told. */
async function observed({ store }: OperatedLeases, name: string = SCOPE.name) {
  const over = new AbortController();
  onTestFinished(() => over.abort());
  const observing = createObserving({
    store,
    stream: openStream(store),
    onError: (error) => {
      throw error;
    },
  });
  const states = observing.observe({ face: 'lease', ...SCOPE, name }, over.signal);
  for await (const { holding } of states) return holding;
  return undefined;
}

function searchOf({ store }: OperatedLeases) {
  const service = createSearchService({
    store,
    heartbeatMs: HEARTBEAT_MS.standard,
    onFailure: (error) => {
      throw error;
    },
  });
  return async (text: string) => (await service.find({ text, limit: 10 }, OPERATOR)).items;
}

describe.each(KINDS)('of $kind', (kind) => {
  test('an observer is told who holds it, the first of them with what it says of itself', async () => {
    const { on, one, two } = await heldByTwo(kind);

    expect(await observed(on)).toMatchObject({
      holder: 'one',
      leaseId: one.leaseId,
      fencingToken: one.fencingToken,
      metadata: { at: 'work' },
      sharing: {
        mode: kind.mode,
        holderCount: 2,
        others: [{ holder: 'two', leaseId: two.leaseId, mode: kind.mode }],
      },
    });
    expect(await observed(on, 'nobody has this')).toBeNull();
  });

  test('a search finds it held, by its name, by a token and by a lease id', async () => {
    const { on, one, two } = await heldByTwo(kind);
    const find = searchOf(on);
    const [{ leaseId: waiting } = { leaseId: '' }] = await on.store.general.$queryRaw<
      { leaseId: string }[]
    >`select ticket_id as "leaseId" from lease_waiter`;

    for (const text of ['user.update/42', one.leaseId, two.fencingToken, waiting]) {
      const found = await find(text);
      expect(found, text).toMatchObject([{ ...SCOPE, state: 'held', isLive: true }]);
      expect(['one', 'two'], text).toContain(found[0]?.detail);
    }
  });

  test('a list of what is waited for has both, as many as it counts', async () => {
    const { on } = await heldByTwo(kind);
    await acquired(on, { name: 'other' });
    const filter = { is: 'waited' } as const;

    const { items } = await on.operations.list({ ...filter, limit: 10 }, OPERATOR);

    expect(items.map(({ name, holder }) => `${name} ${holder}`).sort()).toEqual([
      '42 one',
      '42 two',
    ]);
    expect(await on.operations.count(filter, OPERATOR)).toMatchObject({ count: 2 });
  });

  test('an action on many grants names the scope of each', async () => {
    const { on, one } = await heldByTwo(kind);
    const bulkId = randomUUID();
    const item = { leaseId: one.leaseId, fencingToken: one.fencingToken };
    await on.store.general.$executeRaw`
      insert into bulk (id, action, reason, actor, principal, role, state, total)
      values (${bulkId}::uuid, 'revoke', 'r', 'a', 'p', 'operator', 'done', 1)`;
    await on.store.general.$executeRaw`
      insert into bulk_item (bulk_id, place, lease_id, fencing_token)
      values (${bulkId}::uuid, 1, ${item.leaseId}::uuid, ${item.fencingToken}::bigint)`;

    const [shown] = await readItems(on.store.reads, bulkId, { afterPlace: null, limit: 1 });

    expect(shown).toMatchObject(SCOPE);
  });

  test('the overview names one of them where others wait', async () => {
    const { on } = await heldByTwo(kind);

    const [contended] = await readMostWaitedFor(on.store.guests, 10);

    expect(contended).toMatchObject({ ...SCOPE, waiters: 1 });
    expect(['one', 'two']).toContain(contended?.holder);
  });

  test('a renewal that was refused is in the history of the scope, and nobody has it instead', async () => {
    const { on, one } = await heldByTwo(kind);
    const { leaseId, fencingToken } = one;
    const ages = { firstAgeMs: 0, lastAgeMs: 0 };
    await recordRefusedRenewals(on.store.general, [
      {
        face: 'lease',
        leaseId,
        fencingToken,
        principal: 'x',
        reason: 'expired',
        count: 1,
        ...ages,
      },
    ]);

    const [event] = await on.store.general.$queryRaw<{ name: string; detail: object }[]>`
      select name, detail from lease_event where kind = 'renewal_refused'`;

    expect(event?.name).toBe(SCOPE.name);
    expect(event?.detail).not.toHaveProperty('nextHolder');
  });

  test('the answer to who held it at a moment names both, and each alone before and after', async () => {
    const { on, one, two } = await heldByTwo(kind);
    const at = async (moment: string) => on.operations.at({ ...SCOPE, at: moment }, OPERATOR);
    const [row] = await on.store.general.$queryRaw<{ between: string; now: string }[]>`
      select to_json(min(granted_at) + interval '1 ms') #>> '{}' as between,
        to_json(clock_timestamp()) #>> '{}' as now
      from lease where lease_id in (${one.leaseId}::uuid, ${two.leaseId}::uuid)`;
    // It may have the time of now, and is still later than the other.
    await makeEarlier(on, two, 2);

    const first = await at(String(row?.between));
    const both = await at(String(row?.now));

    expect(first).toMatchObject({
      phase: 'held',
      sharing: { holderCount: 1, holders: [{ holder: 'one', mode: kind.mode }] },
    });
    expect(both).toMatchObject({
      phase: 'held',
      grant: { holder: 'one', leaseId: one.leaseId },
      sharing: {
        holderCount: 2,
        isComplete: true,
        holders: [{ holder: 'one' }, { holder: 'two' }],
      },
    });
  });
});
