import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  markProblems,
  missingPromises,
  unmarkedPromises,
  unmarkedThreats,
  type PromiseTests,
} from './promises.ts';
import { ROOT } from './source-files.ts';
import { testTitles } from './test-titles.ts';

const readText = (...place: string[]): string => readFileSync(path.join(ROOT, ...place), 'utf8');
const semantics = readText('docs', 'lease-semantics.md');
const security = readText('docs', 'security.md');
const readme = readText('README.md');
const tests = JSON.parse(readText('docs', 'promise-tests.json')) as PromiseTests;
const titles = testTitles();

test('every promise of docs/lease-semantics.md has tests that exist', () => {
  expect(
    unmarkedPromises(semantics),
    'end these with a mark such as <!--c-name-->, and name its tests in docs/promise-tests.json',
  ).toEqual([]);
  expect(markProblems([semantics, security], tests, titles)).toEqual([]);
  expect(Object.keys(tests).length).toBeGreaterThan(100);
});

test('every threat of docs/security.md has a test', () => {
  expect(unmarkedThreats(security)).toEqual([]);
  expect(unmarkedThreats(security.replace(/<!--threat-guessing-passwords-->/u, ''))).toEqual([
    expect.stringContaining('Guessing passwords'),
  ]);
});

test('the README lists every promise, by its title, and no others', () => {
  expect(missingPromises(readme, semantics)).toEqual([]);
});

test.each([
  [
    'a sentence without a test',
    '<!--late-renewal-->',
    '<!--late-renewal--> It is blue.',
    'no test',
  ],
  [
    'a sentence where nothing was promised',
    '<!-- no promise -->\n\n- **A kernel',
    '- **A kernel',
    'has no test: - **A kernel',
  ],
  ['an item without a test', /^- \*\*Expired\*\*.*\n(?: .*\n)*/mu, '- **Blue**\n', 'has no test'],
  ['a row without a test', '<!--c-tag--> ', '', 'has no test: | held, another tag'],
])('%s is found', (_case, part, replacement, problem) => {
  expect(unmarkedPromises(semantics.replace(part, replacement)).join('\n')).toContain(problem);
});

test.each([
  ['tests without a promise', '', 'nothing has the mark slews'],
  ['a mark without tests', '<!--blue-->', 'blue has no tests'],
])('%s is found', (_case, mark, problem) => {
  const changed = semantics.replace('<!--slews-->', mark);

  expect(markProblems([changed, security], tests, titles).join('\n')).toContain(problem);
});

test.each([
  ['a test that does not exist', { 'clock-watch.test.ts': ['It is blue.'] }, 'has no test "It is'],
  ['a file that does not exist', { 'gone.pg.test.ts': ['It is blue.'] }, 'no file gone.pg.test.ts'],
  ['a promise without a single test', {}, 'slews: names no test'],
  ['a file without a single test', { 'clock-watch.test.ts': [] }, 'clock-watch.test.ts: names no'],
])('%s is found', (_case, slews, problem) => {
  const changed = { ...tests, slews };

  expect(markProblems([semantics, security], changed, titles).join('\n')).toContain(problem);
});

test.each([
  ['a promise that is new', readme.replace('| **One grant** ', '| **It is blue** ')],
  ['a promise that is gone', readme.replace(/^\| \*\*One grant\*\* .*\n/mu, '')],
])('%s in the README is found', (_case, changed) => {
  expect(missingPromises(changed, semantics).length).toBeGreaterThan(0);
});
