import { describe, expect, test } from 'vitest';
import { agoText, durationText } from './duration.ts';

describe('durationText', () => {
  test.each([
    [-5, '0 ms'],
    [0, '0 ms'],
    [999.9, '999 ms'],
    [1_000, '1.0 s'],
    [59_999, '59.9 s'],
    [60_000, '1 m 00 s'],
    [3_599_999, '59 m 59 s'],
    [3_600_000, '1 h 00 m'],
    [86_399_999, '23 h 59 m'],
    [86_400_000, '1 d 00 h'],
  ])('shows %d ms as %s, never longer than it is', (ms, text) => {
    expect(durationText(ms)).toBe(text);
  });
});

describe('agoText', () => {
  test('compares two instants of one clock', () => {
    expect(agoText('2026-01-01T00:00:00.000Z', '2026-01-01T00:00:12.500Z')).toBe('12.5 s ago');
  });

  test('says that an instant is ahead instead of a negative time', () => {
    expect(agoText('2026-01-01T00:00:05.000Z', '2026-01-01T00:00:00.000Z')).toBe('in 5.0 s');
  });

  test('says never for what has not happened', () => {
    expect(agoText(null, '2026-01-01T00:00:00.000Z')).toBe('never');
  });
});
