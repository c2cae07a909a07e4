/** How lists are printed, from a controller that answers what a test wants. */
import { describe, expect, test } from 'vitest';
import type { Command } from 'commander';
import { createCli } from './cli.ts';
import { createProgram, runCli } from './program.ts';
import { contextOf, controllerThatAnswers, NO_ANSWER, runHere } from './testing/in-process.ts';

const AT = '2030-01-02T03:04:05.000Z';

const aLease = (name: string, more = {}): object => ({
  namespace: 'jobs',
  name,
  phase: 'held',
  remainingMs: 5_000,
  holder: 'worker-1',
  action: null,
  comment: 'nightly',
  metadata: null,
  fencingToken: '7',
  waiters: 0,
  leaseId: `id-of-${name}`,
  grantedAt: AT,
  renewedAt: AT,
  expiresAt: AT,
  asOf: AT,
  ttlMs: 30_000,
  renewable: true,
  datacenter: 'local',
  ...more,
});

/** Every command that prints a list, with arguments. */
const LISTS: readonly (readonly [string, ...string[]])[] = [
  ['find', 'a'],
  ['keys', 'ls'],
  ['keys', 'history', 'a'],
  ['keys', 'waiters', 'a'],
  ['leases', 'ls'],
  ['leases', 'tree'],
  ['leases', 'waiters', 'a'],
  ['leases', 'waits'],
  ['leases', 'why'],
  ['leases', 'failing-callbacks'],
  ['leases', 'history', 'a'],
  ['env', 'ls'],
  ['env', 'history', 'a'],
  ['env', 'freeze', 'ls'],
  ['reservations', 'ls'],
  ['datacenters', 'ls'],
  ['backends', 'ls'],
  ['drones', 'ls'],
  ['gateway', 'ls'],
  ['tokens', 'ls'],
  ['events', 'ls'],
  ['refusals', 'ls'],
  ['audit', 'ls'],
];
/** A list of contexts has the local one, and what is said of one environment is no list. */
const NEVER_EMPTY = ['context ls', 'env why'];

/** What a controller answers to each of them that has nothing to list. */
const EMPTY = {
  items: [],
  nextCursor: null,
  asOf: AT,
  isComplete: true,
  unreachable: [],
  failed: [],
  opposite: [],
  fromAt: AT,
  oppositeFromAt: AT,
  store: { kind: 'postgres', isReachable: true, since: null },
  givenUp: [],
  url: null,
};

/** The names of a command, without its arguments. */
const pathOf = (words: readonly string[]): string => words.filter((word) => word !== 'a').join(' ');

function listsOfProgram(): string[] {
  const below = (command: Command, path: readonly string[]): string[] => [
    ...(command.options.some(({ long }) => long === '--output') ? [path.join(' ')] : []),
    ...command.commands.flatMap((one) => below(one, [...path, one.name()])),
  ];
  return below(createProgram(createCli(contextOf({}).context, [], false)), []);
}

/** A controller whose lists are these, one after the other, the last one from then on. */
async function controllerOf(...lists: object[][]) {
  return controllerThatAnswers(() => {
    const items = (lists.length > 1 ? lists.shift() : lists[0]) ?? [];
    return { items, nextCursor: null, asOf: AT, isComplete: true };
  });
}

/** What was asked for besides the freezes, which are shown beside environments. */
function listsOf(asked: readonly string[]): string[] {
  return asked.filter((path) => !path.includes('environments.freezes'));
}

describe('a list', () => {
  test('-o name prints names alone, and nothing for an empty list', async () => {
    const full = await controllerOf([aLease('a'), aLease('b')]);
    const empty = await controllerOf([]);

    const named = await runHere(['leases', 'ls', '-o', 'name'], full.env);
    const none = await runHere(['leases', 'ls', '--output=name'], empty.env);

    expect(named).toEqual({ exitCode: 0, stdout: 'jobs/a\njobs/b\n', stderr: '' });
    expect(none).toEqual({ exitCode: 0, stdout: '', stderr: '' });
    expect(full.asked[0]).not.toMatch(/output|watch/u);
  });

  test.each(LISTS.map((words) => [words.join(' '), words] as const))(
    '%s -o name prints nothing without rows, and -o json an empty list',
    async (_title, words) => {
      const { env } = await controllerThatAnswers((path) => (path.includes('.get') ? null : EMPTY));

      const names = await runHere([...words, '-o', 'name'], env);
      const json = await runHere([...words, '-o', 'json'], env);
      const table = await runHere(words, env);

      expect(names).toEqual({ exitCode: 0, stdout: '', stderr: '' });
      expect(JSON.parse(json.stdout)).toMatchObject({ items: [] });
      expect(table.stdout).toMatch(/\S/u);
    },
  );

  test('every command that takes -o is in that table, or always has rows', () => {
    const named = [...LISTS.map(pathOf), ...NEVER_EMPTY];

    expect(listsOfProgram().sort()).toEqual([...new Set(named)].sort());
  });

  test('keys ls -o name prints names of the namespace that was asked for, and none of another', async () => {
    const { env } = await controllerOf([aLease('a')]);

    const named = await runHere(['keys', 'ls', '-o', 'name', '-n', 'jobs'], env);
    const inParent = await runHere(['keys', 'ls', '-o', 'name'], env);

    expect(named).toEqual({ exitCode: 0, stdout: 'a\n', stderr: '' });
    expect(inParent).toMatchObject({ exitCode: 2, stdout: '' });
    expect(inParent.stderr).toMatch(/a is in the namespace jobs[^]*-o json/u);
  });

  test('-o name says on the standard error that names are missing: there are more, or a datacenter does not answer', async () => {
    const { env } = await controllerThatAnswers(() => ({
      ...EMPTY,
      items: [aLease('a')],
      nextCursor: 'c-1',
      unreachable: [{ datacenter: 'eu', since: null, code: 'peer.unreachable' }],
    }));

    expect(await runHere(['leases', 'ls', '-o', 'name'], env)).toEqual({
      exitCode: 0,
      stdout: 'jobs/a\n',
      stderr:
        'There is more: add --cursor c-1\n\neu is missing: it does not answer (peer.unreachable)\n',
    });
  });

  test('-o wide has more columns than -o table, which is the default', async () => {
    const { env } = await controllerOf([aLease('a')]);

    const plain = await runHere(['leases', 'ls'], env);
    const table = await runHere(['leases', 'ls', '-o', 'table'], env);
    const wide = await runHere(['leases', 'ls', '-o', 'wide'], env);

    expect(table.stdout).toBe(plain.stdout);
    expect(table.stdout).not.toContain('id-of-a');
    expect(wide.stdout).toMatch(/LEASE ID\n.*id-of-a\n/u);
  });

  test.each([[['-o', 'json']], [['-ojson']], [['--output', 'json']], [['--json']]])(
    '%j prints JSON, errors too',
    async (words) => {
      const { env } = await controllerOf([aLease('a')]);

      const list = await runHere(['leases', 'ls', ...words], env);
      const wrong = await runHere(['leases', 'ls', ...words, '--limit', 'many'], env);

      expect(JSON.parse(list.stdout)).toMatchObject({ items: [{ name: 'a' }] });
      expect(JSON.parse(wrong.stderr)).toMatchObject({ error: { code: 'cli.usage' } });
    },
  );

  test.each([[['-wojson']], [['-wo', 'json']], [['-w', '-ojson']]])(
    '%j prints JSON when it watches, errors too',
    async (words) => {
      const { exitCode, stderr } = await runHere(['leases', 'ls', ...words, '--limit', 'many']);

      expect(exitCode).toBe(2);
      expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'cli.usage' } });
    },
  );

  test.each(['table', 'wide', 'name'])('--json with -o %s is refused', async (format) => {
    const { env } = await controllerOf([aLease('a')]);

    const { exitCode, stdout, stderr } = await runHere(
      ['leases', 'ls', '--json', '-o', format],
      env,
    );

    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
    expect(stderr).toContain('exclude each other');
  });

  test('another format is refused with those that exist', async () => {
    const { exitCode, stderr } = await runHere(['keys', 'ls', '-o', 'yaml']);

    expect(exitCode).toBe(2);
    expect(stderr).toContain('table, wide, json, name');
  });

  test.each([['keys'], ['leases'], ['env'], ['backends'], ['reservations'], ['events']])(
    '%s ls takes -n for --namespace',
    async (group) => {
      const { asked, env } = await controllerOf([]);

      await runHere([group, 'ls', '-n', 'games.eu'], env);

      expect(listsOf(asked)[0]).toContain('"namespace":"games.eu"');
    },
  );

  test('keys, leases and environments leave out what Leasehold holds for itself, unless asked for it', async () => {
    const { asked, env } = await controllerOf([]);
    for (const group of ['keys', 'leases', 'env']) {
      await runHere([group, 'ls'], env);
      await runHere([group, 'ls', '--internal'], env);
      await runHere([group, 'ls', '-n', 'leasehold'], env);
    }
    await runHere(['leases', 'tree'], env);
    await runHere(['leases', 'tree', '--internal'], env);

    const isLeftOut = listsOf(asked).map((path) => path.includes('"withoutOwn":true'));
    const each = [true, false, false];
    expect(isLeftOut).toEqual([...each, ...each, ...each, true, false]);
  });

  test('-w ends at once when it is told to, also while a controller hangs', async () => {
    const stopping = new AbortController();
    let calls = 0;
    const { env } = await controllerThatAnswers(() => {
      calls += 1;
      if (calls === 1) return { ...EMPTY, items: [aLease('a')] };
      stopping.abort();
      return NO_ANSWER;
    });
    const { context, printed } = contextOf(env);

    const watching = runCli(['leases', 'ls', '-w', '-o', 'name'], {
      ...context,
      signalWhileRead: () => stopping.signal,
    });

    expect(await watching).toBe(0);
    expect(printed).toEqual({ stdout: 'jobs/a\n', stderr: '' });
  });

  test('--no-children without a namespace lists the root alone', async () => {
    const { asked, env } = await controllerOf([]);

    await runHere(['leases', 'ls', '--no-children'], env);
    await runHere(['leases', 'ls', '--no-children', '-n', 'jobs'], env);

    expect(asked[0]).toMatch(/"namespace":"".*"includeChildren":false/u);
    expect(asked[1]).toMatch(/"namespace":"jobs".*"includeChildren":false/u);
  });

  test('-w prints the list again when it has changed, and not because time passes', async () => {
    const { asked, env } = await controllerOf(
      [aLease('a')],
      [aLease('a', { remainingMs: 3_000 })],
      [aLease('a'), aLease('b')],
    );
    const stopping = new AbortController();
    const { context, printed } = contextOf(env);
    const watching = runCli(['leases', 'ls', '-w', '-o', 'name'], {
      ...context,
      stdout: (text) => {
        context.stdout(text);
        if (printed.stdout.includes('jobs/b')) stopping.abort();
      },
      signalWhileRead: () => stopping.signal,
    });

    expect(await watching).toBe(0);
    expect(printed.stdout).toBe('jobs/a\njobs/a\njobs/b\n');
    expect(asked).toHaveLength(3);
  });
});
