import type { StatsOverview } from '@leasehold/api/contract';
import { describe, expect, test } from 'vitest';
import { concernsOf } from './concerns.ts';

const NONE = { held: 0, expiring: 0, overdue: 0, contended: 0, waiters: 0 };

function overview(change: {
  drones?: Partial<StatsOverview['drones']>;
  reaperLagMs?: number;
  refusedRenewals?: number;
  expiring?: number;
  holdOff?: Partial<StatsOverview['holdOff']>;
  eventLagMs?: number;
  failingCallbacks?: number;
  clockJump?: Partial<StatsOverview['clockJump']>;
}): StatsOverview {
  return {
    faces: { key: { ...NONE, expiring: change.expiring ?? 0 }, lease: NONE, environment: NONE },
    drones: { total: 2, ready: 2, draining: 0, stale: 0, lost: 0, ...change.drones },
    totals: { refusedRenewals: change.refusedRenewals ?? 0 },
    reaperLagMs: change.reaperLagMs ?? 0,
    holdOff: change.holdOff ?? null,
    eventLag: { lagMs: change.eventLagMs ?? 0, culprit: null },
    failingCallbacks: change.failingCallbacks ?? 0,
    clockJump: change.clockJump ?? null,
  } as StatsOverview;
}

const texts = (stats: StatsOverview): string[] => concernsOf(stats).map(({ text }) => text);

describe('concernsOf', () => {
  test('is empty for a healthy system, and for one without any drone', () => {
    expect(concernsOf(overview({}))).toEqual([]);
    expect(concernsOf(overview({ drones: { total: 0, ready: 0 } }))).toEqual([]);
  });

  test.each([
    [{ drones: { stale: 1 } }, '1 drone silent'],
    [{ drones: { lost: 2 } }, '2 drones lost'],
    [{ drones: { ready: 0 } }, 'no drone can take a new backend'],
    [{ reaperLagMs: 9_000 }, 'the reaper is 9 s late'],
    [{ eventLagMs: 12_000 }, 'events are 12 s late'],
    [{ failingCallbacks: 2 }, '2 callbacks of expired leases failing'],
    [{ refusedRenewals: 1_200 }, '1,200 renewals refused'],
    [{ expiring: 3 }, '3 grants running out'],
    [
      { clockJump: { jumpMs: 90_000, remainingMs: 1 } },
      'the database’s clock stepped forward by 1 min 30 s',
    ],
    [
      { clockJump: { jumpMs: -3_600_000, remainingMs: 1 } },
      'the database’s clock stepped back by 1 h',
    ],
    [{ clockJump: { jumpMs: 90_000, remainingMs: 0 } }, 'the database’s clock has stepped lately'],
    [{ holdOff: { remainingMs: 42_000 } }, 'the database was restored: no new grants for 42 s'],
  ])('names %j', (change, text) => {
    expect(texts(overview(change))).toEqual([text]);
  });

  test('leads to the drones that it names, by the filter that their page has in its address', () => {
    const concerns = concernsOf(overview({ drones: { stale: 1, lost: 1 } }));

    expect(concerns.map(({ href }) => href)).toEqual([
      '/drones?status=unreachable',
      '/drones?status=lost',
    ]);
  });

  test('names the worst first', () => {
    const concerns = concernsOf(overview({ expiring: 1, drones: { stale: 1 } }));

    expect(concerns.map(({ tone }) => tone)).toEqual(['bad', 'warn']);
  });
});
