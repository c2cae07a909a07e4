import { readFileSync } from 'node:fs';
import path from 'node:path';
import { COMMAND_ERROR_CODES, ERROR_CODES } from '@leasehold/keys-core';
import { beforeAll, expect, test } from 'vitest';
import { codeFiles, ROOT } from './source-files.ts';

/** Where a code stands when an error is made: as an argument, or as a field of its parts. */
const MADE = [
  /\b(?:LeaseError|LeaseholdCallError|codedError|refusal|tokenError)\(\s*'([^']+)'/gu,
  /\bcode: '([a-z]+\.[a-z_]+)'/gu,
  /\bsuper\(\s*'([a-z]+\.[a-z_]+)'/gu,
];

/** Where the codes are listed. */
const REGISTRY_FILES = new Set([
  'libs/keys-core/src/kernel/error-codes.ts',
  'libs/keys-core/src/kernel/errors.ts',
]);
/** A code that only a comment names is not used. */
const COMMENT = /\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gmu;

const registry = new Set([...Object.keys(ERROR_CODES), ...Object.keys(COMMAND_ERROR_CODES)]);
const sources = new Map<string, string>();

beforeAll(() => {
  for (const file of codeFiles()) {
    if (!/^(?:libs|apps)\/.*\/src\//u.test(file) || /\.test\.tsx?$/u.test(file)) continue;
    sources.set(file, readFileSync(path.join(ROOT, file), 'utf8'));
  }
});

test('every code that an error is made with is in the registry, and so in the reference', () => {
  const made = [...sources].flatMap(([file, text]) =>
    MADE.flatMap((pattern) => [...text.matchAll(pattern)].map(([, code = '']) => ({ file, code }))),
  );

  expect(made.length).toBeGreaterThan(100);
  expect(made.filter(({ code }) => !registry.has(code))).toEqual([]);
});

test('every code of the registry is used somewhere', () => {
  expect([...REGISTRY_FILES].filter((file) => !sources.has(file))).toEqual([]);
  const text = [...sources]
    .filter(([file]) => !REGISTRY_FILES.has(file))
    .map(([, source]) => source.replaceAll(COMMENT, ''))
    .join('\n');

  const isBuilt = (code: string): boolean => text.includes(`.${code.split('.')[1] ?? ''}\``);
  expect(
    [...registry].filter((code) => !text.includes(code) && !isBuilt(code)),
    'throw these codes somewhere, or remove them from the registry',
  ).toEqual([]);
});
