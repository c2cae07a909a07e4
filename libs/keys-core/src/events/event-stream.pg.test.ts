import { describe, expect, test } from 'vitest';
import { repetitions, waitUntil } from '@leasehold/testing';
import { removeOldLeaseRows } from '../grants/sql/retention.ts';
import type { Clock } from '../kernel/clock.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { EventKind } from '../kernel/face-types.ts';
import type { Face } from '../kernel/resource.ts';
import { checkEpoch } from '../postgres/witness/epoch.ts';
import { createEventRollup } from '../stats/index.ts';
import {
  insertEvents,
  numberOf,
  openStream,
  openWriter,
  type Read,
  readStream,
} from '../testing/event-fixture.ts';
import {
  granted,
  type Kernel,
  MACHINE_CLOCK,
  openFreshKernel,
  openKernel,
  releaseOf,
} from '../testing/kernel-fixture.ts';
import { TAIL_EVENTS_MAX } from './event-stream.ts';
import type { EventFilter } from './sql/event-pages.ts';

/** Another test's transaction, in another database of the cluster, may hold the stream back. */
const SOON = { timeoutMs: 20_000 };
/** What each of eight writers does, all at once. */
const ROUNDS = repetitions({ gate: 20, short: 60, long: 60 });

const idsOf = async (kernel: Kernel): Promise<number[]> => {
  const rows = await kernel.store.general.$queryRaw<{ id: number }[]>`
    select id::int as id from lease_event order by id`;
  return rows.map(({ id }) => id);
};

/** How often the database was queried. */
function countingQueries({ store }: Kernel) {
  let asked = 0;
  const general = new Proxy(store.general, {
    get(target, key) {
      if (key === '$queryRaw') asked += 1;
      return Reflect.get(target, key) as unknown;
    },
  });
  return { general, askedCount: () => asked };
}

const codeOf = (thrown: unknown): string =>
  thrown instanceof LeaseError ? thrown.code : String(thrown);

async function refusalOf(reading: Promise<Read>): Promise<LeaseError> {
  const thrown = await reading.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (thrown instanceof LeaseError) return thrown;
  throw new Error(`the test expected a refusal, and it is ${String(thrown)}`);
}

describe('event stream', () => {
  test('follows what transitions write, in order, from the moment it was opened', async () => {
    const kernel = await openKernel();
    const before = await granted(kernel, { name: 'before' });
    const read = await readStream(openStream(kernel.store));

    await kernel.leases.release('lease', releaseOf(before));
    const after = await granted(kernel, { name: 'after', namespace: 'test.a' });
    await waitUntil(() => read.events.length >= 2, SOON);

    expect(read.events.map(({ kind, name }) => [kind, name])).toEqual([
      ['released', 'before'],
      ['granted', 'after'],
    ]);
    expect(read.events[1]).toMatchObject({
      face: 'lease',
      namespace: 'test.a',
      leaseId: after.leaseId,
      fencingToken: after.fencingToken,
      actor: 'alice',
    });
  });

  test('a refused renewal is for a reader that names its kind, also at the end of the stream', async () => {
    const kernel = await openKernel();
    const before = await granted(kernel, { name: 'before' });
    const stream = openStream(kernel.store);
    const kinds: EventKind[] = ['granted', 'released', 'renewal_refused'];
    const asked = await readStream(stream, { filter: { kinds } });
    const others = await readStream(stream);

    await kernel.leases.release('lease', releaseOf(before));
    await kernel.store.general.$executeRaw`
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor)
      select face, namespace, name, lease_id, fencing_token, 'renewal_refused', 'alice'
      from lease_event where kind = 'granted'`;
    await granted(kernel, { name: 'after' });
    await waitUntil(() => asked.events.length >= 3 && others.events.length >= 2, SOON);

    const kindsOf = ({ events }: Read): string[] => events.map(({ kind }) => kind);
    expect(kindsOf(asked)).toEqual(['released', 'renewal_refused', 'granted']);
    expect(kindsOf(others)).toEqual(['released', 'granted']);
  });

  test('C59 no event is delivered before an earlier event that is still to come', async () => {
    const kernel = await openKernel();
    const [first, second] = [await openWriter(kernel), await openWriter(kernel)];
    const read = await readStream(openStream(kernel.store), { afterId: 'oldest' });
    // The one with the older transaction takes the later event, and commits first.
    await first.query('begin; select pg_current_xact_id()');
    await second.query('begin; select pg_current_xact_id()');
    const [early] = await insertEvents(second, 1);
    const [late] = await insertEvents(first, 1);
    await first.query('commit');
    const other = await readStream(openStream(kernel.store), { afterId: 'oldest' });
    const lag = await openStream(kernel.store).lag();
    expect([read.ids(), other.ids()]).toEqual([[], []]);
    expect(lag.culprit).not.toBeNull();

    await second.query('commit');
    await waitUntil(() => read.events.length >= 2 && other.events.length >= 2, SOON);

    expect(read.ids()).toEqual([early, late]);
    expect(other.ids()).toEqual([early, late]);
  });

  test('C59 I12 interleaved long and short transactions: every event once, in the order of ids', async () => {
    const kernel = await openKernel();
    const stream = openStream(kernel.store);
    const reads = [await readStream(stream), await readStream(stream)];
    const writers = await Promise.all(Array.from({ length: 8 }, () => openWriter(kernel)));

    const parts = [await readStream(stream, { afterId: 'oldest' })];
    const ended = new AbortController();
    const writing = Promise.all(
      writers.map(async (writer, at) => {
        for (let round = 0; round < ROUNDS || parts.length < 6; round += 1) {
          // Some take their transaction id long before their events, some commit late, some never.
          await writer.query('begin');
          if (round % 3 === 0) await writer.query('select pg_current_xact_id()');
          await insertEvents(writer, 1 + ((round + at) % 4));
          for (let idle = 0; idle < (at * round) % 23; idle += 1) await writer.query('select 1');
          await insertEvents(writer, 1);
          await writer.query((round + at) % 11 === 0 ? 'rollback' : 'commit');
        }
      }),
    ).finally(() => {
      ended.abort();
    });
    while (!ended.signal.aborted) {
      const part = parts.at(-1);
      await waitUntil(() => (part?.events.length ?? 0) > 0 || ended.signal.aborted, SOON);
      part?.stop();
      await part?.ended;
      const afterId = parts.flatMap(({ events }) => events).at(-1)?.id ?? 'oldest';
      parts.push(await readStream(stream, { afterId }));
    }
    await writing;
    const expected = await idsOf(kernel);
    const all = (): number[] => parts.flatMap((part) => part.ids());
    await waitUntil(
      () =>
        [all(), ...reads.map((read) => read.ids())].every((ids) => ids.length >= expected.length),
      SOON,
    );

    expect(reads[0]?.ids()).toEqual(expected);
    expect(reads[1]?.ids()).toEqual(expected);
    expect(all()).toEqual(expected);
    expect(parts.length).toBeGreaterThan(5);
  });

  test('a reader that takes its time holds back nobody, misses nothing, and is not read for ahead', async () => {
    const kernel = await openKernel();
    const writer = await openWriter(kernel);
    const stream = openStream(kernel.store);
    const stopping = new AbortController();
    const slow = await stream.open({ filter: { limits: null } }, stopping.signal);
    const iterator = slow[Symbol.asyncIterator]();
    const quick = await readStream(stream);
    const first = iterator.next();
    const expected = await insertEvents(writer, 1);
    const slowIds = [numberOf(((await first).value as { id: string }).id)];

    for (let batch = 0; batch < 3; batch += 1) {
      expected.push(...(await insertEvents(writer, TAIL_EVENTS_MAX - 500)));
      await waitUntil(() => quick.events.length === expected.length, SOON);
    }
    while (slowIds.length < expected.length) {
      const next = (await iterator.next()) as IteratorResult<{ id: string }, { id: string }>;
      slowIds.push(numberOf(next.value.id));
    }
    stopping.abort();

    expect(quick.ids()).toEqual(expected);
    expect(slowIds).toEqual(expected);
    expect((await iterator.next()).done).toBe(true);
  });

  test('does not query the database while nobody reads', async () => {
    const kernel = await openKernel();
    const { general, askedCount } = countingQueries(kernel);
    const stream = openStream({ general, reads: general, clock: kernel.store.clock });
    const read = await readStream(stream);
    const writer = await openWriter(kernel);
    await insertEvents(writer, 1);
    await waitUntil(() => read.events.length === 1, SOON);

    read.stop();
    await read.ended;
    expect(stream.readerCount).toBe(0);
    // The count shows whether anything was queried in between.
    const askedBefore = askedCount();
    await insertEvents(writer, 1);
    await stream.close();

    expect(askedCount() - askedBefore).toBeLessThanOrEqual(1);
  });

  test('reports which transaction holds it back, and for how long', async () => {
    const kernel = await openKernel();
    const stream = openStream(kernel.store);
    const holding = await openWriter(kernel);
    await holding.query('begin; select pg_current_xact_id()');
    const writer = await openWriter(kernel);
    await insertEvents(writer, 1);

    const lag = await waitUntil(async () => {
      const now = await stream.lag();
      return now.culprit?.applicationName === 'test writer' && now.lagMs > 0 ? now : undefined;
    }, SOON);

    expect(lag.culprit).toMatchObject({ pid: (holding as { processID?: number }).processID });
    expect(lag.culprit?.ageMs).toBeGreaterThanOrEqual(lag.lagMs - 1);
  });
});

test('the lag does not grow while transactions follow each other, though some event is never final yet', async () => {
  const kernel = await openKernel();
  let nowMs = 0;
  const clock: Clock = {
    nowMs: () => nowMs,
    at: (atMs, fn) => MACHINE_CLOCK.at(MACHINE_CLOCK.nowMs() + atMs - nowMs, fn),
  };
  const { general, askedCount } = countingQueries(kernel);
  const stream = openStream({ general, reads: general, clock });
  const read = await readStream(stream);
  const [one, two] = [await openWriter(kernel), await openWriter(kernel)];
  await one.query('begin; select pg_current_xact_id()');

  for (let round = 0; round < 6; round += 1) {
    const [ending, next] = round % 2 === 0 ? [one, two] : [two, one];
    // It begins before the other one ends: the event of that one is not final when it can be seen.
    await next.query('begin; select pg_current_xact_id()');
    await insertEvents(ending, 1);
    await ending.query('commit');
    const asked = askedCount();
    await waitUntil(() => read.events.length === round && askedCount() > asked + 1, SOON);
    nowMs += 60_000;
  }

  expect((await stream.lag()).lagMs).toBeLessThan(3 * 60_000);
});

describe('filters', () => {
  const RESOURCES = [
    ['lease', 'a', 'x', 'granted'],
    ['lease', 'a.b', 'x', 'released'],
    ['lease', 'ab', 'y', 'granted'],
    ['key', 'a', 'x', 'revoked'],
    ['environment', '', 'prod', 'expired'],
    ['lease', 'c', 'x', 'failed'],
  ] as const satisfies [Face, string, string, EventKind][];

  const FILTERS: readonly (readonly [string, Partial<EventFilter>, readonly number[]])[] = [
    ['by face', { face: 'lease' }, [0, 1, 2, 5]],
    ['by namespace, children included', { namespace: 'a' }, [0, 1, 3]],
    ['by the root namespace', { namespace: '' }, [0, 1, 2, 3, 4, 5]],
    ['by name', { name: 'x', face: 'lease' }, [0, 1, 5]],
    ['by kinds', { kinds: ['granted', 'expired'] }, [0, 2, 4]],
    ['by no kind', { kinds: [] }, []],
    ['limited to namespaces', { limits: ['a', 'c'] }, [0, 1, 3, 5]],
    ['limited, and by a namespace outside', { limits: ['a'], namespace: 'c' }, []],
    ['limited to none', { limits: [] }, []],
  ];

  test('past and new events are filtered alike: by face, namespace, name and kinds, and by limits', async () => {
    const kernel = await openKernel();
    const writer = await openWriter(kernel);
    const stream = openStream(kernel.store);
    const write = async (): Promise<number[]> => {
      const ids: number[] = [];
      for (const [face, namespace, name, kind] of RESOURCES) {
        ids.push(...(await insertEvents(writer, 1, { face, namespace, name, kind })));
      }
      return ids;
    };
    const past = await write();
    const everything = await readStream(stream, { afterId: 'oldest' });
    const reads = await Promise.all(
      FILTERS.map(([, filter]) => readStream(stream, { afterId: 'oldest', filter })),
    );
    await waitUntil(() => everything.events.length === past.length, SOON);
    const present = await write();

    await waitUntil(() => everything.events.length === past.length * 2, SOON);

    for (const [at, [how, , wanted]] of FILTERS.entries()) {
      const expected = [past, present].flatMap((ids) => wanted.map((place) => ids[place]));
      const ids = (): number[] => reads[at]?.ids() ?? [];
      await waitUntil(() => ids().length >= expected.length, SOON);
      expect([how, ids()]).toEqual([how, expected]);
    }
  });
});

describe('resuming', () => {
  test('from before the oldest kept event is refused and names that event; from the mark on it works', async () => {
    const kernel = await openFreshKernel();
    const writer = await openWriter(kernel);
    const ids = await insertEvents(writer, 6);
    await writer.query(`update lease_event set at = at - interval '31 days' where id = any($1)`, [
      [ids[0], ids[1], ids[3]],
    ]);
    await removeOldLeaseRows(kernel.store.general, 30, {
      clock: kernel.store.clock,
      onFailure: (_kind, error) => {
        throw error;
      },
    });
    const stream = openStream(kernel.store);

    const refused = await refusalOf(readStream(stream, { afterId: `0.${String(ids[2])}` }));
    const oldest = await readStream(stream, { afterId: 'oldest' });
    const resumed = await readStream(stream, { afterId: `0.${String(ids[3])}` });
    await waitUntil(() => oldest.events.length >= 2 && resumed.events.length >= 2, SOON);

    expect(refused.code).toBe('events.compacted');
    expect(refused.details).toEqual({ oldestId: `0.${String(ids[4])}` });
    expect(oldest.ids()).toEqual(ids.slice(4));
    expect(resumed.ids()).toEqual(ids.slice(4));
  });

  test('fails for a reader whose events are removed before it has read them', async () => {
    const kernel = await openKernel();
    const writer = await openWriter(kernel);
    const stream = openStream(kernel.store);
    const ids = await insertEvents(writer, 2_500);
    const source = await stream.open(
      { afterId: 'oldest', filter: { limits: null } },
      new AbortController().signal,
    );
    const iterator = source[Symbol.asyncIterator]();
    await iterator.next();
    await writer.query('delete from lease_event where id <= $1', [ids[2_000]]);

    const rest = async (): Promise<void> => {
      while ((await iterator.next()).done !== true);
    };

    await expect(rest()).rejects.toMatchObject({ code: 'events.compacted' });
    expect(stream.readerCount).toBe(0);
  });

  test('works after all events were removed, even when the table was truncated', async () => {
    const kernel = await openFreshKernel();
    const writer = await openWriter(kernel);
    const stream = openStream(kernel.store);
    const ids = await insertEvents(writer, 3);
    await writer.query('truncate lease_event');

    const refused = await refusalOf(readStream(stream, { afterId: `0.${String(ids[0])}` }));
    const resumed = await readStream(stream, { afterId: `0.${String(ids[2])}` });
    const next = await insertEvents(writer, 1);
    await waitUntil(() => resumed.events.length >= 1, SOON);

    expect(refused.details).toEqual({ oldestId: null });
    expect(resumed.ids()).toEqual(next);
  });

  test('with an id of another database epoch, or one that was never given, is refused', async () => {
    const kernel = await openKernel();
    await checkEpoch(kernel.store.general, 60_000);
    const writer = await openWriter(kernel);
    const stream = openStream(kernel.store);
    const ids = await insertEvents(writer, 2);

    const other = await refusalOf(readStream(stream, { afterId: `7.${String(ids[0])}` }));
    const ahead = await refusalOf(readStream(stream, { afterId: '1.999999' }));
    const nonsense = await refusalOf(readStream(stream, { afterId: 'yesterday' }));

    expect([other, ahead, nonsense].map(codeOf)).toEqual([
      'events.other_epoch',
      'events.other_epoch',
      'request.invalid',
    ]);
    expect(other.details).toEqual({
      oldestId: `1.${String(ids[0])}`,
      lastId: `1.${String(ids[1])}`,
    });
  });

  test('readers are told when the database is restored, and get nothing before a controller has noted that', async () => {
    const kernel = await openKernel();
    await checkEpoch(kernel.store.general, 60_000);
    const writer = await openWriter(kernel);
    const stream = openStream(kernel.store);
    const read = await readStream(stream);
    await insertEvents(writer, 1);
    await waitUntil(() => read.events.length === 1, SOON);

    // As if this were a copy of the database that was promoted elsewhere.
    await writer.query('update database_epoch set timeline = timeline - 1');
    await insertEvents(writer, 1);
    const waiting = readStream(stream, { afterId: 'oldest' });
    await checkEpoch(kernel.store.general, 60_000);

    expect(codeOf(await read.ended)).toBe('events.other_epoch');
    expect(read.events).toHaveLength(1);
    const again = await waiting;
    await waitUntil(() => again.events.length === 2, SOON);
    expect(again.events.every(({ id }) => /^\d{7,}\./u.test(id))).toBe(true);
  });

  test('the head names the id after which all later events can be read', async () => {
    const kernel = await openFreshKernel();
    const writer = await openWriter(kernel);
    const stream = openStream(kernel.store);
    expect(await stream.head(null)).toEqual({ lastId: '0.0', oldestId: null });
    const ids = await insertEvents(writer, 3);

    // Transactions of other tests, in other databases of the cluster, may hold it back.
    const head = await waitUntil(async () => {
      const { lastId, oldestId } = await stream.head(null);
      return numberOf(lastId) === ids[2] ? { lastId, oldestId } : undefined;
    }, SOON);
    const [next] = await insertEvents(writer, 1);
    const read = await readStream(stream, { afterId: head.lastId });
    await waitUntil(() => read.events.length >= 1, SOON);

    expect(head).toEqual({ lastId: `0.${String(ids[2])}`, oldestId: `0.${String(ids[0])}` });
    expect(read.ids()).toEqual([next]);
  });

  test('nothing that a transaction had begun before the head is missed by who reads after it and follows from there', async () => {
    const kernel = await openKernel();
    const [early, late] = [await openWriter(kernel), await openWriter(kernel)];
    await early.query('begin');
    const all = [...(await insertEvents(early, 1)), ...(await insertEvents(late, 1))];
    const stream = openStream(kernel.store);
    const heads = [null, ['test']].map(async (limits) => {
      const { lastId } = await stream.head(limits);
      return { lastId, seen: await idsOf(kernel) };
    });
    // By then a head that does not wait has been answered.
    for (let count = 0; count < 2; count += 1) await readStream(stream);

    await early.query('commit');

    for (const { lastId, seen } of await Promise.all(heads)) {
      const read = await readStream(stream, { afterId: lastId });
      const known = (): number[] => [...new Set([...seen, ...read.ids()])].sort((a, b) => a - b);
      all.push(...(await insertEvents(late, 1)));
      await waitUntil(() => known().at(-1) === all.at(-1), SOON);
      expect(known()).toEqual(all);
    }
  });

  test('while an old transaction lasts, the head is the last event before those that it holds back, or the last one counted', async () => {
    const kernel = await openKernel();
    const [holding, writer] = [await openWriter(kernel), await openWriter(kernel)];
    const following = openStream(kernel.store);
    const rollup = createEventRollup(kernel.store);
    const [first] = await insertEvents(writer, 1);
    await waitUntil(async () => (await rollup.runOnce()).countedCount > 0, SOON);
    const [second] = await insertEvents(writer, 1);
    const read = await readStream(following, { afterId: 'oldest' });
    await waitUntil(() => read.events.length === 2, SOON);
    await holding.query('begin');
    await insertEvents(holding, 1);
    await insertEvents(writer, 1);
    const beginning = openStream(kernel.store);

    const heads = await Promise.all([
      following.head(null),
      beginning.head(null),
      beginning.head(['test']),
    ]);

    expect(heads.map(({ lastId }) => lastId)).toEqual([
      expect.stringMatching(new RegExp(`\\.${String(second)}$`, 'u')),
      expect.stringMatching(new RegExp(`\\.${String(first)}$`, 'u')),
      'oldest',
    ]);
  });
});
