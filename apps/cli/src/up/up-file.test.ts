import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CliFailure } from '../failures.ts';
import { readUpFile, UP_FILE_NAME, upFileJsonSchema } from './up-request.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'lh-up-file-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));

function written(content: unknown): string {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  writeFileSync(path.join(folder, UP_FILE_NAME), text);
  return folder;
}

function problemsOf(content: unknown): string[] {
  try {
    readUpFile(undefined, written(content));
    return [];
  } catch (error) {
    if (!(error instanceof CliFailure)) throw error;
    expect(error).toMatchObject({ code: 'config.invalid', exitCode: 2 });
    return error.details['problems'] as string[];
  }
}

const FULL = {
  $schema: './node_modules/leasehold/leasehold.config.schema.json',
  programs: {
    echo: {
      command: "MODE=dev node 'my echo.mjs'",
      env: { A: '1' },
      portEnv: 'HTTP_PORT',
      watch: ['src'],
    },
    exact: { command: '/opt/my program', args: ['$HOME'], readiness: { type: 'http' } },
    image: { image: 'echo:1', containerPort: 80 },
  },
  preset: 'fast',
  port: 0,
  console: false,
  consolePort: 4_601,
  watch: true,
};

describe('leasehold.config.json', () => {
  test('has the programs of a drone, whose command may be a whole command line', () => {
    const { programs, ...rest } = readUpFile(undefined, written(FULL)) ?? {};

    expect(programs).toMatchObject({
      echo: { command: 'node', args: ['my echo.mjs'], env: { MODE: 'dev', A: '1' } },
      exact: { command: '/opt/my program', args: ['$HOME'], readiness: { path: '/' } },
      image: { kind: 'container', image: 'echo:1' },
    });
    expect(rest).toMatchObject({ preset: 'fast', port: 0, console: false, watch: true, folder });
  });

  test('has what the guide shows', () => {
    const guide = new URL('../../../../docs/guides/own-program.md', import.meta.url);
    const [, shown = ''] = /```json\n([^`]*)```/u.exec(readFileSync(guide, 'utf8')) ?? [];

    expect(Object.keys(readUpFile(undefined, written(shown))?.programs ?? {})).toEqual([
      'echo',
      'api',
    ]);
  });

  test('need not be there, unless it is named', () => {
    expect(readUpFile(undefined, folder)).toBeUndefined();
    expect(() => readUpFile('other.json', folder)).toThrow(
      /--config: .*other\.json does not exist/u,
    );
  });

  test.each<[string, unknown, RegExp]>([
    [
      'a field that is unknown',
      { prots: 1 },
      /^\(whole file\): has no field "prots"; allowed are .*port,/u,
    ],
    [
      'one of a program',
      { programs: { e: { command: 'a', cmd: 1 } } },
      /^programs\.e: has no field "cmd"; allowed are command,/u,
    ],
    [
      'a program without a command',
      { programs: { echo: {} } },
      /^programs\.echo\.command: must be a text/u,
    ],
    [
      'a program that is a text',
      { programs: { echo: 'node x' } },
      /^programs\.echo: .*expected object/u,
    ],
    [
      'an empty command',
      { programs: { echo: { command: ' ' } } },
      /^programs\.echo\.command: is empty/u,
    ],
    [
      'an open quote',
      { programs: { echo: { command: "node 'x" } } },
      /^programs\.echo\.command: .*not closed/u,
    ],
    [
      'a command for a shell',
      { programs: { echo: { command: 'a | b' } } },
      /^programs\.echo\.command: needs a shell for \|/u,
    ],
    [
      'the name of a program',
      { programs: { 'A b': { command: 'x' } } },
      /the name of a program must be 1 to 64/u,
    ],
    [
      'the name of a variable',
      { programs: { e: { command: 'x', env: { 'A-B': '' } } } },
      /the name of a variable must be/u,
    ],
    ['a port', { port: 65_536 }, /^port: .*<=65535/u],
    ['a text for a port', { consolePort: '1' }, /^consolePort: .*expected number/u],
    ['a preset', { preset: 'slow' }, /^preset: .*"standard"\|"fast"/u],
    ['what to watch', { watch: 3 }, /^watch: .*expected boolean/u],
    [
      'two kinds of programs',
      { programs: {}, droneConfig: 'drone.json' },
      /^droneConfig: .*leave out/u,
    ],
    ['a list', [], /expected object/u],
    ['no JSON', '{ "programs": ', /is not JSON/u],
  ])(
    '%s that is wrong is refused, with its place and what is allowed',
    (_what, content, problem) => {
      expect(problemsOf(content)).toEqual([expect.stringMatching(problem) as string]);
    },
  );

  test('all problems are reported at once', () => {
    expect(problemsOf({ port: -1, programs: { a: {}, b: { command: '"' } } })).toHaveLength(3);
  });
});

describe('the schema for editors', () => {
  test('is the one that is published: run `npm run docs:config`', () => {
    const file = new URL('../../leasehold.config.schema.json', import.meta.url);

    expect(JSON.parse(readFileSync(fileURLToPath(file), 'utf8'))).toEqual(upFileJsonSchema());
  });

  test('accepts what `up` accepts, and refuses a field that it does not know', () => {
    const accepts = new Ajv().compile(upFileJsonSchema());

    expect(accepts(FULL)).toBe(true);
    for (const wrong of [{ prots: 1 }, { programs: { 'A b': { command: 'x' } } }, { port: -1 }]) {
      expect(accepts(wrong)).toBe(false);
    }
  });
});
