import { describe, expect, test } from 'vitest';
import { blocksOf } from './blocks.ts';
import { matchOutput, shapeProblem } from './shape.ts';

describe('blocks of a page', () => {
  test('have their language, their place and the mark above them', () => {
    const text = [
      '<!-- setup: client -->',
      '',
      '```ts',
      'a;',
      '```',
      'text',
      '',
      '```',
      'b',
      '```',
    ];

    expect(blocksOf('p.md', text.join('\n'))).toEqual([
      {
        page: 'p.md',
        line: 3,
        language: 'ts',
        lines: ['a;'],
        mark: { kind: 'setup', value: 'client' },
      },
      { page: 'p.md', line: 8, language: '', lines: ['b'], mark: undefined },
    ]);
  });

  test('end with the fence that they began with', () => {
    const [block] = blocksOf('p.md', ['````md', '```ts', '```', '````'].join('\n'));

    expect(block?.lines).toEqual(['```ts', '```']);
    expect(() => blocksOf('p.md', '```ts\na;')).toThrow('p.md:1');
  });
});

describe('what a command prints', () => {
  const shown = 'backend        bk-zj241rhfofpgd1, started now\n{"token":"1795214150823"}';

  test('is as shown except for words with a digit, which are remembered', () => {
    const printed = 'backend  bk-aaaa22222bbbbb, started now\n{"token":"99999"}\n';

    expect(matchOutput(shown, printed)).toEqual(
      new Map([
        ['bk-zj241rhfofpgd1', 'bk-aaaa22222bbbbb'],
        ['1795214150823', '99999'],
      ]),
    );
  });

  test('is not as shown when a word differs, is missing, or more is printed', () => {
    expect(matchOutput(shown, 'backend bk-a1, was running\n{"token":"9"}')).toBeUndefined();
    expect(matchOutput(shown, 'backend bk-a1, started now')).toBeUndefined();
    expect(matchOutput('one', 'one\ntwo')).toBeUndefined();
  });

  test('that is JSON has the fields that are shown, of the same types', () => {
    const json = { a: [{ b: '1' }], c: null };

    expect(shapeProblem(json, { a: [{ b: '…' }, { b: '2' }], c: null })).toBeUndefined();
    expect(shapeProblem(json, { a: [{ b: 1 }], c: null })).toContain('$.a[0].b');
    expect(shapeProblem(json, { a: [], c: null })).toContain('$.a');
    expect(shapeProblem(json, { ...json, d: 1 })).toContain('$');
    expect(shapeProblem(json, { a: [{ b: '1' }] })).toContain('$');
  });
});
