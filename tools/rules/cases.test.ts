import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { codeFiles, ROOT } from './source-files.ts';

const ID = /(?:[A-Z]-?\d{1,2}[a-c]?|H-[a-z]+(?:-[a-z]+)*)/gu;
/** The ids that a title begins with: `I9 F18 a waiter …`. A group of tests can have them for all of its tests. */
const TITLE =
  /\b(?:test|describe)\b[^'"`;]*['"`]((?:(?:[A-Z]-?\d{1,2}[a-c]?|H-[a-z]+(?:-[a-z]+)*)[ ,:]+)+)/gu;

const file = readFileSync(path.join(ROOT, 'docs', 'cases.json'), 'utf8');
const kinds = JSON.parse(file) as Readonly<Record<string, Readonly<Record<string, string>>>>;
const defined = Object.values(kinds).flatMap((cases) => Object.keys(cases));
const used = new Set(
  codeFiles(['.test.ts', '.e2e.ts']).flatMap((file) =>
    [...readFileSync(path.join(ROOT, file), 'utf8').matchAll(TITLE)].flatMap(
      ([, ids = '']) => ids.match(ID) ?? [],
    ),
  ),
);

test('what the titles of tests begin with is explained in docs/cases.json', () => {
  expect([...used].filter((id) => !defined.includes(id))).toEqual([]);
});

test('each case, invariant, fault and hazard of docs/cases.json has a test with its name', () => {
  expect(defined.length).toBeGreaterThan(100);
  expect(defined.filter((id) => !used.has(id))).toEqual([]);
});

test('no comment names a section of a document that readers do not have', () => {
  const found = codeFiles(['.ts', '.tsx', '.mjs']).filter((file) =>
    /\bdesign (?:section )?\d/u.test(readFileSync(path.join(ROOT, file), 'utf8')),
  );
  expect(found).toEqual([]);
});
