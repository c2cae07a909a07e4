import type { StatsPoint } from '@leasehold/api/contract';
import { expect, test } from 'vitest';
import {
  finishedSteps,
  isolatedPlaces,
  isSameSteps,
  markedSince,
  movedBy,
  numberLength,
} from './chart-series.ts';

test('a step that is under way, or whose numbers may still arrive, is not drawn', () => {
  const series = ['10:00:00', '10:00:30', '10:01:00'].map(
    (time) => ({ at: `2026-11-20T${time}.000Z` }) as StatsPoint,
  );
  const drawnAt = (time: string): number =>
    finishedSteps({ series, stepMs: 30_000, asOf: `2026-11-20T${time}.000Z` }).length;

  expect(drawnAt('10:01:04')).toBe(1);
  expect(drawnAt('10:01:05')).toBe(2);
  expect(drawnAt('10:01:34')).toBe(2);
  expect(drawnAt('10:01:35')).toBe(3);
});

test('marks say from when on they are complete, where there are more acts than are read', () => {
  const items = [{ at: '2026-11-20T10:05:00.000Z' }, { at: '2026-11-20T10:01:00.000Z' }];

  expect(markedSince({ items, nextCursor: 'older' })).toBe('2026-11-20T10:01:00.000Z');
  expect(markedSince({ items, nextCursor: null })).toBeNull();
});

test('a value without neighbours is a point, and one at the edge too', () => {
  expect(isolatedPlaces([null, 5, null, 3, 4, null, 0])).toEqual([1, 6]);
  expect(isolatedPlaces([7])).toEqual([0]);
  expect(isolatedPlaces([null, null])).toEqual([]);
});

test('steps are the same while none is added and no number changes', () => {
  const step = (at: string, grants: number) => ({ at, grants }) as StatsPoint;
  const known = [step('a', 1), step('b', 2)];

  expect(isSameSteps(known, [step('a', 1), step('b', 2)])).toBe(true);
  expect(isSameSteps(known, [step('a', 1), step('b', 3)])).toBe(false);
  expect(isSameSteps(known, [step('b', 2)])).toBe(false);
});

test('a legend has room for its longest number, so that it does not move with the cursor', () => {
  const numbers = (waitMsP50: number | null) => ({ waitMsP50 }) as StatsPoint;
  const series = [{ name: 'waitMsP50', label: 'p50', color: '--tone-info' }] as const;

  const all = [numbers(null), numbers(12), numbers(200_000)];
  expect(numberLength({ unit: 'ms', series }, all)).toBe('3 min 20 s'.length);
  expect(numberLength({ unit: 'count', series }, all)).toBe('200,000'.length);
});

const STEPS = [10, 20, 30];

test('arrow keys move the cursor by a step, from the newest on, and stop at the ends', () => {
  expect(movedBy('ArrowLeft', null, STEPS)).toBe(30);
  expect(movedBy('ArrowLeft', 30, STEPS)).toBe(20);
  expect(movedBy('ArrowLeft', 10, STEPS)).toBe(10);
  expect(movedBy('ArrowRight', 30, STEPS)).toBe(30);
  expect([movedBy('Home', 20, STEPS), movedBy('End', 20, STEPS)]).toEqual([10, 30]);
});

test('Escape takes the cursor away, other keys leave it, and without steps it is nowhere', () => {
  expect(movedBy('Escape', 20, STEPS)).toBeNull();
  expect(movedBy('a', 20, STEPS)).toBeUndefined();
  expect(movedBy('ArrowLeft', null, [])).toBeNull();
});
