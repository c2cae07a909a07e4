import { describe, expect, test } from 'vitest';
import { DatabaseTime } from './database-time.ts';

/** A reading that took 10 ms, of a clock that is ahead by so much. */
function reading(atMs: number, aheadMs: number, lastEventId: number) {
  const databaseMs = atMs + 5 + aheadMs;
  return { askedAtMs: atMs, answeredAtMs: atMs + 10, databaseMs, lastEventId };
}

describe('times of the database in the clock of the machine', () => {
  test('are right within what a reading took', () => {
    const time = new DatabaseTime();
    time.note(reading(1_000, 50_000, 1));
    time.note(reading(1_060, 50_000, 2));

    expect(Math.abs(time.machineTimeOf(2, 51_030) - 1_030)).toBeLessThanOrEqual(5);
    expect(Math.abs(time.machineTimeNow(51_100) - 1_100)).toBeLessThanOrEqual(5);
  });

  test('follow a step, and an event of just before it keeps the clock of before', () => {
    const time = new DatabaseTime();
    time.note(reading(1_000, 50_000, 1));
    time.note(reading(1_060, 47_000, 3));

    expect(Math.abs(time.machineTimeOf(2, 51_030) - 1_030)).toBeLessThanOrEqual(5);
    expect(Math.abs(time.machineTimeOf(3, 48_040) - 1_040)).toBeLessThanOrEqual(5);
    expect(Math.abs(time.machineTimeNow(48_100) - 1_100)).toBeLessThanOrEqual(5);
  });

  test('tell between which readings the clock was stepped, however long nobody could read it', () => {
    const time = new DatabaseTime();
    time.note(reading(1_000, 50_000, 1));
    time.note(reading(1_060, 50_001, 2));
    time.note(reading(7_000, 53_000, 3));
    time.note(reading(7_060, 53_000, 3));

    expect(time.steps).toEqual([{ fromMs: 1_060, untilMs: 7_010 }]);
  });
});
