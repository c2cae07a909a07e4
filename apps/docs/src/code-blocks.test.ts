/**
 * The blocks of code in every page. Those of the README, the guides and the recipes are also run, by
 * `tools/docs-blocks`; those of the other pages name machines and files that are not here.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { load } from 'js-yaml';
import { describe, expect, test } from 'vitest';
import { droneFileSchema } from '@leasehold/api/drone-file';
import { blocksOf, placeOf, type Block } from '../../../tools/docs-blocks/blocks.ts';
import { isWritten, ROOT, sections } from './pages.ts';
import { commandProblem } from './reference/generate.ts';

const documents = sections()
  .flatMap(({ pages }) => pages)
  .filter(isWritten)
  .map(({ source }) => ({ source, text: readFileSync(path.join(ROOT, source), 'utf8') }));
const blocks = documents.flatMap(({ source, text }) => blocksOf(source, text));

const inLanguage = (...languages: string[]): Block[] =>
  blocks.filter(({ language }) => languages.includes(language));

/** The commands of Leasehold in a block of a shell, each with its words. */
function commandsIn({ lines, language }: Block): string[][] {
  const text = lines
    .filter((line) => language !== 'console' || line.startsWith('$ '))
    // There it is the name of a user, or of a namespace.
    .filter((line) => !/etcdctl|kubectl/u.test(line))
    .join('\n')
    .replaceAll('\\\n', ' ');
  return [...text.matchAll(/(?:^|[\s;|&(])(?:npx )?leasehold (?<words>[a-z][^\n;|&)#]*)/gu)].map(
    ({ groups }) => (groups?.['words'] ?? '').trim().split(/\s+/u),
  );
}

/** The commands that a text names between backticks. */
function commandsNamedIn(text: string): string[][] {
  return [...text.matchAll(/`(?:npx )?leasehold (?<words>[a-z][^`|]*)`/gu)].map(({ groups }) =>
    (groups?.['words'] ?? '').trim().split(/\s+/u),
  );
}

function parseProblem(parse: () => unknown): string | undefined {
  try {
    parse();
    return undefined;
  } catch (error) {
    return String(error);
  }
}

describe('blocks of code', () => {
  test('every command in a block or a text exists, with its options', () => {
    const commands = [
      ...inLanguage('sh', 'bash', 'console').flatMap((block) =>
        commandsIn(block).map((words) => ({ at: placeOf(block), words })),
      ),
      ...documents.flatMap(({ source, text }) =>
        commandsNamedIn(text).map((words) => ({ at: source, words })),
      ),
    ];
    const problems = commands.flatMap(({ at, words }) => {
      const problem = commandProblem(words);
      return problem === undefined ? [] : [`${at}: ${problem}`];
    });

    expect(commands.length).toBeGreaterThan(100);
    expect(problems).toEqual([]);
  });

  test('a command or an option that does not exist is found', () => {
    expect(commandProblem(['keys', 'list'])).toContain('keys list');
    expect(commandProblem(['keys', 'revoke', 'a', '--because', 'b'])).toContain('--because');
    expect(commandProblem(['leases', 'run', 'a/b', '--', 'sh', '--any'])).toBeUndefined();
  });

  test('all JSON and YAML can be read', () => {
    const json = inLanguage('json').filter(({ lines }) => !lines.join('').includes('…'));
    const yaml = inLanguage('yaml', 'yml');
    const problems = [
      ...json.map((block) => ({
        at: placeOf(block),
        problem: parseProblem((): unknown => JSON.parse(block.lines.join('\n'))),
      })),
      ...yaml.map((block) => ({
        at: placeOf(block),
        problem: parseProblem(() => load(block.lines.join('\n'))),
      })),
    ].filter(({ problem }) => problem !== undefined);

    expect(json.length + yaml.length).toBeGreaterThan(3);
    expect(problems).toEqual([]);
  });

  test('every file of a drone is one that a drone accepts', () => {
    const files = inLanguage('json')
      .map(({ lines }) => lines.join('\n'))
      .filter((text) => text.includes('"droneId": "machine'));

    expect(files.length).toBeGreaterThan(1);
    for (const text of files) {
      expect(droneFileSchema.safeParse(JSON.parse(text)).error?.message).toBeUndefined();
    }
  });
});
