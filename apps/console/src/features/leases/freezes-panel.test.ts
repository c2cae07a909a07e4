import { expect, test } from 'vitest';
import { calendarOf, endingTexts, placeLabel, whyNotEnd } from './freezes-panel.tsx';
import type { Freeze } from './freezes.tsx';

const NOW_MS = Date.parse('2026-10-23T12:00:00Z');

function freezeOf(changes: Partial<Freeze>): Freeze {
  return {
    freezeId: 'f',
    namespace: 'shop',
    name: null,
    action: null,
    reason: 'weekend',
    recurrence: null,
    state: 'upcoming',
    windows: [],
    allow: { roles: [], people: [] },
    createdBy: 'ann',
    createdAt: '2026-10-01T00:00:00.000Z',
    removedBy: null,
    removedAt: null,
    removedReason: null,
    datacenter: 'fra',
    ...changes,
  };
}

const WEEKENDS = freezeOf({
  recurrence: { schedule: '0 17 * * 5', durationMs: 63 * 3_600_000, zone: 'Europe/Zurich' },
});

/** `2026-10-23T15:00 2026-10-26T07:00`. */
const textOf = ({ fromMs, untilMs }: { fromMs: number; untilMs: number }): string =>
  [fromMs, untilMs].map((ms) => new Date(ms).toISOString().slice(0, 16)).join(' ');

test('a weekend that comes again is shown five weeks ahead, by month, on the clock of its zone', () => {
  const { months, isCut } = calendarOf([WEEKENDS], NOW_MS);

  expect(months.map(({ title, windows }) => [title, windows.map(textOf)])).toEqual([
    // The clock is put back on the 25th: the second weekend begins an hour later in UTC.
    ['October 2026', ['2026-10-23T15:00 2026-10-26T07:00', '2026-10-30T16:00 2026-11-02T07:00']],
    [
      'November 2026',
      [
        '2026-11-06T16:00 2026-11-09T07:00',
        '2026-11-13T16:00 2026-11-16T07:00',
        '2026-11-20T16:00 2026-11-23T07:00',
      ],
    ],
  ]);
  expect(isCut).toBe(false);
});

test('what is frozen now comes first, what is over or far away is left out, and too many windows are cut', () => {
  const once = (from: string, until: string, state: Freeze['state'] = 'upcoming'): Freeze =>
    freezeOf({ windows: [{ from, until }], state });
  const often = freezeOf({
    recurrence: { schedule: '*/10 * * * *', durationMs: 300_000, zone: 'UTC' },
  });

  const now = calendarOf(
    [
      once('2026-10-24T00:00:00Z', '2026-10-25T00:00:00Z'),
      once('2026-10-23T12:00:31Z', '2026-10-24T00:00:00Z', 'frozen'),
      once('2026-10-22T00:00:00Z', '2026-10-23T12:00:00Z'),
      once('2027-01-01T00:00:00Z', '2027-01-02T00:00:00Z'),
    ],
    NOW_MS,
  );
  const many = calendarOf([often, often, often, often], NOW_MS);

  expect(now.months.map(({ title, windows }) => [title, windows.length])).toEqual([
    ['Now', 1],
    ['October 2026', 1],
  ]);
  expect(many.isCut).toBe(true);
  expect(many.months.flatMap(({ windows }) => windows)).toHaveLength(120);
});

test('before a freeze is ended, it is said which one, and that one that comes again ends forever', () => {
  const windows = [{ from: '2026-10-23T15:00:00Z', until: '2026-10-26T07:00:00Z' }];
  const once = freezeOf({ action: 'deploy', windows, state: 'frozen' });

  expect(placeLabel(once)).toMatch(/^shop\/\* for deploy$/u);
  expect(endingTexts(once)).toEqual(['Frozen until 2026-10-26 07:00 UTC: weekend.']);
  expect(endingTexts({ ...WEEKENDS, windows })).toEqual([
    'Frozen 2026-10-23 15:00 to 2026-10-26 07:00 UTC, recurring: weekend.',
    'It comes again: all its coming windows end too.',
  ]);
});

test('somebody who is limited to namespaces is told that they may not end a freeze above them', () => {
  const freeze = freezeOf({ namespace: 'shop.eu' });
  const above = 'It is about more than your namespaces.';

  expect(whyNotEnd(freeze, ['games', 'shop.eu.berlin'])).toBe(above);
  expect(whyNotEnd(freezeOf({ namespace: '' }), ['shop'])).toBe(above);
  for (const namespaces of [['shop.eu'], ['games', 'shop'], null]) {
    expect(whyNotEnd(freeze, namespaces)).toBeUndefined();
  }
});
