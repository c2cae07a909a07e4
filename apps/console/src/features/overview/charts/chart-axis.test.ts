import { describe, expect, it, test } from 'vitest';
import type { AuditEntry } from '~/resources/audit.ts';
import { axisTicks, clockText, clockTicks, marksOf, tickText } from './chart-series.ts';

describe('axisTicks', () => {
  it('counts in ones, twos and fives, up to at least the greatest value', () => {
    expect(axisTicks(1, 'count')).toEqual([0, 1]);
    expect(axisTicks(3, 'count')).toEqual([0, 1, 2, 3]);
    expect(axisTicks(360, 'count')).toEqual([0, 100, 200, 300, 400]);
    expect(axisTicks(749, 'count')).toEqual([0, 200, 400, 600, 800]);
  });

  it('marks times that need no rounding', () => {
    expect(axisTicks(170, 'ms')).toEqual([0, 50, 100, 150, 200]);
    expect(axisTicks(7_012, 'ms')).toEqual([0, 2_000, 4_000, 6_000, 8_000]);
    expect(axisTicks(23_700, 'ms')).toEqual([0, 10_000, 20_000, 30_000]);
    expect(axisTicks(100_000, 'ms')).toEqual([0, 30_000, 60_000, 90_000, 120_000]);
  });
});

describe('the axis of time', () => {
  const at = (time: string): number => Date.parse(`2026-11-25T${time}:00Z`);
  const texts = (from: string, to: string, widthPx: number): string[] =>
    clockTicks(at(from), at(to), widthPx).map(clockText);

  it('is marked at round times, as many as have room', () => {
    expect(texts('16:20', '17:19', 320)).toEqual(['16:30', '16:45', '17:00', '17:15']);
    expect(texts('16:20', '17:19', 600)).toEqual([
      '16:20',
      '16:30',
      '16:40',
      '16:50',
      '17:00',
      '17:10',
    ]);
    expect(texts('17:01', '17:15', 280)).toEqual(['17:05', '17:10', '17:15']);
    expect(texts('17:01', '17:15', 1)).toEqual(['17:15']);
  });

  it('names the day that begins at midnight', () => {
    const day = clockTicks(at('17:12') - 86_400_000, at('17:00'), 400).map(clockText);

    expect(day).toEqual(['20:00', '25 Nov', '04:00', '08:00', '12:00', '16:00']);
  });
});

describe('tickText', () => {
  it('has a unit, and no more digits than it needs', () => {
    expect([0, 500, 2_000].map((value) => tickText(value, 'ms'))).toEqual(['0', '500 ms', '2 s']);
    expect([0, 400, 2_000, 20_000].map((value) => tickText(value, 'count'))).toEqual([
      '0',
      '400',
      '2,000',
      '20k',
    ]);
  });
});

const FROM = Date.parse('2026-11-25T10:00:00.000Z');
const HOUR = { fromMs: FROM, toMs: FROM + 3_600_000, widthPx: 360 };

function act(minute: number, action = 'drones.drain'): AuditEntry {
  const at = new Date(FROM + minute * 60_000).toISOString();
  return { id: String(minute), at, action, actor: 'ada@example.com' } as AuditEntry;
}

test('acts are marks where they happened, with a link to the entry; those outside have no mark', () => {
  const marks = marksOf([act(70), act(30), act(5), act(-1)], HOUR);

  expect(marks.map(({ atMs }) => (atMs - FROM) / 60_000)).toEqual([30, 5]);
  expect(marks[0]?.href).toBe(
    '/audit?from=2026-11-25T10%3A30%3A00.000Z&to=2026-11-25T10%3A30%3A00.001Z&action=drones.drain&q=actor%3A%22ada%40example.com%22',
  );
});

test('acts that are too close have one mark, with a link to all of them', () => {
  const marks = marksOf([act(31), act(30.5), act(30), act(10)], HOUR);

  expect(marks.map(({ acts }) => acts.length)).toEqual([3, 1]);
  expect(marks[0]?.href).toBe(
    '/audit?from=2026-11-25T10%3A30%3A00.000Z&to=2026-11-25T10%3A31%3A00.001Z',
  );
});

test('marks are as far from each other as a finger needs', () => {
  const at = (minute: number) => act(minute);
  expect(marksOf([at(32), at(30)], HOUR)).toHaveLength(1);
  expect(marksOf([at(35), at(30)], HOUR)).toHaveLength(2);

  const [later, earlier] = marksOf([at(32), at(29), at(27)], HOUR);
  expect((later?.atMs ?? 0) - (earlier?.atMs ?? 0)).toBeGreaterThanOrEqual(4 * 60_000);
});

test('acts that were recorded in another order than that of their times are marked at their times', () => {
  const marks = marksOf([act(10), act(50), act(30)], HOUR);

  expect(marks.map(({ atMs }) => (atMs - FROM) / 60_000)).toEqual([50, 30, 10]);
});
