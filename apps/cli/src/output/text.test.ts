import { describe, expect, test } from 'vitest';
import { agoText, detailsText, durationText, printable, printableOr, tableText } from './text.ts';

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

describe('durationText', () => {
  test.each([
    [-5, '0 ms'],
    [0, '0 ms'],
    [999.9, '999 ms'],
    [1_000, '1.0 s'],
    [59_999, '59.9 s'],
    [60_000, '1 m 00 s'],
    [3_599_999, '59 m 59 s'],
    [3_600_000, '1 h 00 m'],
    [86_399_999, '23 h 59 m'],
    [86_400_000, '1 d 00 h'],
  ])('shows %d ms as %s, never longer than it is', (ms, text) => {
    expect(durationText(ms)).toBe(text);
  });
});

describe('agoText', () => {
  test('compares two instants of one clock', () => {
    expect(agoText('2026-01-01T00:00:00.000Z', '2026-01-01T00:00:12.500Z')).toBe('12.5 s ago');
  });

  test('says that an instant is ahead instead of a negative time', () => {
    expect(agoText('2026-01-01T00:00:05.000Z', '2026-01-01T00:00:00.000Z')).toBe('in 5.0 s');
  });

  test('says never for what has not happened', () => {
    expect(agoText(null, '2026-01-01T00:00:00.000Z')).toBe('never');
  });
});

const columns = [
  { head: 'name', text: (row: { name: string; left: string; tag: string }) => row.name },
  { head: 'left', text: (row: { left: string }) => row.left, align: 'right' as const },
  { head: 'tag', text: (row: { tag: string }) => row.tag },
];

describe('tableText', () => {
  test('aligns columns, leaves out the empty ones, and leaves no spaces at the end of a line', () => {
    const rows = [
      { name: 'a', left: '10 s', tag: '' },
      { name: 'longer', left: '5 s', tag: '' },
    ];

    expect(tableText(rows, columns)).toBe('NAME    LEFT\na       10 s\nlonger   5 s');
  });

  test('counts wide characters as they are shown', () => {
    const rows = [
      { name: '漢', left: '1', tag: 't' },
      { name: 'ab', left: '2', tag: 't' },
    ];

    expect(tableText(rows, columns).split('\n').slice(1)).toEqual([
      '漢       1  t',
      'ab       2  t',
    ]);
  });
});

describe('detailsText', () => {
  test('aligns the values', () => {
    expect(
      detailsText([
        ['key', 'demo'],
        ['fencing token', '7'],
      ]),
    ).toBe('key            demo\nfencing token  7');
  });
});
