import { describe, expect, test } from 'vitest';
import { deathOf, RestartSchedule } from './supervision.ts';

const HOUR_MS = 3_600_000;
const crash = deathOf('ended with code 1', []);
const fullDisk = deathOf('ended with code 1', ['write: No space left on device']);
const withoutJitter = (): number => 0;

describe('RestartSchedule', () => {
  test('H-restart-count: never gives up on deaths that are far apart', () => {
    const schedule = new RestartSchedule(withoutJitter);

    for (let count = 0; count < 100; count += 1) {
      expect(schedule.next(crash, count * HOUR_MS)).toEqual({ outcome: 'restart', delayMs: 500 });
    }
  });

  test('gives up at the eighth death within ten minutes', () => {
    const schedule = new RestartSchedule(withoutJitter);

    const outcomes = Array.from({ length: 8 }, (_, count) => schedule.next(crash, count * 60_000));

    expect(outcomes.slice(0, 7).every(({ outcome }) => outcome === 'restart')).toBe(true);
    expect(outcomes[7]).toEqual({ outcome: 'give_up', deathCount: 8, windowMs: 600_000 });
  });

  test('waits longer after each death, up to 8 s', () => {
    const schedule = new RestartSchedule(withoutJitter);

    const decisions = Array.from({ length: 7 }, (_, count) => schedule.next(crash, count));

    expect(decisions).toEqual(
      [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000].map((delayMs) => ({
        outcome: 'restart',
        delayMs,
      })),
    );
  });

  test('shortens a wait at random by up to half', () => {
    const schedule = new RestartSchedule(() => 0.5);

    expect(schedule.next(crash, 0)).toEqual({ outcome: 'restart', delayMs: 375 });
  });

  test('never gives up on a full disk, and does not count its deaths', () => {
    const schedule = new RestartSchedule(withoutJitter);

    for (let count = 0; count < 100; count += 1) {
      expect(schedule.next(fullDisk, count)).toEqual({ outcome: 'restart', delayMs: 4_000 });
    }
    expect(schedule.next(crash, 100)).toEqual({ outcome: 'restart', delayMs: 500 });
  });
});
