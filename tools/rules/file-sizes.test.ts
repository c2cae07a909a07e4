import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { codeFiles, ROOT } from './source-files.ts';

/** The most lines that a file may have, tests included: a concept that a reader opens once. */
const LINES_MAX = 600;

test(`no file has more than ${String(LINES_MAX)} lines`, () => {
  const isLonger = (file: string): boolean =>
    readFileSync(path.join(ROOT, file), 'utf8').split('\n').length - 1 > LINES_MAX;

  expect(codeFiles().filter(isLonger).sort()).toEqual([]);
});
