import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import type * as Workflows from '@actions/workflow-parser';
import type * as Actions from '@actions/workflow-parser/actions/action-parser';
import { build } from 'esbuild';
import { describe, expect, test } from 'vitest';
import { blocksOf } from '../../tools/docs-blocks/blocks.ts';
import { ACTION } from './testing/job.ts';
import { commandWords } from './words.mjs';

/** GitHub's parser. It imports JSON as bundlers do, and not as Node does. */
async function loadParser(): Promise<typeof Workflows & typeof Actions> {
  const contents = ['', '/actions/action-parser']
    .map((entry) => `export * from '@actions/workflow-parser${entry}';`)
    .join('\n');
  const folder = mkdtempSync(path.join(os.tmpdir(), 'lh-parser-'));
  const outfile = path.join(folder, 'parser.cjs');
  await build({
    stdin: { contents, resolveDir: ACTION },
    bundle: true,
    platform: 'node',
    outfile,
  });
  try {
    return createRequire(outfile)(outfile) as typeof Workflows & typeof Actions;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const { NoOperationTraceWriter, parseAction, parseWorkflow } = await loadParser();
const trace = new NoOperationTraceWriter();
const textOf = (name: string): string => readFileSync(path.join(ACTION, name), 'utf8');
const workflows = blocksOf('README.md', textOf('README.md')).filter(
  ({ language }) => language === 'yaml',
);

/** What GitHub's own parser says is wrong with the description of an action. */
const problemsOf = (content: string): string[] =>
  parseAction({ name: 'action.yml', content }, trace)
    .context.errors.getErrors()
    .map(({ message }) => message);

describe('the description of the action', () => {
  test("is one that GitHub's parser accepts", () => {
    expect(problemsOf(textOf('action.yml'))).toEqual([]);
    expect(problemsOf(textOf('action.yml').replace('post-if:', 'post-when:'))).not.toEqual([]);
  });

  test("each workflow of its README is one that GitHub's parser accepts", () => {
    expect(workflows.length).toBeGreaterThan(1);
    for (const { lines } of workflows) {
      const parsed = parseWorkflow({ name: 'ci.yml', content: lines.join('\n') }, trace);
      expect(parsed.context.errors.getErrors().map(({ message }) => message)).toEqual([]);
    }
  });

  test('its README has a row for each input and output', () => {
    const [inputs = '', outputs = ''] = textOf('action.yml').split('\noutputs:');
    const names = [inputs, outputs.split('\nruns:')[0] ?? ''].flatMap((part) =>
      [...part.matchAll(/^ {2}([a-z-]+):$/gmu)].map(([, name]) => String(name)),
    );

    expect(names).toContain('fencing-token');
    expect(names.filter((name) => !textOf('README.md').includes(`| \`${name}\` `))).toEqual([]);
  });
});

describe('the words of the command line', () => {
  const access = { url: 'https://leasehold.example', token: 'lh_1' };
  const wordsOf = (inputs: Record<string, string>): string[] =>
    commandWords((name) => ({ ...access, ...inputs })[name] ?? '');

  test('name a lease with what was given, and nothing else', () => {
    expect(wordsOf({ scope: 'deploys/shop' })).toEqual(['leases', 'run', 'deploys/shop']);
    expect(wordsOf({ scope: 'deploys/shop', ttl: '1m', wait: '1h' })).toEqual(
      'leases run deploys/shop --ttl 1m --wait 1h'.split(' '),
    );
  });

  test('name an environment with the action, the version, and whom the request supersedes', () => {
    const environment = { environment: 'shop/prod', action: 'deploy', version: '1.2.3' };

    expect(wordsOf({ ...environment, wait: '2h', supersede: 'waiting' }).join(' ')).toBe(
      'env run shop/prod --action deploy --version 1.2.3 --wait 2h --supersede',
    );
    expect(wordsOf({ environment: 'shop/prod' })).toEqual([
      ...['env', 'run', 'shop/prod', '--action', 'deploy'],
    ]);
    expect(wordsOf({ ...environment, supersede: 'running' }).join(' ')).toBe(
      'env run shop/prod --action deploy --version 1.2.3 --supersede --supersede-running',
    );
  });

  test.each([
    [{}, 'Either the input scope or the input environment must be given.'],
    [{ scope: 'a/b', environment: 'c' }, 'Either the input scope or the input environment'],
    [{ scope: 'a/b', token: '' }, 'The input token must be given.'],
    [{ scope: 'a/b', version: '1' }, 'The input version needs the input environment.'],
    [{ environment: 'c', supersede: 'true' }, 'must be waiting or running, not "true"'],
  ])('%j is refused: %s', (inputs, message) => {
    expect(() => wordsOf(inputs)).toThrow(message);
  });
});
