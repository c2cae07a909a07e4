import { describe, expect, test } from 'vitest';
import { createExportText, textOf, type ExportText } from './export-routes.ts';

async function* pagesOf(
  ...pages: readonly object[][]
): AsyncGenerator<readonly object[], undefined> {
  for (const page of pages) yield await Promise.resolve(page);
}

async function textFrom(text: ExportText, pages: object[][], rowsMax?: number): Promise<string> {
  const source = pagesOf(...pages);
  let all = '';
  for await (const piece of textOf(await source.next(), source, text, rowsMax)) all += piece;
  return all;
}

describe('the text of an export', () => {
  test('is one array however its rows are paged, even with empty pages or no rows', async () => {
    const json = (pages: object[][]): Promise<string> =>
      textFrom(createExportText('json', []), pages);

    expect(JSON.parse(await json([[{ a: 1 }], [], [{ a: 2 }, { a: 3 }]]))).toEqual([
      { a: 1 },
      { a: 2 },
      { a: 3 },
    ]);
    expect(JSON.parse(await json([]))).toEqual([]);
  });

  test('fails instead of ending when there are too many rows', async () => {
    const pages = [[{ a: 1 }], [{ a: 2 }]];

    await expect(textFrom(createExportText('json', []), pages, 1)).rejects.toMatchObject({
      code: 'request.too_large',
    });
    expect(await textFrom(createExportText('csv', ['a']), pages, 2)).toBe('a\r\n1\r\n2\r\n');
  });

  test.each([
    ['=1', "'=1"],
    ['+1', "'+1"],
    ['-1', "'-1"],
    ['@a', "'@a"],
    ['\tx', "'\tx"],
    ['\rx', `"'\rx"`],
    ['plain', 'plain'],
    ['a=1', 'a=1'],
    ['a,b', '"a,b"'],
    ['a"b', '"a""b"'],
    ['a\nb', '"a\nb"'],
    [-5, '-5'],
    [null, ''],
    [true, 'true'],
    [{ '=1': 2 }, '"{""=1"":2}"'],
  ])('writes a cell %j as %j', async (value, cell) => {
    const text = await textFrom(createExportText('csv', ['x.y']), [[{ x: { y: value } }]]);

    expect(text).toBe(`x.y\r\n${cell}\r\n`);
  });
});
