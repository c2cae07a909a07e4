import { expect, test } from 'vitest';
import { weeklyOf } from './lease-rules.ts';

test.each([
  ['Fri 17:00-Mon 08:00', '0 17 * * 5', 63],
  ['Sat 10:00-14:00', '0 10 * * 6', 4],
  ['Fri 22:00-02:00', '0 22 * * 5', 4],
  ['Saturday 22:30 - 02:30', '30 22 * * 6', 4],
  ['Sun 00:00-00:00', '0 0 * * 0', 24],
  ['Fri 22:00-Fri 02:00', '0 22 * * 5', 148],
])('a freeze "%s" begins each week at "%s", for %i hours', (text, schedule, hours) => {
  expect(weeklyOf(text)).toEqual({ schedule, durationMs: hours * 3_600_000 });
});

test.each([['Fri 22:00-Fri 22:00'], ['Fri 22:00-25:00'], ['Xyz 22:00-23:00'], ['22:00-02:00']])(
  'a freeze "%s" is refused',
  (text) => {
    expect(() => weeklyOf(text)).toThrow('--weekly must be');
  },
);
