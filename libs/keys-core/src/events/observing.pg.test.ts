import { waitUntil } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { updateHeld } from '../grants/renewing.ts';
import { revoke } from '../grants/sql/revoke.ts';
import type { Resource } from '../kernel/resource.ts';
import { createReaper } from '../keys/index.ts';
import { insertEvents, openStream, openWriter, readStream } from '../testing/event-fixture.ts';
import {
  age,
  granted,
  type Kernel,
  openKernel,
  releaseOf,
  renewalOf,
} from '../testing/kernel-fixture.ts';
import { createObserving, type Observed, type Observing } from './index.ts';

const THING: Resource = { face: 'lease', namespace: 'test', name: 'thing' };
const SOON = { timeoutMs: 20_000 };

function observingOf({ store }: Pick<Kernel, 'store'>) {
  const failures: unknown[] = [];
  const stream = openStream(store);
  const observing = createObserving({
    store,
    stream,
    onError: (error) => failures.push(error),
  });
  return { observing, stream, failures };
}

/** Every state that an observer has got so far: the holder with its metadata, or nobody. */
function statesOf(observing: Observing, resource: Resource = THING) {
  const states: unknown[] = [];
  const over = new AbortController();
  onTestFinished(() => over.abort());
  const ended = (async () => {
    for await (const { holding } of observing.observe(resource, over.signal)) {
      states.push(holding === null ? null : [holding.holder, holding.metadata]);
    }
  })();
  return { states, ended, stop: () => over.abort() };
}

describe('observing', () => {
  test('shows the present state, then each change, whatever made it', async () => {
    const kernel = await openKernel();
    const { observing } = observingOf(kernel);
    const first = await granted(kernel, { metadata: 1 });
    const { states } = statesOf(observing);
    const seen = async (count: number): Promise<void> => {
      await waitUntil(() => states.length >= count, SOON);
    };
    await seen(1);

    await updateHeld(kernel.store, 'lease', { ...renewalOf(first), actor: 'a', metadata: 2 });
    await seen(2);
    await kernel.leases.release('lease', releaseOf(first));
    await seen(3);
    const second = await granted(kernel, { holder: 'bob' });
    await seen(4);
    // Nobody asks for it: the reaper records that it has expired.
    await age(kernel, second.leaseId, 60_000);
    await createReaper(kernel.store).runOnce();
    await seen(5);
    const third = await granted(kernel, { holder: 'carol' });
    await seen(6);
    const operator = { actor: 'op', reason: 'x', namespaces: null, abandon: false };
    await revoke(kernel.store.general, 'lease', [
      { ...operator, leaseId: third.leaseId, mode: 'force' },
    ]);
    await seen(7);

    const expected = [['alice', 1], ['alice', 2], null, ['bob', null], null, ['carol', null], null];
    expect(states).toEqual(expected);
  });

  test('misses nothing that a transaction had begun before and commits after it', async () => {
    const kernel = await openKernel();
    await granted(kernel, { metadata: 'before' });
    const [early, late] = [await openWriter(kernel), await openWriter(kernel)];
    // Its event comes before the end of the stream at which the observer begins.
    await early.query('begin');
    await early.query(`update lease set metadata = '"after"' where name = 'thing'`);
    await insertEvents(early, 1);
    await insertEvents(late, 1);
    const { observing, stream } = observingOf(kernel);
    const { states } = statesOf(observing);
    await waitUntil(() => states.length > 0, SOON);
    // By then an observer that does not wait has opened the stream, and read for the last time.
    for (let count = 0; count < 2; count += 1) await readStream(stream);
    const other = statesOf(observing, { ...THING, name: 'other' });
    await waitUntil(() => other.states.length > 0, SOON);

    await early.query('commit');
    await waitUntil(() => states.length > 1, SOON);

    expect(states).toEqual([
      ['alice', 'before'],
      ['alice', 'after'],
    ]);
  });

  test('gives a reader that takes its time the newest state, and keeps no others for it', async () => {
    const kernel = await openKernel();
    const { observing } = observingOf(kernel);
    const grant = await granted(kernel);
    const over = new AbortController();
    onTestFinished(() => over.abort());
    const slow = observing.observe(THING, over.signal)[Symbol.asyncIterator]();
    await slow.next();
    const { states } = statesOf(observing);

    for (let metadata = 1; metadata <= 30; metadata += 1) {
      await updateHeld(kernel.store, 'lease', { ...renewalOf(grant), actor: 'a', metadata });
    }
    await waitUntil(() => JSON.stringify(states.at(-1)) === '["alice",30]', SOON);

    const { value } = (await slow.next()) as IteratorResult<Observed, Observed>;
    expect(value.holding).toMatchObject({
      leaseId: grant.leaseId,
      fencingToken: grant.fencingToken,
      metadata: 30,
      since: new Date(grant.grantedAt).toISOString(),
    });
  });

  test('keeps resources, namespaces and faces apart, and reads each once for all who observe it', async () => {
    const kernel = await openKernel();
    let readCount = 0;
    const general = new Proxy(kernel.store.general, {
      get(target, key) {
        const value = Reflect.get(target, key) as unknown;
        if (key !== '$queryRaw') return value;
        return (parts: TemplateStringsArray, ...values: unknown[]) => {
          if (parts.join('').includes('from unnest(')) readCount += 1;
          return Reflect.apply(value as () => unknown, target, [parts, ...values]) as unknown;
        };
      },
    });
    const { observing, stream } = observingOf({ store: { ...kernel.store, general } });
    const below = { ...THING, namespace: 'test.below' };
    const others = [statesOf(observing, below), statesOf(observing, { ...THING, face: 'key' })];
    const observers = Array.from({ length: 200 }, () => statesOf(observing));
    await waitUntil(() => observers.every(({ states }) => states.length === 1), SOON);
    expect(observing.resourceCount).toBe(3);
    const before = readCount;

    await granted(kernel);
    await waitUntil(() => observers.every(({ states }) => states.length === 2), SOON);

    expect(readCount - before).toBeLessThan(10);
    expect(others.map(({ states }) => states)).toEqual([[null], [null]]);
    for (const { stop } of [...observers, ...others]) stop();
    await Promise.all([...observers, ...others].map(({ ended }) => ended));
    expect([observing.resourceCount, stream.readerCount]).toEqual([0, 0]);
  });

  test('goes on when the database or the stream has failed for a while', async () => {
    const kernel = await openKernel();
    const real = openStream(kernel.store);
    let failing = 2;
    const fail = (): void => {
      if (failing <= 0) return;
      failing -= 1;
      throw new Error('gone for a while');
    };
    const failures: unknown[] = [];
    const observing = createObserving({
      store: kernel.store,
      onError: (error) => failures.push(error),
      stream: {
        async open(from, signal) {
          fail();
          return real.open(from, signal);
        },
      },
    });
    const { states } = statesOf(observing);
    await waitUntil(() => failures.length === 2, SOON);
    await granted(kernel);
    await waitUntil(() => states.length > 1, SOON);

    expect(states).toEqual([null, ['alice', null]]);
  });
});
