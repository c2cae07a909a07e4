import { describe, expect, test } from 'vitest';
import { Appointments } from './clock.ts';

describe('appointments', () => {
  test('are taken in the order of their moments, up to the one asked for', () => {
    const appointments = new Appointments<string>();
    for (const atMs of [30, 10, 40, 20]) appointments.add(atMs, 'work');

    expect(appointments.takeDue(30).map(({ atMs }) => atMs)).toEqual([10, 20, 30]);
    expect(appointments.takeDue(30)).toEqual([]);
  });

  test('that are cancelled do not pile up until their moment', () => {
    const appointments = new Appointments<string>();
    const kept = appointments.add(1e9, 'work');
    for (let place = 0; place < 100_000; place += 1) {
      appointments.end(appointments.add(1e9 + place, 'work'));
    }

    expect(appointments.count).toBe(1);
    expect(appointments.takeDue(2e9)).toEqual([kept]);
    expect(appointments.end(kept)).toBe('work');
    expect(appointments.end(kept)).toBeUndefined();
  });

  test('that are cancelled keep nothing in memory', () => {
    const appointments = new Appointments<object>();
    const cancelled = appointments.add(1e9, {});

    appointments.end(cancelled);

    expect(cancelled.what).toBeUndefined();
  });
});
