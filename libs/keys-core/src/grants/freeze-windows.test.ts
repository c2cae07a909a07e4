import { describe, expect, test } from 'vitest';
import { assertRecurrence, windowsFrom } from './freeze-windows.ts';

const HOUR_MS = 60 * 60 * 1_000;
const MINUTE_MS = 60 * 1_000;
const WEEKEND = { schedule: '0 17 * * 5', durationMs: 63 * HOUR_MS, zone: 'Europe/Zurich' };

/** The windows from an instant on, as pairs of instants. */
function windowsAt(recurrence: typeof WEEKEND, at: string, count = 1): string[] {
  return windowsFrom(recurrence, Date.parse(at), count).map(({ fromMs, untilMs }) =>
    [fromMs, untilMs].map((ms) => new Date(ms).toISOString().replace(':00.000Z', 'Z')).join(' to '),
  );
}

describe('windowsFrom', () => {
  test.each([
    ['in winter', '2027-01-06T12:00:00Z', '2027-01-08T16:00Z to 2027-01-11T07:00Z'],
    ['in summer', '2027-07-07T12:00:00Z', '2027-07-09T15:00Z to 2027-07-12T06:00Z'],
    ['when summer begins', '2027-03-24T12:00:00Z', '2027-03-26T16:00Z to 2027-03-29T06:00Z'],
    ['when summer ends', '2027-10-27T12:00:00Z', '2027-10-29T15:00Z to 2027-11-01T07:00Z'],
  ])(
    'a weekend goes from Friday 17:00 to Monday 08:00 by the clock of its zone, %s',
    (_when, at, window) => {
      expect(windowsAt(WEEKEND, at)).toEqual([window]);
    },
  );

  test('those that begin at the end of the time that was asked for, or later, are left out', () => {
    const from = Date.parse('2027-03-24T12:00:00Z');
    const third = Date.parse('2027-04-09T15:00:00Z');

    expect(windowsFrom(WEEKEND, from, 10, third)).toHaveLength(2);
    expect(windowsFrom(WEEKEND, from, 10, third + 1)).toHaveLength(3);
  });

  test('the present window is the first one until the very instant of its end', () => {
    const present = '2027-03-26T16:00Z to 2027-03-29T06:00Z';
    const next = '2027-04-02T15:00Z to 2027-04-05T06:00Z';

    expect(windowsAt(WEEKEND, '2027-03-26T16:00:00Z', 2)).toEqual([present, next]);
    expect(windowsAt(WEEKEND, '2027-03-29T05:59:59.999Z')).toEqual([present]);
    expect(windowsAt(WEEKEND, '2027-03-29T06:00:00Z')).toEqual([next]);
  });

  // On 28 March 2027 the clock of Zurich goes from 02:00 to 03:00 at 01:00Z.
  test.each([
    ['within the hour that is left out', '15 2 * * *', 30, '01:00Z', '01:45Z'],
    ['that begins in it', '30 2 * * *', 120, '01:00Z', '02:30Z'],
    ['that ends in it', '30 1 * * *', 60, '00:30Z', '01:30Z'],
    ['around it', '0 1 * * *', 150, '00:00Z', '01:30Z'],
  ])('no window is lost %s', (_where, schedule, minutes, from, until) => {
    const recurrence = { schedule, durationMs: minutes * MINUTE_MS, zone: 'Europe/Zurich' };
    expect(windowsAt(recurrence, '2027-03-27T23:30:00Z')).toEqual([
      `2027-03-28T${from} to 2027-03-28T${until}`,
    ]);
  });

  // On 31 October 2027 it goes from 03:00 back to 02:00 at 01:00Z.
  test.each([
    ['within the hour that comes twice lasts through both', '15 2 * * *', 30, '00:15Z', '01:45Z'],
    ['that begins in it begins the first time', '30 2 * * *', 60, '00:30Z', '02:30Z'],
    ['that ends in it ends the second time', '30 1 * * *', 60, '23:30Z', '01:30Z'],
  ])('a window %s', (_where, schedule, minutes, from, until) => {
    const recurrence = { schedule, durationMs: minutes * MINUTE_MS, zone: 'Europe/Zurich' };
    const day = from > '12' ? '30' : '31';
    expect(windowsAt(recurrence, '2027-10-30T22:30:00Z')).toEqual([
      `2027-10-${day}T${from} to 2027-10-31T${until}`,
    ]);
  });

  test('zones with odd changes, without any, and beyond midnight have the same rules', () => {
    const daily = { schedule: '0 22 * * *', durationMs: 8 * HOUR_MS };

    // Half an hour, on 4 April 2027 at 02:00.
    expect(windowsAt({ ...daily, zone: 'Australia/Lord_Howe' }, '2027-04-03T00:00:00Z', 2)).toEqual(
      ['2027-04-03T11:00Z to 2027-04-03T19:30Z', '2027-04-04T11:30Z to 2027-04-04T19:30Z'],
    );
    expect(windowsAt({ ...daily, zone: 'Asia/Kolkata' }, '2027-04-03T00:00:00Z')).toEqual([
      '2027-04-02T16:30Z to 2027-04-03T00:30Z',
    ]);
  });

  test('there are no windows once a schedule names no time that comes', () => {
    expect(windowsAt({ ...WEEKEND, schedule: '0 0 30 2 *' }, '2027-01-01T00:00:00Z')).toEqual([]);
  });
});

describe('assertRecurrence', () => {
  test.each([
    ['zone', { zone: 'Europe/Zuerich' }],
    ['zone', { zone: '+02:00' }],
    ['zone', { zone: '' }],
    ['schedule', { schedule: 'Friday' }],
    ['schedule', { schedule: '0 0 17 * * 5' }],
    ['schedule', { schedule: '2027-01-01T00:00:00' }],
    ['schedule', { schedule: '61 17 * * 5' }],
    ['schedule', { schedule: '0 0 30 2 *' }],
    ['durationMs', { durationMs: 5 * MINUTE_MS - 1 }],
    ['durationMs', { durationMs: 31 * 24 * HOUR_MS + 1 }],
    ['durationMs', { durationMs: HOUR_MS + 0.5 }],
    ['durationMs', { durationMs: 7 * 24 * HOUR_MS }],
    ['durationMs', { schedule: '0 0 * * *', durationMs: 24 * HOUR_MS }],
  ])('names the field %s of %o', (field, change) => {
    expect(() => assertRecurrence({ ...WEEKEND, ...change }, Date.UTC(2027, 0, 1))).toThrow(
      expect.objectContaining({ code: 'request.invalid', details: { field } }),
    );
  });

  test('accepts a weekend, and the first and third Tuesday of a month', () => {
    const now = Date.UTC(2027, 0, 1);
    expect(() => assertRecurrence(WEEKEND, now)).not.toThrow();
    const tuesdays = { ...WEEKEND, schedule: '0 9 * * TUE#1,TUE#3', durationMs: HOUR_MS };
    expect(() => assertRecurrence(tuesdays, now)).not.toThrow();
  });
});
