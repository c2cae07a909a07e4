import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { missingSentences, noteCount, promiseProblems } from './promises.ts';
import { ROOT } from './source-files.ts';
import { testTitles } from './test-titles.ts';

const semantics = readFileSync(path.join(ROOT, 'docs', 'lease-semantics.md'), 'utf8');
const readme = readFileSync(path.join(ROOT, 'README.md'), 'utf8');
const titles = testTitles();

test('every promise of docs/lease-semantics.md names tests that exist', () => {
  expect(promiseProblems(semantics, titles)).toEqual([]);
  expect(noteCount(semantics)).toBeGreaterThan(100);
});

test('every sentence of the promises of the README is in docs/lease-semantics.md, with its tests', () => {
  expect(missingSentences(readme, semantics)).toEqual([]);
});

test.each([
  ['a sentence without a test', '[^late-renewal]', '[^late-renewal] It is blue.', 'has no test'],
  [
    'a sentence where nothing was promised',
    '<!-- no promise -->\n\nIn this',
    'In this',
    'has no test: In this text',
  ],
  ['an item without a test', /^- \*\*Expired\*\*.*\n(?: .*\n)*/mu, '- **Blue**\n', 'has no test'],
  ['a row without a test', '[^c-tag] ', '', 'has no test: | held, another tag'],
  ['a test that does not exist', '"C16 ', '"C17 ', 'has no test "C17 '],
  ['a file that does not exist', '`report.pg.test.ts`', '`gone.pg.test.ts`', 'no file gone.pg'],
  ['a note without tests', /^\[\^slews\]:.*\n(?: .*\n)*/mu, '', '[^slews] has no tests'],
  ['tests without a promise', '[^slews]\n', '\n', 'nothing has [^slews]'],
  ['a note that no test of the gate holds', ' (npm run test:all)', '', 'has no test in the gate'],
  [
    'a note that a test of the gate holds, and that says otherwise',
    '"F7b a grant that was renewed after the step expires in its time"',
    '"F7b a grant that was renewed after the step expires in its time" (npm run test:all)',
    'has a test in the gate',
  ],
  ['tests in another form', '"F7b an acquire', 'F7b an acquire', 'is not of the form'],
])('%s is found', (_case, part, replacement, problem) => {
  const changed = semantics.replace(part, replacement);

  expect(promiseProblems(changed, titles).join('\n')).toContain(problem);
});

test.each([
  ['a sentence that is new', readme.replace('**One grant.** ', '**One grant.** It is blue. ')],
  [
    'a sentence that is gone',
    readme.replace('Leases and environments are separate in each datacenter.', ''),
  ],
])('%s in the README is found', (_case, changed) => {
  expect(missingSentences(changed, semantics)).toHaveLength(1);
});
