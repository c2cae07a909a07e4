import { describe, expect, test } from 'vitest';
import { detailsText, tableText } from './table.ts';

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
