import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { codeFiles, ROOT } from './source-files.ts';

/** The most lines that a file may have, tests included. */
const LINES_MAX = 400;
/** The most lines that a file of the product may have without a reason. */
const PRODUCT_LINES_MAX = 300;
const EXCEPTIONS_MAX = 3;

/** Each is one state machine: its states and what moves it between them are read together. */
const EXCEPTIONS = new Map([
  ['apps/drone/src/agent/backend/backend-run.ts', 'one backend, from its spawn to its last report'],
  ['libs/client/src/lease/held-lease.ts', 'one lease, from its grant to its loss or release'],
]);

/** What ships: no test, nothing that tests share, and no tool. */
const isProduct = (file: string): boolean =>
  /^(?:libs|apps)\//u.test(file) &&
  !/\.test\.tsx?$|-for-test\.ts$|\/testing\/|^libs\/testing\//u.test(file);

function longerThan(linesMax: number): string[] {
  const isLonger = (file: string): boolean =>
    readFileSync(path.join(ROOT, file), 'utf8').split('\n').length - 1 > linesMax;
  return codeFiles().filter(isLonger).sort();
}

test(`no file has more than ${String(LINES_MAX)} lines`, () => {
  expect(longerThan(LINES_MAX)).toEqual([]);
});

test(`only a few files of the product, each with a reason, have more than ${String(PRODUCT_LINES_MAX)} lines`, () => {
  expect(longerThan(PRODUCT_LINES_MAX).filter(isProduct)).toEqual([...EXCEPTIONS.keys()]);
  expect(EXCEPTIONS.size).toBeLessThanOrEqual(EXCEPTIONS_MAX);
});
