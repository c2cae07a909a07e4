import { describe, expect, test } from 'vitest';
import { printable, printableOr } from './printable.ts';

describe('printable', () => {
  test('leaves ordinary names of every script alone', () => {
    expect(printable('rooms/é-漢字-🙂 1')).toBe('rooms/é-漢字-🙂 1');
  });

  test('writes characters that control a terminal as escapes', () => {
    expect(printable('\u001b[2Jx\n')).toBe('\\u{1b}[2Jx\\u{a}');
  });

  test('makes a right-to-left override visible', () => {
    expect(printable('a\u202eb')).toBe('a\\u{202e}b');
  });

  test('quotes a name with a space at its end', () => {
    expect(printable('a ')).toBe('"a "');
  });

  test.each([
    ['a\u202eb', 'a\\u{202e}b'],
    ['a\\u{202e}b', 'a\\u{5c}u{202e}b'],
    [' a', '" a"'],
    ['" a"', '"\\" a\\""'],
  ])('shows %j so that it cannot be taken for another name', (name, shown) => {
    expect(printable(name)).toBe(shown);
  });

  test('shows a missing value differently from an empty name', () => {
    expect([printableOr(null), printable('')]).toEqual(['-', '""']);
  });
});
