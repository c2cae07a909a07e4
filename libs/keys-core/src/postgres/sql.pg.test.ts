import { expect, test } from 'vitest';
import { openKernel } from '../testing/kernel-fixture.ts';
import { arrayText, textArray } from './sql.ts';

test('texts and ids arrive as they are, whatever characters are in them', async () => {
  const { store } = await openKernel();
  const texts = [
    '',
    'a',
    'NULL',
    'null',
    null,
    '"',
    '\\',
    '\\"',
    '{a,b}',
    ' a ',
    'a\nb',
    '\u001f',
    'ü',
    '€😀',
    '$&',
  ];

  const [row] = await store.general.$queryRaw<{ texts: string[]; one: string[]; ids: number[] }[]>`
    select ${textArray(texts)}::text[] as texts, ${textArray([''])}::text[] as one,
      ${arrayText([1, 2])}::int[] as ids`;

  expect(row).toEqual({ texts, one: [''], ids: [1, 2] });
  expect(textArray([])).toBe('{}');
  expect(() => arrayText(['a,b'])).toThrow('comma');
});
