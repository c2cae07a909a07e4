import { describe, expect, test } from 'vitest';
import { durationWord, readDuration } from './environment.ts';

describe('readDuration', () => {
  test.each([
    ['0', 0],
    ['1500', 1_500],
    ['250ms', 250],
    ['90s', 90_000],
    ['1.5s', 1_500],
    ['10m', 600_000],
    ['2h', 7_200_000],
    ['3d', 259_200_000],
  ])('%s is %i ms', (text, durationMs) => {
    expect(readDuration(text)).toBe(durationMs);
  });

  test.each(['', 's', '-1s', '10 m', '10M', '1h30m', '1e3', '0x10', 'soon'])(
    '%j is no duration',
    (text) => {
      expect(readDuration(text)).toBeUndefined();
    },
  );
});

test.each([
  [0, '0'],
  [166, '166ms'],
  [90_000, '90s'],
  [120_000, '2m'],
  [86_400_000, '1d'],
])('durationWord writes %i ms as %s, which is read as the same', (durationMs, word) => {
  expect(durationWord(durationMs)).toBe(word);
  expect(readDuration(word)).toBe(durationMs);
});
