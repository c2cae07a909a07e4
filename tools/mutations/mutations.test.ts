import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { MUTATIONS } from './list.mjs';
import { roundsFor } from './rounds.mjs';

const ROOT = path.join(import.meta.dirname, '..', '..');

test('the list has at least twenty mutations, each with a name of its own', () => {
  expect(MUTATIONS.length).toBeGreaterThanOrEqual(20);
  expect(new Set(MUTATIONS.map(({ name }) => name)).size).toBe(MUTATIONS.length);
});

test.each(MUTATIONS)(
  'the place of the mutation $name exists once',
  async ({ file, find, replace }) => {
    const text = await readFile(path.join(ROOT, file), 'utf8');

    expect(text.split(find)).toHaveLength(2);
    expect(replace).not.toBe(find);
  },
);

test('the gate tries a mutation before the nightly tests do, without processes first, and nearest first', () => {
  const rounds = roundsFor('libs/a/src/b/sql/c.ts', [
    'libs/a/src/b/one.process.test.ts',
    'libs/a/src/b/two.pg.nightly.test.ts',
    'libs/a/src/d/three.pg.test.ts',
    'apps/e/src/four.process.nightly.test.ts',
    'libs/a/src/b/sql/five.test.ts',
    'apps/e/src/six.test.ts',
    'libs/f/src/c.pg.test.ts',
    'tools/mutations/mutations.test.ts',
  ]);

  expect(rounds).toEqual([
    { suite: 'gate', needsBundles: false, files: ['libs/f/src/c.pg.test.ts'] },
    { suite: 'gate', needsBundles: false, files: ['libs/a/src/b/sql/five.test.ts'] },
    { suite: 'gate', needsBundles: false, files: ['libs/a/src/d/three.pg.test.ts'] },
    { suite: 'gate', needsBundles: false, files: ['apps/e/src/six.test.ts'] },
    { suite: 'gate', needsBundles: true, files: ['libs/a/src/b/one.process.test.ts'] },
    { suite: 'all', needsBundles: false, files: ['libs/a/src/b/two.pg.nightly.test.ts'] },
    { suite: 'all', needsBundles: true, files: ['apps/e/src/four.process.nightly.test.ts'] },
  ]);
});
