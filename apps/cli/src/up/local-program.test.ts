import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  commandText,
  locate,
  scriptsOf,
  splitCommand,
  type LocalProgram,
} from './local-program.ts';

let folder: string;
let bin: string;

beforeAll(() => {
  folder = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'lh-local-')));
  bin = path.join(folder, 'bin');
  for (const name of ['bin', 'data', 'app']) mkdirSync(path.join(folder, name));
  for (const name of ['bin/node', 'bin/python3.12', 'serve', 'data/run.sh']) {
    writeFileSync(path.join(folder, name), '');
    chmodSync(path.join(folder, name), 0o755);
  }
  for (const name of ['echo.mjs', 'app/echo.py', 'data/a.mjs', 'plain']) {
    writeFileSync(path.join(folder, name), '');
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));

const at = (name: string): string => path.join(folder, name);
const find = (program: LocalProgram) => locate(program, { folder, searchPath: bin });
const problemOf = (program: LocalProgram): string | undefined =>
  find(program).problems.map(({ field, problem }) => `${field}: ${problem}`)[0];

describe('locate', () => {
  test('a command of the PATH and a folder become absolute, and the program gets that PATH', () => {
    expect(find({ command: 'node', args: ['echo.mjs', '-v'], port: 80 })).toEqual({
      program: {
        command: at('bin/node'),
        args: ['echo.mjs', '-v'],
        cwd: folder,
        env: { PATH: bin },
        port: 80,
      },
      problems: [],
    });
  });

  test('it is the same wherever it is looked at from later', () => {
    const { program } = find({ command: './serve', args: ['app/echo.py'], cwd: 'data' });

    expect(locate(program, { folder: '/', searchPath: '/nowhere' })).toEqual({
      program,
      problems: [],
    });
  });

  test('files are looked for in the folder it runs in, and then where its command was typed', () => {
    const { program } = find({
      command: 'node',
      args: ['a.mjs', 'app/echo.py', '../echo.mjs', 'neither', '--x=echo.mjs'],
      cwd: 'data',
    });

    expect(program.args).toEqual([
      'a.mjs',
      at('app/echo.py'),
      at('echo.mjs'),
      'neither',
      '--x=echo.mjs',
    ]);
    expect(find({ command: './serve', cwd: 'data' }).program.command).toBe(at('serve'));
    expect(find({ command: './run.sh', cwd: 'data' }).program.command).toBe(at('data/run.sh'));
  });

  test('a PATH of its own is the one in which it is looked for', () => {
    expect(problemOf({ command: 'node', env: { PATH: '/nowhere' } })).toMatch(/no command node/u);
  });

  test.each<[string, LocalProgram, RegExp]>([
    ['a command', { command: 'nod' }, /^command: there is no command nod in PATH$/u],
    ['a path', { command: './nod' }, /^command: \S+\/nod does not exist$/u],
    ['a script', { command: 'node', args: ['ehco.mjs'] }, /^command: \S+\/ehco\.mjs does not/u],
    ['one of Python', { command: 'python3.12', args: ['-u', 'x.py'] }, /\/x\.py does not exist/u],
    ['a folder', { command: 'node', cwd: 'nowhere' }, /^cwd: \S+\/nowhere does not exist$/u],
  ])('%s that cannot be found is a problem', (_what, program, problem) => {
    expect(problemOf(program)).toMatch(problem);
  });

  test.each<[string, LocalProgram, RegExp]>([
    ['a script alone', { command: 'echo.mjs' }, /write node echo\.mjs$/u],
    ['a program alone', { command: 'serve' }, /write \.\/serve$/u],
    ['a file without the right', { command: './plain' }, /may not be executed: `chmod \+x` it$/u],
    ['a folder for a command', { command: './data' }, /is not a file$/u],
    ['a file for a folder', { command: 'node', cwd: 'plain' }, /is not a folder$/u],
  ])('%s is refused with what to do', (_what, program, problem) => {
    expect(problemOf(program)).toMatch(problem);
  });

  test.each<[string, LocalProgram]>([
    ['a module', { command: 'python3.12', args: ['-m', 'http.server'] }],
    ['words of a shell', { command: 'node', args: ['-e', 'require("./x.js")'] }],
    ['a file that it writes', { command: './serve', args: ['out.js'] }],
  ])('%s is no script that must be there', (_what, program) => {
    expect(problemOf(program)).toBeUndefined();
  });
});

describe('scriptsOf', () => {
  test.each<[string, LocalProgram, string[]]>([
    [
      'scripts',
      { command: 'node', args: ['--import', './data/a.mjs', 'echo.mjs', 'x.mjs'] },
      ['data/a.mjs', 'echo.mjs'],
    ],
    ['its own file', { command: './serve', args: ['--port', '1'] }, ['serve']],
    ['nothing, of a module', { command: 'python3.12', args: ['-m', 'app'] }, []],
  ])('are %s', (_what, program, files) => {
    expect(scriptsOf(find(program).program)).toEqual(files.map(at));
  });

  test('are not what is installed', () => {
    expect(scriptsOf({ command: '/usr/bin/npm', args: ['start'] })).toEqual([]);
  });
});

test('a program is shown as one would type it', () => {
  expect(commandText({ command: '/usr/bin/node', args: ['a b.mjs', '-v', ''] })).toBe(
    'node "a b.mjs" -v ""',
  );
});

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
