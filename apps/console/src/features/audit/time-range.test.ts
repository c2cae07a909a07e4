import { describe, expect, test } from 'vitest';
import {
  ANY_TIME,
  fromInput,
  timeRangeInput,
  timeRangeOf,
  timeRangeText,
  toInput,
} from './time-range.ts';

describe('a time range of an address', () => {
  test.each([
    ['15m', 15],
    ['1h', 60],
    ['24h', 1_440],
    ['7d', 10_080],
  ])('%s stays relative: the last %i minutes', (range, windowMinutes) => {
    expect(timeRangeInput({ ...ANY_TIME, range })).toEqual({ windowMinutes });
  });

  test.each(['', '0m', '1w', '-1h', '9999d', 'h'])('%j gives no range', (range) => {
    expect(timeRangeOf({ ...ANY_TIME, range })).toEqual(ANY_TIME);
  });

  test('has bounds otherwise, and leaves out an invalid instant', () => {
    const from = '2026-11-21T10:00Z';

    expect(timeRangeInput({ range: null, from, to: 'tomorrow' })).toEqual({
      from: '2026-11-21T10:00:00.000Z',
    });
    expect(timeRangeInput({ ...ANY_TIME, to: '2026-13-45T10:00Z' })).toEqual({});
  });
});

test('instants of the address and of an input are the same time, in UTC', () => {
  const instant = fromInput('2026-11-21T10:05');

  expect(instant).toBe('2026-11-21T10:05:00.000Z');
  expect(toInput(instant)).toBe('2026-11-21T10:05');
  expect(fromInput('')).toBeNull();
});

test('a range is shown with its bounds, or as the time up to now', () => {
  const from = '2026-11-21T10:05:00.000Z';
  const to = '2026-11-21T11:00:00.000Z';

  expect(timeRangeText(ANY_TIME)).toBe('Any time');
  expect(timeRangeText({ ...ANY_TIME, from })).toBe('since 2026-11-21 10:05');
  expect(timeRangeText({ ...ANY_TIME, to: from })).toBe('before 2026-11-21 10:05');
  expect(timeRangeText({ range: null, from, to })).toBe('2026-11-21 10:05 – 2026-11-21 11:00');
  expect(timeRangeText({ ...ANY_TIME, range: '24h' })).toBe('Last 24 h');
  expect(timeRangeText({ ...ANY_TIME, range: '3d' })).toBe('Last 3 days');
});
