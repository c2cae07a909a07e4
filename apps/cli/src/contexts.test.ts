import { chmodSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { changeContexts, readContexts, type Context } from './contexts.ts';
import { controllerThatAnswers, runHere } from './testing/in-process.ts';

const TOKEN = `lh_${'s'.repeat(43)}`;
const OTHER_TOKEN = `lh_${'o'.repeat(43)}`;

let folder: string;
let env: { XDG_CONFIG_HOME: string };
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'contexts-'));
  env = { XDG_CONFIG_HOME: folder };
  file = join(folder, 'leasehold', 'contexts.json');
});

afterEach(() => rm(folder, { recursive: true }));

const run = (...args: string[]) => runHere(['context', ...args], env);
const add = (name: string, ...more: string[]) =>
  run('add', name, '--controllers', `http://${name}.invalid:1`, ...more);
const context = (name: string): Context => ({ name, urls: ['http://a'], token: null });

describe('the file', () => {
  test('is for its owner alone, as is its folder, and no draft or lock is left', async () => {
    mkdirSync(join(folder, 'leasehold'), { mode: 0o755 });

    expect((await add('staging', '--token', TOKEN)).exitCode).toBe(0);

    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, 'leasehold')).mode & 0o777).toBe(0o700);
    expect(await readdir(join(folder, 'leasehold'))).toEqual(['contexts.json']);
  });

  test('has what every one of many writers added', async () => {
    const names = Array.from({ length: 20 }, (_, at) => `c${String(at)}`);

    await Promise.all(
      names.map((name) =>
        changeContexts(env, (before) => ({
          ...before,
          contexts: [...before.contexts, context(name)],
        })),
      ),
    );

    expect(
      readContexts(env)
        .contexts.map(({ name }) => name)
        .sort(),
    ).toEqual(names.sort());
  });

  test('stays as it is when a change is refused, and can be changed after that', async () => {
    await add('staging', '--token', TOKEN);
    const before = readFileSync(file, 'utf8');

    expect(await add('staging')).toMatchObject({ exitCode: 1 });
    expect(await run('use', 'nothing')).toMatchObject({ exitCode: 4 });
    expect(readFileSync(file, 'utf8')).toBe(before);
    expect(await add('staging', '--replace', '--token', OTHER_TOKEN)).toMatchObject({
      exitCode: 0,
    });
    expect(readContexts(env).contexts[0]?.token).toBe(OTHER_TOKEN);
  });

  test('that is a link stays a link', async () => {
    mkdirSync(join(folder, 'leasehold'));
    const kept = join(folder, 'dotfile.json');
    writeFileSync(kept, JSON.stringify({ current: null, contexts: [] }), { mode: 0o600 });
    symlinkSync(kept, file);

    await add('staging');

    expect(readFileSync(kept, 'utf8')).toContain('staging');
  });

  test.each([
    ['empty', ''],
    ['cut off', '{"current": nu'],
    ['of another shape', '[]'],
    ['with a field too many', '{"current":null,"contexts":[],"x":1}'],
    ['with an unknown current context', '{"current":"a","contexts":[]}'],
    [
      'with a name twice',
      JSON.stringify({ current: null, contexts: [context('a'), context('a')] }),
    ],
    ['with a bad name', JSON.stringify({ current: null, contexts: [context('../a')] })],
    [
      'with a bad token',
      `{"current":null,"contexts":[{"name":"a","urls":["http://a"],"token":"hunter2"}]}`,
    ],
    [
      'with a bad address',
      `{"current":null,"contexts":[{"name":"a","urls":["ftp://hunter2"],"token":null}]}`,
    ],
  ])('%s is refused by name, is not repeated, and is never overwritten', async (_what, text) => {
    mkdirSync(join(folder, 'leasehold'));
    writeFileSync(file, text, { mode: 0o600 });

    for (const words of [
      ['context', 'ls'],
      ['keys', 'ls'],
      ['context', 'add', 'b', '--controllers', 'http://b'],
    ]) {
      const ended = await runHere(words, env);
      expect(ended).toMatchObject({ exitCode: 1, stdout: '' });
      expect(ended.stderr).toContain(`${file} is not a list of contexts`);
      expect(ended.stderr).not.toContain('hunter2');
    }
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  test.each([0o644, 0o640, 0o602])('with the mode %o is refused, with the remedy', async (mode) => {
    await add('staging', '--token', TOKEN);
    chmodSync(file, mode);

    const ended = await run('ls');

    expect(ended).toMatchObject({ exitCode: 1, stdout: '' });
    expect(ended.stderr).toContain(`chmod 600 ${file}`);
    expect(ended.stderr).not.toContain(TOKEN);
  });

  test('that cannot be used does not matter to commands that need no context', async () => {
    mkdirSync(join(folder, 'leasehold'));
    writeFileSync(file, 'broken', { mode: 0o600 });

    const variables = { ...env, LEASEHOLD_URL: 'http://127.0.0.1:1', LEASEHOLD_TOKEN: TOKEN };
    expect((await runHere(['keys', 'ls'], variables)).exitCode).toBe(3);
    expect((await runHere(['--context', 'local', 'keys', 'ls'], env)).exitCode).toBe(3);
  });

  test('needs a folder: without HOME nothing can be added, and the list is empty', async () => {
    expect((await runHere(['context', 'ls', '-o', 'name'])).stdout).toBe('local\n');
    const ended = await runHere(['context', 'add', 'a', '--controllers', 'http://a']);
    expect(ended).toMatchObject({ exitCode: 2 });
    expect(ended.stderr).toContain('XDG_CONFIG_HOME');
  });

  test('is in ~/.config where XDG_CONFIG_HOME is not set, or is relative', async () => {
    for (const XDG_CONFIG_HOME of ['', 'relative']) {
      const ended = await runHere(['context', 'ls', '-o', 'name'], {
        HOME: folder,
        XDG_CONFIG_HOME,
      });
      expect(ended.stdout).toBe('local\n');
    }
    await runHere(['context', 'add', 'a', '--controllers', 'http://a'], { HOME: folder });
    expect(readFileSync(join(folder, '.config/leasehold/contexts.json'), 'utf8')).toContain('"a"');
  });
});

describe('a name', () => {
  test.each(['', ' ', 'a b', '../x', 'a/b', '-x', '.x', 'ä', 'a\u0007', 'x'.repeat(64), 'local'])(
    '%j is refused',
    async (name) => {
      const ended = await run('add', '--controllers', 'http://a', '--', name);
      expect(ended).toMatchObject({ exitCode: 2, stdout: '' });
    },
  );

  test.each(['a', 'A.b_c-1', 'constructor', 'toString', 'x'.repeat(63)])(
    '%j is kept',
    async (name) => {
      expect(await run('show', name)).toMatchObject({ exitCode: 4 });
      expect((await run('add', name, '--controllers', 'http://a')).exitCode).toBe(0);
      expect((await run('show', name)).exitCode).toBe(0);
    },
  );

  test('that is unknown is not found, as an option and as a variable', async () => {
    const named = await runHere(['keys', 'ls', '--context', 'x\u001b'], env);
    const variable = await runHere(['keys', 'ls'], { ...env, LEASEHOLD_CONTEXT: 'x' });
    const empty = await runHere(['keys', 'ls', '--context', ''], env);

    expect([named.exitCode, variable.exitCode, empty.exitCode]).toEqual([4, 4, 2]);
    expect(named.stderr).toContain('"x\\u001b"');
    expect(named.stderr).toContain('leasehold context ls');
  });
});

describe('what is added', () => {
  test.each([
    [['--controllers', 'staging.example'], '--controllers'],
    [['--controllers', 'https://me:hunter2@a'], '--controllers'],
    [['--controllers', 'https://a,https://a'], '--controllers'],
    [['--controllers', 'https://a', '--token', 'hunter2'], '--token'],
    [['--controllers', 'https://a', '--token', TOKEN, '--token-stdin'], '--token-stdin'],
    [['--token', TOKEN], '--controllers'],
  ])('%j is refused, and no secret is repeated', async (options, named) => {
    const ended = await run('add', 'a', ...options);

    expect(ended).toMatchObject({ exitCode: 2, stdout: '' });
    expect(ended.stderr).toContain(named);
    expect(ended.stderr).not.toMatch(/hunter2|sss/u);
  });

  test('has the token of the standard input, without the end of its line', async () => {
    const words = ['context', 'add', 'a', '--controllers', 'https://a/,https://b', '--token-stdin'];

    expect((await runHere(words, env, `${TOKEN}\n`)).exitCode).toBe(0);
    expect((await runHere([...words, '--replace'], env, 'nothing\n')).exitCode).toBe(2);

    expect(readContexts(env).contexts).toEqual([
      { name: 'a', urls: ['https://a', 'https://b'], token: TOKEN },
    ]);
  });

  test('never prints its token again', async () => {
    await add('staging', '--token', TOKEN, '--use');

    const plain = [['ls'], ['show'], ['show', 'staging'], ['current']];
    const json = plain.map((words) => [...words, '--json']);
    for (const words of [...plain, ...json, ['ls', '-o', 'wide']]) {
      const ended = await run(...words);
      expect(ended).toMatchObject({ exitCode: 0 });
      expect(ended.stdout).toContain('staging');
      expect(ended.stdout + ended.stderr).not.toContain(TOKEN);
    }
    const config = await runHere(['config', 'print'], env);
    expect(config.stdout).toContain('http://staging.invalid:1');
    expect(config.stdout).not.toContain(TOKEN);
  });

  test('removing the current context leaves what runs in the home', async () => {
    await add('staging', '--use');

    expect((await run('rm', 'staging')).stdout).toContain('they use local now');
    expect((await run('current')).stdout).toBe('local\n');
    expect((await run('rm', 'staging')).exitCode).toBe(4);
    expect((await run('rm', 'local')).exitCode).toBe(2);
  });
});

describe('where commands go', () => {
  const VARIABLES = { LEASEHOLD_URL: 'http://variable.invalid:1', LEASEHOLD_TOKEN: OTHER_TOKEN };
  type Given = Record<string, string>;

  async function from(args: string[], more: Given) {
    const ended = await runHere(['context', 'show', '--json', ...args], { ...env, ...more });
    return JSON.parse(ended.stdout) as {
      urls: string[] | null;
      from: { urls: string; token: string };
    };
  }

  beforeEach(async () => {
    await add('staging', '--token', TOKEN, '--use');
    await add('production', '--token', TOKEN);
    await add('bare');
  });

  test.each<[string[], Given, string, string]>([
    [['--context', 'production'], VARIABLES, 'context production', 'context production'],
    [
      [],
      { ...VARIABLES, LEASEHOLD_CONTEXT: 'production' },
      'context production',
      'context production',
    ],
    [['--context', 'bare'], { LEASEHOLD_CONTEXT: 'production' }, 'context bare', 'LEASEHOLD_TOKEN'],
    [[], VARIABLES, 'LEASEHOLD_URL', 'LEASEHOLD_TOKEN'],
    [[], {}, 'context staging', 'context staging'],
    [[], { LEASEHOLD_CONTEXT: '' }, 'context staging', 'context staging'],
    [[], { LEASEHOLD_TOKEN: OTHER_TOKEN }, 'context staging', 'LEASEHOLD_TOKEN'],
    [['--context', 'local'], {}, 'leasehold up in /nowhere', 'leasehold up in /nowhere'],
    [['--context', 'local'], VARIABLES, 'leasehold up in /nowhere', 'LEASEHOLD_TOKEN'],
  ])('%j with %j: to %s, with the token of %s', async (args, more, urls, token) => {
    expect((await from(args, more)).from).toEqual({ urls, token });
  });

  test('who names the context local means the token of its home, whatever LEASEHOLD_TOKEN is', async () => {
    const page = { items: [], nextCursor: null, asOf: '2026-11-29T10:00:00.000Z', unreachable: [] };
    const controller = await controllerThatAnswers(() => page);
    const tokens = new Set<string | undefined>();
    controller.server.on('request', ({ headers }) => tokens.add(headers.authorization));
    const home = join(folder, 'home');
    mkdirSync(home);
    const run = { controllerUrl: controller.env.LEASEHOLD_URL };
    writeFileSync(join(home, 'run.json'), JSON.stringify(run));
    writeFileSync(join(home, 'credentials.json'), JSON.stringify({ admin: TOKEN }));
    const given = { ...env, ...VARIABLES, LEASEHOLD_HOME: home };

    const named = await runHere(['--context', 'local', 'keys', 'ls'], given);
    expect(named).toMatchObject({ exitCode: 0 });
    expect([...tokens]).toEqual([`Bearer ${TOKEN}`]);
    expect((await from(['--context', 'local'], given)).from.token).toBe(`leasehold up in ${home}`);
    tokens.clear();
    const unnamed = { LEASEHOLD_HOME: home, LEASEHOLD_TOKEN: OTHER_TOKEN };
    expect(await runHere(['keys', 'ls'], unnamed)).toMatchObject({ exitCode: 0 });
    expect([...tokens]).toEqual([`Bearer ${OTHER_TOKEN}`]);
  });

  test('a token of a context is sent to no other address', async () => {
    const ended = await runHere(['keys', 'ls'], { ...env, LEASEHOLD_URL: 'http://127.0.0.1:1' });

    expect(ended).toMatchObject({ exitCode: 2 });
    expect(ended.stderr).toContain('LEASEHOLD_TOKEN is not set');
  });

  test('an error names the context, before and after the name of the command', async () => {
    for (const words of [
      ['--context', 'production', 'keys', 'ls'],
      ['keys', '--context', 'production', 'ls'],
      ['keys', 'ls', '--context=production'],
    ]) {
      const ended = await runHere(words, env);
      expect(ended.exitCode).toBe(3);
      expect(ended.stderr).toContain('http://production.invalid:1 (context production)');
    }
  });

  test('a context without a token says how to keep one', async () => {
    const ended = await runHere(['keys', 'ls', '--context', 'bare'], env);

    expect(ended).toMatchObject({ exitCode: 2 });
    expect(ended.stderr).toMatch(/context bare has no token.*\n.*--token-stdin/u);
  });

  test.each([
    ['LEASEHOLD_CONTEXT', 'bare'],
    ['LEASEHOLD_URL', 'http://a'],
    ['LEASEHOLD_TOKEN', TOKEN],
  ])('the choice of one tells that %s wins over it', async (name, value) => {
    const ended = await runHere(['context', 'use', 'production'], { ...env, [name]: value });

    expect(ended).toMatchObject({ exitCode: 0 });
    expect(ended.stderr).toContain(`${name} in the environment takes precedence`);
  });

  test.each([
    [['use', 'production']],
    [['add', 'other', '--controllers', 'http://other.invalid:1', '--use']],
  ])('%j changes nothing where a variable is wrong', async (words) => {
    const before = readContexts(env);

    const ended = await runHere(['context', ...words], { ...env, LEASEHOLD_TOKEN: 'lh_wrong' });

    expect(ended).toMatchObject({ exitCode: 2, stdout: '' });
    expect(ended.stderr).toContain('Nothing was done.');
    expect(readContexts(env)).toEqual(before);
  });

  test.each([['migrate'], ['admin', 'create', '--email', 'a@example.com']])(
    '%s %s does not take the database of the home for that of a context',
    async (...words) => {
      const ended = await runHere([...words, '--context', 'staging'], env);

      expect(ended).toMatchObject({ exitCode: 2 });
      expect(ended.stderr).toContain('DATABASE_URL');
    },
  );
});
