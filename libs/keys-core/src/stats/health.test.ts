import { describe, expect, test } from 'vitest';
import { concernsOf, type Present } from './health.ts';
import type { HealthConcern } from './stats-types.ts';

const NOW = Date.parse('2026-11-20T10:00:00.000Z');
const ago = (ms: number): string => new Date(NOW - ms).toISOString();
const NO_DRONES = { count: 0, named: [] };
const NOTHING_EXPIRES = { count: 0, since: null };
const RENEWED = {
  renewals: 5_000,
  refused: 0,
  renewalsLately: 1_000,
  refusedLately: 0,
  since: null,
};
const HEALTHY: Present = {
  nowMs: NOW,
  holdOff: null,
  clockJump: null,
  reaperLagMs: 0,
  eventLag: { lagMs: 0, culprit: null },
  failingCallbacks: 0,
  callbacksSince: null,
  crashLoops: { count: 0, since: null },
  drones: {
    ready: { count: 2, named: [] },
    draining: NO_DRONES,
    stopped: NO_DRONES,
    unreachable: NO_DRONES,
    lost: NO_DRONES,
  },
  renewals: RENEWED,
  expiring: { key: NOTHING_EXPIRES, lease: NOTHING_EXPIRES, environment: NOTHING_EXPIRES },
};

const judged = (change: Partial<Present>): HealthConcern[] => concernsOf({ ...HEALTHY, ...change });

/** A silent or lost drone, since so long. */
const drone = (droneId: string, ms: number) => ({ droneId, since: NOW - ms });

describe('what needs attention', () => {
  test('is nothing in a healthy system, and in one without any drone', () => {
    const { drones } = HEALTHY;

    expect(judged({})).toEqual([]);
    expect(judged({ drones: { ...drones, ready: NO_DRONES } })).toEqual([]);
  });

  test('is each unreachable and each lost drone by its name, since its last heartbeat or its loss', () => {
    const unreachable = { count: 1, named: [drone('fra-2', 240_000)] };
    const lost = { count: 1, named: [drone('lon-1', 3_600_000)] };

    expect(judged({ drones: { ...HEALTHY.drones, unreachable, lost } })).toMatchObject([
      { kind: 'drone_unreachable', tone: 'bad', droneId: 'fra-2', since: ago(240_000) },
      { kind: 'drone_lost', tone: 'warn', droneId: 'lon-1', since: ago(3_600_000) },
    ]);
  });

  test('is one concern about many drones, since the first of them', () => {
    const named = [drone('a', 90_000), drone('b', 60_000), drone('c', 30_000)];

    expect(
      judged({ drones: { ...HEALTHY.drones, unreachable: { count: 40, named } } }),
    ).toMatchObject([{ kind: 'drone_unreachable', count: 40, droneId: null, since: ago(90_000) }]);
  });

  test('is keys whose backends fail one after another, since the first failure', () => {
    expect(judged({ crashLoops: { count: 2, since: NOW - 300_000 } })).toMatchObject([
      { kind: 'crash_loops', tone: 'bad', count: 2, since: ago(300_000) },
    ]);
  });

  test('is a fleet in which no drone takes a backend', () => {
    const drones = { ...HEALTHY.drones, ready: NO_DRONES, draining: { count: 2, named: [] } };

    expect(judged({ drones })).toMatchObject([{ kind: 'no_drone_ready', tone: 'bad', count: 2 }]);
  });

  test.each([
    ['a few among many', { refused: 5, refusedLately: 5 }, []],
    ['a percent of all', { refused: 51, refusedLately: 11, since: NOW - 240_000 }, ['warn']],
    ['a tenth of all', { refused: 600, refusedLately: 120, since: NOW - 240_000 }, ['bad']],
    ['many, but not in the last minute', { refused: 600, refusedLately: 0 }, []],
    ['a burst that has just begun', { refused: 40, refusedLately: 40 }, []],
  ])('are refused renewals by their share now: %s', (_name, change, tones) => {
    const concerns = judged({ renewals: { ...RENEWED, ...change } });

    expect(concerns.map(({ tone }) => tone)).toEqual(tones);
    for (const { kind, count, since } of concerns) {
      expect([kind, count, since]).toEqual(['renewals_refused', change.refused, ago(240_000)]);
    }
  });

  test('is what expires, by face, and since when', () => {
    const expiring = { ...HEALTHY.expiring, key: { count: 3, since: NOW - 20_000 } };

    expect(judged({ expiring })).toMatchObject([
      { kind: 'expiring', tone: 'warn', face: 'key', count: 3, since: ago(20_000) },
    ]);
  });

  test('is a step of the clock only until every expiry is believed again', () => {
    const jump = { at: ago(9_000), jumpMs: 90_000, unsureUntil: ago(-1), remainingMs: 1 };

    expect(judged({ clockJump: jump })).toMatchObject([{ kind: 'clock_jump', since: jump.at }]);
    expect(judged({ clockJump: { ...jump, remainingMs: 0 } })).toEqual([]);
  });

  test('is what is late and what fails, each since it began, the worst first', () => {
    const concerns = judged({
      eventLag: { lagMs: 12_000, culprit: null },
      failingCallbacks: 2,
      callbacksSince: NOW - 600_000,
      reaperLagMs: 9_000,
      holdOff: {
        since: ago(30_000),
        until: ago(-60_000),
        remainingMs: 60_000,
        cause: 'timeline',
        epoch: 2,
      },
    });

    expect(concerns).toMatchObject([
      { kind: 'hold_off', tone: 'bad', since: ago(30_000) },
      { kind: 'reaper_late', tone: 'bad', since: ago(9_000) },
      { kind: 'events_late', tone: 'warn', since: ago(12_000) },
      { kind: 'callbacks_failing', tone: 'warn', count: 2, since: ago(600_000) },
    ]);
  });
});
