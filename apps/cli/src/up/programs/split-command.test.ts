import { describe, expect, test } from 'vitest';
import { splitCommand } from './split-command.ts';

function wordsOf(text: string): readonly string[] | string {
  const split = splitCommand(text);
  return split.outcome === 'words' ? split.words : split.problem;
}

describe('splitCommand', () => {
  test.each<[string, string[]]>([
    ['node echo.mjs', ['node', 'echo.mjs']],
    ['  node \t echo.mjs  ', ['node', 'echo.mjs']],
    [`node 'my file.mjs' "a b" c\\ d`, ['node', 'my file.mjs', 'a b', 'c d']],
    [`node --title="two words" x'y'"z"`, ['node', '--title=two words', 'xyz']],
    [`node '' ""`, ['node', '', '']],
    [`sh -c 'exec node "$FILE" | tee log'`, ['sh', '-c', 'exec node "$FILE" | tee log']],
    [`echo "a \\"b\\" \\$c \\n" \\$d \\'`, ['echo', 'a "b" $c \\n', '$d', "'"]],
    ['echo 5$ a=b #1 *.mjs ~ 日本', ['echo', '5$', 'a=b', '#1', '*.mjs', '~', '日本']],
    [`'A=b' c`, ['A=b', 'c']],
  ])('splits %s as a shell does', (text, words) => {
    expect(wordsOf(text)).toEqual(words);
  });

  test('variables before the command are those of its environment', () => {
    expect(splitCommand(`MODE=dev TITLE='a b' EMPTY= node x.mjs A=1`)).toEqual({
      outcome: 'words',
      env: { MODE: 'dev', TITLE: 'a b', EMPTY: '' },
      words: ['node', 'x.mjs', 'A=1'],
    });
  });

  test.each([
    [`node 'echo.mjs`, /quote ' at character 6 that is not closed/u],
    [`node "echo.mjs`, /quote " at character 6 that is not closed/u],
    [`node it's`, /quote ' at character 8/u],
    ['node \\', /ends with a backslash/u],
    ['', /is empty/u],
    ['   ', /is empty/u],
    [`''`, /is empty/u],
    ['A=1', /is empty/u],
  ])('%s is not a command', (text, problem) => {
    expect(wordsOf(text)).toMatch(problem);
  });

  test.each([
    ['python3 -m http.server $PORT', '$PORT', `sh -c 'exec python3 -m http.server $PORT'`],
    ['node x.mjs "${PORT}"', '${PORT}', `sh -c 'exec node x.mjs "\${PORT}"'`],
    ['npm run build && npm start', '&&', `sh -c 'npm run build && npm start'`],
    ['node x.mjs > log', '>', `sh -c 'exec node x.mjs > log'`],
    ['node x.mjs `date`', '`', "sh -c 'exec node x.mjs `date`'"],
    [`echo 'a' | cat`, '|', String.raw`sh -c 'echo '\''a'\'' | cat'`],
    ['node a.mjs\nnode b.mjs', 'a second line', `sh -c 'node a.mjs\nnode b.mjs'`],
  ])('%s needs a shell, which is said with the words for it', (text, what, remedy) => {
    expect(wordsOf(text)).toBe(`needs a shell for ${what}, and none runs it: write ${remedy}`);
    expect(wordsOf(remedy)).toHaveLength(3);
  });
});
