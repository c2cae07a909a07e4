import { describe, expect, test } from 'vitest';
import { momentOf } from './clock.ts';

describe('a moment as people write it', () => {
  test.each([
    ['03:12', '2026-11-25T03:12:00.000Z'],
    [' 03:12:05.5 ', '2026-11-25T03:12:05.500Z'],
    ['2026-11-24 03:12', '2026-11-24T03:12:00.000Z'],
    ['2026-11-24 03:12:05.120 UTC', '2026-11-24T03:12:05.120Z'],
    ['2026-11-24T03:12:05Z', '2026-11-24T03:12:05.000Z'],
    ['2026-11-24T03:12+02:00', '2026-11-24T01:12:00.000Z'],
  ])('%j is %s', (text, instant) => {
    expect(momentOf(text, '2026-11-25')).toBe(instant);
  });

  test.each(['', '3:12', '25:00', '03:12Z', 'yesterday', '2026-11-24', '2026-02-31 10:00', '1'])(
    '%j is not one',
    (text) => {
      expect(momentOf(text, '2026-11-25')).toBeNull();
    },
  );
});
