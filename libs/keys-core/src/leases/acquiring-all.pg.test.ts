import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import pg from 'pg';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { invariant } from '../kernel/errors.ts';
import { createGroupGranter } from '../grants/granting-all.ts';
import { joinLine } from '../grants/sql/line.ts';
import { joinLines } from '../grants/sql/grant-all.ts';
import { leaseTopic } from '../kernel/resource.ts';
import { SILENT_OBSERVER, type StoreObserver } from '../postgres/kernel-store.ts';
import { openSession, someoneWaits } from '../testing/coordinator-fixture.ts';
import { age, aRequest, hearsHints } from '../testing/kernel-fixture.ts';
import {
  aCaller,
  acquire,
  codeOf,
  inLine,
  type Leases,
  lineOf,
  openLeases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import {
  acquireAll,
  allOf,
  inLines,
  NAMESPACE,
  one,
  releasedAll,
} from '../testing/together-fixture.ts';

/** Who holds what now, by its name. */
async function heldIn({ store }: Leases): Promise<Record<string, string>> {
  const rows = await store.general.$queryRaw<{ name: string; holder: string }[]>`
    select name, holder from lease
    where namespace = ${NAMESPACE} and lease_unexpired(released_at, end_reason, expires_at)
    order by name`;
  return Object.fromEntries(rows.map(({ name, holder }) => [name, holder]));
}

/** Another caller's new row of `b`, in a transaction that is not committed yet. */
const INSERT_B = `
  insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal,
    ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
  values ('lease', 'accounts', 'b', gen_random_uuid(), lease_next_token(0), 'bob', 'token-b',
    60000, 1000, 2000, 3000, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 minute')`;

/** What only a read of what stands in the way has in its text, and what only an attempt for several leases has. */
const A_LOOK = 'as \\"poolKind\\"';
const AN_ATTEMPT = 'as \\"isAll\\"';

/** The sessions that wait for a lock. */
async function blocked({ store }: Leases): Promise<number[]> {
  const rows = await store.general.$queryRaw<{ pid: number }[]>`
    select pid from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`;
  return rows.map(({ pid }) => pid);
}

describe('an acquire of several leases', () => {
  test('grants all of them, each with an id and a token of its own, in the order asked', async () => {
    const at = await openLeases();
    await released(at, await one(at, 'b'));

    const leases = await allOf(acquireAll(at, ['b', 'a', 'c']));

    expect(leases.map(({ key, namespace }) => [...namespace, key].join('/'))).toEqual([
      'accounts/b',
      'accounts/a',
      'accounts/c',
    ]);
    expect(new Set(leases.map(({ leaseId }) => leaseId)).size).toBe(3);
    expect(new Set(leases.map(({ deadlines }) => deadlines.loseAtMs > 1_000_000))).toEqual(
      new Set([true]),
    );
    expect(await heldIn(at)).toEqual({ a: 'alice', b: 'alice', c: 'alice' });
  });

  test('grants none if one is held, and says which, by whom and for how long', async () => {
    const at = await openLeases();
    await one(at, 'b', { holder: 'bob', comment: 'moving' });

    const answer = await acquireAll(at, ['a', 'b', 'c']);

    expect(answer).toMatchObject({
      outcome: 'held',
      namespace: ['accounts'],
      key: 'b',
      by: 'bob',
      comment: 'moving',
    });
    expect(await heldIn(at)).toEqual({ b: 'bob' });
  });

  test('the largest request has 64 leases', async () => {
    const at = await openLeases();
    const names = Array.from({ length: 64 }, (_, place) => `n${String(place)}`);

    const leases = await allOf(acquireAll(at, names));

    expect(new Set(leases.map(({ leaseId }) => leaseId)).size).toBe(64);
    expect(Object.keys(await heldIn(at))).toHaveLength(64);
  });

  test('the same request gets the same leases again; another one with its key is refused', async () => {
    const at = await openLeases();
    const idempotencyKey = randomUUID();
    const first = await allOf(acquireAll(at, ['a', 'b'], { idempotencyKey }));

    const again = await allOf(acquireAll(at, ['a', 'b'], { idempotencyKey }));

    expect(again.map(({ leaseId }) => leaseId)).toEqual(first.map(({ leaseId }) => leaseId));
    await expect(codeOf(acquireAll(at, ['a', 'c'], { idempotencyKey }))).resolves.toBe(
      'request.idempotency_reused',
    );
  });

  test('what was refused once is not granted to a late duplicate', async () => {
    const at = await openLeases();
    const idempotencyKey = randomUUID();
    const held = await one(at, 'b', { holder: 'bob' });
    await acquireAll(at, ['a', 'b'], { idempotencyKey });
    await released(at, held);

    const again = await acquireAll(at, ['a', 'b'], { idempotencyKey });

    expect(again).toMatchObject({ outcome: 'held', key: 'b', by: 'bob' });
    expect(await heldIn(at)).toEqual({});
  });

  test('a row that is inserted meanwhile takes none of the others with it', async () => {
    const at = await openLeases();
    const session = await openSession(at);
    await session.query('begin');
    await session.query(INSERT_B);
    const answer = acquireAll(at, ['a', 'b', 'c']);
    answer.catch(() => undefined);
    await waitUntil(async () => (await blocked(at)).length > 0);

    await session.query('commit');

    await expect(answer).resolves.toMatchObject({ outcome: 'held', key: 'b', by: 'bob' });
    expect(await heldIn(at)).toEqual({ b: 'bob' });
  });

  test('F11 while the whole table is locked it is refused with this reason', async () => {
    const at = await openLeases();
    const session = await openSession(at);
    await session.query('begin');
    await session.query('lock table lease in access exclusive mode');

    const refused = acquireAll(at, ['a', 'b']);

    await expect(refused).rejects.toMatchObject({
      code: 'store.unavailable',
      details: { reason: 'table_locked' },
    });
    await session.query('rollback');
    expect(await heldIn(at)).toEqual({});
  });
});

describe('waiting for several leases', () => {
  test('is granted all in its turn, when the last of them is free', async () => {
    const at = await openLeases();
    const [a, b] = [await one(at, 'a'), await one(at, 'b')];
    const { answer } = await inLines(at, ['a', 'b'], { holder: 'mover' });
    await released(at, a);

    await waitUntil(async () => (await heldIn(at))['a'] === undefined);
    await released(at, b);

    expect(await allOf(answer)).toHaveLength(2);
    expect(await heldIn(at)).toEqual({ a: 'mover', b: 'mover' });
    expect([await lineOf(at, 'a'), await lineOf(at, 'b')]).toEqual([[], []]);
  });

  test('its tickets have numbers next to each other, with nobody between them', async () => {
    const at = await openLeases();
    await one(at, 'a');
    await inLines(at, ['b', 'a', 'c'], { holder: 'mover' });
    await inLine(at, 'single', { namespace: NAMESPACE, name: 'a' });

    const rows = await at.store.general.$queryRaw<{ name: string; waiter: string; id: number }[]>`
      select name, waiter, id::float8 as id from lease_waiter where namespace = ${NAMESPACE} order by id`;

    expect(rows.map(({ name, waiter }) => `${waiter} ${name}`)).toEqual([
      'mover b',
      'mover a',
      'mover c',
      'single a',
    ]);
    const [first = 0, ...ids] = rows.map(({ id }) => id);
    expect(ids.slice(0, 2)).toEqual([first + 1, first + 2]);
    expect(ids[2]).toBeGreaterThanOrEqual(first + 64);
  });

  /** A caller in line for one lease whose place nobody prolongs, and which does not lapse. */
  async function standIn(at: Leases, name: string, waiter: string): Promise<void> {
    const ticket = { face: 'lease', namespace: NAMESPACE, name, waiter } as const;
    const ids = { ticketId: randomUUID(), idempotencyKey: randomUUID() };
    await joinLine(at.store.general, [{ ...ticket, ...ids, principal: SERVICE.principal }]);
    await at.store.general
      .$executeRaw`update lease_waiter set valid_until = clock_timestamp() + interval '1 minute'`;
  }

  test('does not pass a caller who came before, in any of the lines', async () => {
    const at = await openLeases();
    await standIn(at, 'b', 'early');

    const own = { namespace: NAMESPACE, holder: 'mover', isQueued: true };
    const [a, b] = ['a', 'b'].map((name) => aRequest({ ...own, name }));
    invariant(a !== undefined && b !== undefined, 'it wants two leases');
    await joinLines(at.store.general, {
      ...a,
      ticketId: a.leaseId,
      waiter: a.holder,
      idempotencyKey: randomUUID(),
      others: [{ ...b, ticketId: b.leaseId }],
    });

    // As after a hint: without a look before.
    const outcome = await createGroupGranter(at.store).grantAll([a, b]);

    expect(outcome).toMatchObject({ outcome: 'queued', place: 1, head: { waiter: 'early' } });
    expect(await heldIn(at)).toEqual({});
  });

  test('is not passed in any of the lines, while it waits for one lease', async () => {
    const at = await openLeases();
    const ids = [randomUUID(), randomUUID()] as const;
    const place = { face: 'lease', namespace: NAMESPACE } as const;
    await joinLines(at.store.general, {
      ...place,
      name: 'a',
      ticketId: ids[0],
      waiter: 'mover',
      principal: SERVICE.principal,
      idempotencyKey: randomUUID(),
      others: [{ ...place, name: 'b', ticketId: ids[1] }],
    });
    await at.store.general
      .$executeRaw`update lease_waiter set valid_until = clock_timestamp() + interval '1 minute'`;

    const answers = await Promise.all([
      acquire(at, { namespace: NAMESPACE, name: 'a', holder: 'late' }),
      acquireAll(at, ['c', 'b'], { holder: 'late' }),
    ]);

    expect(answers).toMatchObject([
      { outcome: 'held', by: 'mover' },
      { outcome: 'held', by: 'mover', key: 'b' },
    ]);
  });

  test('two that want the same leases in opposite orders, at two controllers, are both served', async () => {
    const at = await openLeases();
    const other = await openLeases({ databaseUrl: at.databaseUrl });
    const [a, b] = [await one(at, 'a'), await one(at, 'b')];
    const { answer: first } = await inLines(at, ['a', 'b'], { holder: 'first' });
    const { answer: second } = await inLines(other, ['b', 'a'], { holder: 'second' });
    await released(at, b);
    await released(at, a);

    // In either order: on a machine that is busy, the first may lose its places for a moment.
    const served = await Promise.all(
      [first, second].map(async (answer) => releasedAll(at, await allOf(answer))),
    );

    expect(served.flat()).toEqual(['released', 'released', 'released', 'released']);
  });

  test('a dead one delays nobody for long: all its places lapse together', async () => {
    const at = await openLeases();
    const b = await one(at, 'b');
    const dead = aCaller();
    await inLines(at, ['a', 'b'], { holder: 'dead' }, dead);
    const next = await inLine(at, 'next', { namespace: NAMESPACE, name: 'a' });

    dead.fallSilent();

    await expect(next.answer).resolves.toMatchObject({ outcome: 'granted' });
    await released(at, b);
    await expect(one(at, 'b')).resolves.toMatchObject({ key: 'b' });
  });

  test('when its time is over it leaves every line, and says what stood in its way', async () => {
    const at = await openLeases();
    await one(at, 'b', { holder: 'bob' });

    const answer = await acquireAll(at, ['a', 'b'], { waitMs: 50, holder: 'mover' });

    expect(answer).toMatchObject({ outcome: 'held', key: 'b', by: 'bob' });
    expect([await lineOf(at, 'a'), await lineOf(at, 'b')]).toEqual([[], []]);
  });

  test('a repeated request takes the places of the one before', async () => {
    const at = await openLeases();
    const idempotencyKey = randomUUID();
    const b = await one(at, 'b');
    const gone = aCaller();
    const { answer: lost } = await inLines(
      at,
      ['a', 'b'],
      { holder: 'mover', idempotencyKey },
      gone,
    );
    gone.vanish();
    await expect(codeOf(lost)).resolves.toBe('lease.wait_cancelled');
    await inLine(at, 'late', { namespace: NAMESPACE, name: 'b' });

    const again = acquireAll(at, ['a', 'b'], { waitMs: 60_000, holder: 'mover', idempotencyKey });
    await waitUntil(async () => (await lineOf(at, 'b'))[0] === 'mover');
    await released(at, b);

    expect(await allOf(again)).toHaveLength(2);
  });

  test('places of which some were dropped are taken again with the numbers that they had', async () => {
    const at = await openLeases();
    await one(at, 'b');
    const idempotencyKey = randomUUID();
    const gone = aCaller();
    await inLines(at, ['a', 'b', 'c'], { holder: 'mover', idempotencyKey }, gone);
    const numbers = () => at.store.general.$queryRaw<{ id: number }[]>`
      select id::float8 as id from lease_waiter where waiter = 'mover' order by id`;
    const before = await numbers();
    gone.vanish();
    await at.store.general
      .$executeRaw`delete from lease_waiter where waiter = 'mover' and name <> 'b'`;

    await inLines(at, ['a', 'b', 'c'], { holder: 'mover', idempotencyKey });

    expect(await numbers()).toEqual(before);
  });

  test('many that are told that one lease may be free look together, and do not try while another is held', async () => {
    const at = await openLeases();
    await hearsHints(at);
    const hot = { face: 'lease', namespace: NAMESPACE, name: 'hot' } as const;
    await one(at, 'hot');
    await one(at, 'b');
    const holders = Array.from({ length: 12 }, (_, place) => `mover${String(place)}`);
    await Promise.all(holders.map((holder) => inLines(at, ['hot', 'b'], { holder }, aCaller())));
    const sent = vi.spyOn(pg.Client.prototype, 'query');
    onTestFinished(() => sent.mockRestore());
    const sentWith = (part: string): string[] =>
      sent.mock.calls.map((call) => JSON.stringify(call)).filter((text) => text.includes(part));
    const hinted = new Promise<void>((resolve) => {
      onTestFinished(at.store.hints.on(leaseTopic(hot), resolve));
    });

    await acquire(at, { ...hot, holder: 'late', waitMs: 50 });
    await hinted;
    sent.mockClear();
    const isReadOfMany = (text: string): boolean => text.split('hot').length > holders.length / 2;
    await waitUntil(() => sentWith(A_LOOK).some(isReadOfMany), { what: 'one read for many' });

    expect(sentWith(AN_ATTEMPT)).toEqual([]);
  });

  test('a grant that is not confirmed ends for all of them', async () => {
    const at = await openLeases();
    const b = await one(at, 'b');
    const { answer } = await inLines(at, ['a', 'b'], { holder: 'mover', confirms: true });
    await released(at, b);
    const leases = await allOf(answer);

    for (const { leaseId } of leases) await age(at, leaseId, 1_001);

    expect(await heldIn(at)).toEqual({});
  });
});

describe('giving up a request for several leases by its key', () => {
  const giveUp = (at: Leases, idempotencyKey: string) =>
    at.service.cancel({ idempotencyKey }, SERVICE);

  test('releases all of them, and bars the key', async () => {
    const at = await openLeases();
    const idempotencyKey = randomUUID();
    await allOf(acquireAll(at, ['a', 'b', 'c'], { idempotencyKey }));

    await expect(giveUp(at, idempotencyKey)).resolves.toBe('released');

    expect(await heldIn(at)).toEqual({});
    await expect(codeOf(acquireAll(at, ['a', 'b', 'c'], { idempotencyKey }))).resolves.toBe(
      'lease.wait_cancelled',
    );
  });

  test('leaves every line while it waits', async () => {
    const at = await openLeases();
    const idempotencyKey = randomUUID();
    await one(at, 'b');
    const { answer } = await inLines(at, ['a', 'b'], { holder: 'mover', idempotencyKey });

    await expect(giveUp(at, idempotencyKey)).resolves.toBe('cancelled');

    expect([await lineOf(at, 'a'), await lineOf(at, 'b')]).toEqual([[], []]);
    await expect(codeOf(answer)).resolves.toBe('lease.wait_cancelled');
  });

  test('while one of its places is locked it keeps all of them, and then leaves every line', async () => {
    const at = await openLeases();
    const idempotencyKey = randomUUID();
    await one(at, 'b');
    const { answer } = await inLines(at, ['a', 'b'], { holder: 'mover', idempotencyKey });
    const { answer: next } = await inLine(at, 'next', { namespace: NAMESPACE, name: 'a' });
    const session = await openSession(at);
    await session.query('begin');
    await session.query(
      `select from lease_waiter where waiter = 'mover' and name = 'b' for update`,
    );

    const cancelled = giveUp(at, idempotencyKey);
    await someoneWaits(at);
    const meanwhile = await at.store.general.$queryRaw<{ name: string }[]>`
      select name from lease_waiter where waiter = 'mover' order by name`;
    await session.query('commit');

    expect(meanwhile.map(({ name }) => name)).toEqual(['a', 'b']);
    await expect(cancelled).resolves.toBe('cancelled');
    await expect(codeOf(answer)).resolves.toBe('lease.wait_cancelled');
    await expect(next).resolves.toMatchObject({ outcome: 'granted' });
    expect([await lineOf(at, 'a'), await lineOf(at, 'b')]).toEqual([[], []]);
  });

  test('grants whose caller falls silent at its turn are given back at once, all of them', async () => {
    let grantedCount = 0;
    const grant: StoreObserver['grant'] = (_face, outcome) => {
      if (outcome === 'granted') grantedCount += 1;
    };
    const at = await openLeases({ observer: { ...SILENT_OBSERVER, grant } });
    const b = await one(at, 'b');
    const life = { signal: new AbortController().signal, isAlive: () => grantedCount < 2 };
    const { answer } = await inLines(at, ['a', 'b'], { holder: 'silent' }, life);

    await released(at, b);

    await expect(codeOf(answer)).resolves.toBe('lease.wait_cancelled');
    expect(grantedCount).toBe(3);
    expect(await heldIn(at)).toEqual({});
  });
});

describe('a controller that is lost', () => {
  test('while its statement runs: nothing is granted, and the same request is', async () => {
    const at = await openLeases();
    const idempotencyKey = randomUUID();
    const session = await openSession(at);
    await session.query('begin');
    await session.query(INSERT_B);
    const lost = acquireAll(at, ['a', 'b', 'c'], { idempotencyKey });
    lost.catch(() => undefined);
    await waitUntil(async () => (await blocked(at)).length > 0);

    // It has written the row of `a` and waits for the one of `b`.
    for (const pid of await blocked(at)) {
      await at.store.general.$queryRaw`select pg_terminate_backend(${pid}::int)`;
    }
    await expect(codeOf(lost)).resolves.toBe('request.outcome_unknown');
    expect(await heldIn(at)).toEqual({});
    await session.query('rollback');

    const leases = await allOf(acquireAll(at, ['a', 'b', 'c'], { idempotencyKey }));
    expect(leases).toHaveLength(3);
  });

  test('after its statement: the same request is answered with all of the leases', async () => {
    const at = await openLeases();
    const other = await openLeases({ databaseUrl: at.databaseUrl });
    const idempotencyKey = randomUUID();
    const b = await one(at, 'b');
    const gone = aCaller();
    const { answer: lost } = await inLines(
      at,
      ['a', 'b'],
      { holder: 'mover', idempotencyKey },
      gone,
    );
    await released(at, b);
    const first = await allOf(lost);

    const again = acquireAll(other, ['a', 'b'], {
      waitMs: 60_000,
      holder: 'mover',
      idempotencyKey,
    });

    expect((await allOf(again)).map(({ fencingToken }) => fencingToken)).toEqual(
      first.map(({ fencingToken }) => fencingToken),
    );
  });
});
