import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { settled } from '../double/index.ts';
import { setUpLeases } from '../testing/lease-setup.ts';
import { currentSignal } from './work-context.ts';

const RUNS_COUNT = 1_000;

test('a run that is started within another depends on its own lease alone once that one is over', async () => {
  const { define } = setUpLeases();
  const definition = define();
  const alone: boolean[] = [];
  const runFrom = async (nth: number): Promise<void> => {
    let next: Promise<void> | undefined;
    let isOver = (): void => undefined;
    const over = new Promise<void>((resolve) => {
      isOver = resolve;
    });
    await definition.run('k', (lease) => {
      // Work that depends on one thing has its signal; what several things end has one of its own.
      alone.push(currentSignal() === lease.signal);
      if (nth < RUNS_COUNT) next = over.then(() => runFrom(nth + 1));
    });
    isOver();
    await next;
  };

  await runFrom(1);

  expect(alone).toHaveLength(RUNS_COUNT);
  expect(alone).not.toContain(false);
});

test('a lease that is over keeps nothing of the work that it was acquired in', async () => {
  const { define } = setUpLeases();
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const acquireWithin = async () => {
    const outer = await define().acquire('outer');
    const inner = await outer.run(() => define().acquire('inner'));
    await outer.run(() => inner.release());
    await outer.release();
    return { inner, outer: new WeakRef(outer) };
  };

  const { inner, outer } = await acquireWithin();
  await settled();
  collect();

  expect(outer.deref()).toBeUndefined();
  expect(inner.isHeld).toBe(false);
});

test('a run within another that goes on ends with it', async () => {
  const { define, wire, clock } = setUpLeases();
  const [outer, inner] = await Promise.all(['outer', 'inner'].map((key) => define().acquire(key)));

  const signal = outer?.run(() => inner?.run(() => currentSignal()));
  wire.revoke('outer');
  await clock.advance(30_000);

  expect(outer?.signal.aborted).toBe(true);
  expect(inner?.signal.aborted).toBe(false);
  expect(signal?.aborted).toBe(true);
});
