import { expect, test } from 'vitest';
import type { AuditEntry } from '~/resources/audit.ts';
import { marksOf } from './chart-marks.ts';

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
});

test('acts that were recorded in another order than that of their times are marked at their times', () => {
  const marks = marksOf([act(10), act(50), act(30)], HOUR);

  expect(marks.map(({ atMs }) => (atMs - FROM) / 60_000)).toEqual([50, 30, 10]);
});
