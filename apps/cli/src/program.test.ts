import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { createCli } from './cli.ts';
import { createProgram } from './program.ts';
import { contextOf, runHere } from './testing/in-process.ts';

/** Nothing listens there: what passes the check of its options ends as unreachable. */
const NOWHERE = { LEASEHOLD_URL: 'http://127.0.0.1:1', LEASEHOLD_TOKEN: `lh_${'x'.repeat(43)}` };

const CONNECT = ['connect', 'room', '--program', 'room'];
const RUN = ['leases', 'run', 'jobs/a', '--', 'true'];

/** The command line with an option before the end of its options. */
function withOption(words: readonly string[], option: readonly string[]): string[] {
  const at = words.indexOf('--');
  return at < 0 ? [...words, ...option] : [...words.slice(0, at), ...option, ...words.slice(at)];
}

describe('a duration', () => {
  test.each([
    [CONNECT, '--lifetime', ['90s', '1h', '366d', '60000']],
    [CONNECT, '--idle-stop', ['90s', '1h', '30d', '60000']],
    [CONNECT, '--wait', ['0', '250ms', '1.5s', '2m', '120000']],
    [['events', 'ls'], '--last', ['90s', '15m', '7d', '60000']],
    [['audit', 'ls'], '--last', ['15m', '366d']],
  ])('%j takes %s as a time, or as milliseconds', async (words, option, values) => {
    for (const value of values) {
      const ended = await runHere(withOption(words, [option, value]), NOWHERE);
      expect(ended.stderr).toContain('No controller answers');
      expect(ended.exitCode).toBe(3);
    }
  });

  test.each([
    [CONNECT, '--lifetime', '999ms', '1s to 366d'],
    [CONNECT, '--lifetime', '367d', '1s to 366d'],
    [CONNECT, '--idle-stop', '999ms', '1s to 30d'],
    [CONNECT, '--idle-stop', '31d', '1s to 30d'],
    [CONNECT, '--wait', '3m', '0 to 2m'],
    [CONNECT, '--wait', 'soon', '0 to 2m'],
    [CONNECT, '--wait', '-1s', '0 to 2m'],
    [RUN, '--ttl', '25h', '1s to 1d'],
    [RUN, '--ttl', '30x', '1s to 1d'],
    [RUN, '--wait', '8d', '0 to 7d'],
    [RUN, '--grace', '20s', '0 to 7500ms'],
    [['events', 'ls'], '--last', '30s', '1m to 366d'],
    [['audit', 'export'], '--last', '2y', '1m to 366d'],
  ])('%j refuses %s %s, and names the range', async (words, option, value, range) => {
    const { exitCode, stderr } = await runHere(withOption(words, [option, value]), NOWHERE);

    expect(exitCode).toBe(2);
    expect(stderr).toContain(option);
    expect(stderr).toContain(range);
  });
});

const program = createProgram(createCli(contextOf({}).context, [], false));

/** A command without further commands, by what is typed. */
function leavesOf(command: Command, above: readonly string[] = []): [string, Command][] {
  return command.commands.flatMap((one): [string, Command][] => {
    const words = [...above, one.name()];
    return one.commands.length > 0 ? leavesOf(one, words) : [[words.join(' '), one]];
  });
}

function commandsOf(command: Command): Command[] {
  return command.commands.flatMap((one) => [one, ...commandsOf(one)]);
}

const LEAVES = leavesOf(program);
const OPTIONS = LEAVES.flatMap(([name, { options }]) =>
  options.map((option) => ({ name, option })),
);
/** `<time>` of `--wait <time>`; '' for an option without a value. */
const valueOf = (flags: string): string => /<.*>$/u.exec(flags)?.[0] ?? '';

describe('the options of every command', () => {
  const durations = OPTIONS.filter(({ option }) => valueOf(option.flags) === '<time>');
  const cases = durations.map(({ name, option }) => [name, option.long ?? '', option] as const);

  test('there are commands with durations', () => {
    expect(cases.map(([name, long]) => `${name} ${long}`)).toEqual(
      expect.arrayContaining([
        'connect --wait',
        'leases run --ttl',
        'env freeze add --for',
        'backends logs --since',
        'drone upgrade --timeout',
      ]),
    );
  });

  test.each(cases)('%s %s is a time or milliseconds, within a range that is named', (...of) => {
    const [, long, { parseArg, description }] = of;
    const read = (text: string): unknown => parseArg?.(text, undefined);
    const takes = (text: string): boolean => {
      try {
        return typeof read(text) === 'number';
      } catch {
        return false;
      }
    };
    const refusal = `${long} must be a time such as 90s, 10m or 2h, or a number of milliseconds, from`;

    expect(() => read('soon')).toThrow(refusal);
    expect(description).toMatch(/; from \S+ to \S+, such as 90s, 10m or 2h, or in milliseconds/u);
    const same = [
      ['2s', '2000'],
      ['90s', '90000'],
      ['10m', '600000'],
      ['2h', '7200000'],
    ].filter(([text = '']) => takes(text));
    expect(same.length).toBeGreaterThan(0);
    for (const [text = '', ms = ''] of same) {
      expect([text, read(text)]).toEqual([text, Number(ms)]);
      expect([ms, read(ms)]).toEqual([ms, Number(ms)]);
    }
  });

  /** The same word for two things, each with why. */
  const TWO_MEANINGS: Readonly<Record<string, string>> = {
    '--program': '`up` makes one of a command, every other command names one',
    '--expires': 'from now on in both; that of a token may also be an instant',
    '--version': 'of what `env run` deploys; alone it is that of leasehold',
    '--watch': 'files in `up`, the list in every command that prints one',
  };

  test('one name for each option: it takes the same kind of value, with the same letter, everywhere', () => {
    const forms = new Map<string, Set<string>>();
    for (const option of [program, ...commandsOf(program)].flatMap(({ options }) => options)) {
      const long = option.long ?? '';
      forms.set(long, (forms.get(long) ?? new Set()).add(formOf(option.flags)));
    }

    const different = [...forms].filter(([, of]) => of.size > 1).map(([long]) => long);
    expect(different.sort()).toEqual(Object.keys(TWO_MEANINGS).sort());
  });

  /** `-w` and `<time>`, without the name itself. */
  function formOf(flags: string): string {
    return flags.replace(/--[\w-]+/u, '');
  }

  test('--namespace is -n everywhere', () => {
    const named = OPTIONS.filter(({ option }) => option.long === '--namespace');

    expect(named.length).toBeGreaterThan(20);
    expect(named.filter(({ option }) => option.short !== '-n')).toEqual([]);
  });

  test('--context is an option of what talks to controllers, and of nothing that runs a program here', () => {
    const programs = ['up', 'controller', 'console', 'drone', 'gateway run'];
    const has = ({ options }: Command, name: string): boolean =>
      options.some(({ long }) => long === name);
    const leaves = commandsOf(program).filter((command) => has(command, '--json'));
    const without = leaves.filter((command) => !has(command, '--context')).map(wordsOf);

    expect(without.sort()).toEqual(programs.sort());
  });

  function wordsOf(command: Command): string {
    const above = command.parent;
    return above === null || above === program
      ? command.name()
      : `${wordsOf(above)} ${command.name()}`;
  }

  test('every list takes -o and -w', () => {
    const isList = /(?: ls|history|waiters|waits|why|tree|callbacks|^find)$/u;
    const lists = LEAVES.filter(([name]) => isList.test(name));

    expect(lists.length).toBeGreaterThan(20);
    const without = lists.filter(([, { options }]) => {
      const shorts = options.map(({ short }) => short);
      return !shorts.includes('-o') || !shorts.includes('-w');
    });
    expect(without.map(([name]) => name)).toEqual([]);
  });
});

describe('a group without a command', () => {
  const groups = program.commands
    .filter((command) => command.commands.length > 0 && command.name() !== 'drone')
    .map((command) => command.name())
    .filter((name) => !['complete', 'completion'].includes(name));

  test.each(groups)('leasehold %s prints its help as an error, like wrong usage', async (group) => {
    const ended = await runHere([group]);
    const help = await runHere([group, '--help']);

    expect(help).toMatchObject({ exitCode: 0, stderr: '' });
    expect(help.stdout).toContain(`Usage: leasehold ${group}`);
    expect(ended).toEqual({ exitCode: 2, stdout: '', stderr: help.stdout });
  });

  test('leasehold alone does the same', async () => {
    const { stdout } = await runHere(['--help']);

    expect(await runHere([])).toEqual({ exitCode: 2, stdout: '', stderr: stdout });
  });

  test.each([[['--json']], [['keys', '--json']], [['--json', 'drones']]])(
    '%j is an error in JSON, which names the commands',
    async (words) => {
      const { exitCode, stdout, stderr } = await runHere(words);
      const { error } = JSON.parse(stderr) as { error: { code: string; message: string } };

      expect({ exitCode, stdout, code: error.code }).toEqual({
        exitCode: 2,
        stdout: '',
        code: 'cli.usage',
      });
      expect(error.message).toMatch(/one of .*(?:keys|ls), /u);
    },
  );
});
