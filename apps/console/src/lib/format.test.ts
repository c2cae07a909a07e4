import { describe, expect, test } from 'vitest';
import { ago, countText, duration, fullName, shortId, timeNear } from './format.ts';

describe('duration', () => {
  test.each([
    [-5, '0 ms'],
    [840, '840 ms'],
    [1_000, '1 s'],
    [59_999, '59 s'],
    [60_000, '1 min'],
    [200_000, '3 min 20 s'],
    [3_600_000, '1 h'],
    [7_500_000, '2 h 5 min'],
    [86_400_000 * 3 + 3_600_000 * 4, '3 d 4 h'],
  ])('says %d ms as %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });
});

test('what happened a moment ago reads "just now", not "0 ms ago"', () => {
  expect(ago(300)).toBe('just now');
  expect(ago(2_000)).toBe('2 s ago');
});

test('a time of another day has its date', () => {
  const now = '2026-11-21T23:59:58.000Z';
  expect(timeNear('2026-11-21T14:03:22.120Z', now)).toBe('14:03:22');
  expect(timeNear('2026-11-22T00:00:28.120Z', now)).toBe('2026-11-22 00:00:28');
});

test('one thing is counted in the singular, several in the plural', () => {
  expect(countText(1, 'key')).toBe('1 key');
  expect(countText(12_345, 'key')).toBe('12,345 keys');
  expect(countText(2, 'expiry', 'expiries')).toBe('2 expiries');
});

test('the root namespace is not written, and no two resources have the same name', () => {
  expect(fullName({ namespace: '', name: 'a' })).toBe('a');
  expect(fullName({ namespace: 'rooms.eu', name: 'a/b' })).toBe('rooms.eu/a/b');
  expect(fullName({ namespace: 'rooms.eu/a', name: 'b' })).toBe('rooms.eu%2Fa/b');
  expect(fullName({ namespace: '', name: 'a/b' })).toBe('/a/b');
});

test('ids that were made at the same time differ in what is shown of them', () => {
  const ids = ['0198c0de-1111-7000-8000-00000000000a', '0198c0de-1111-7000-8000-00000000000b'];
  expect(ids.map(shortId)).toEqual(['…0000000a', '…0000000b']);
  expect(shortId('bk-1')).toBe('bk-1');
});
