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
    [RUN, '--wait', '400d', '0 to 366d'],
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

describe('a group without a command', () => {
  const program = createProgram(createCli(contextOf({}).context, [], false));
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
