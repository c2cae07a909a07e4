import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './source-files.ts';

const core = path.join(ROOT, 'libs', 'keys-core', 'src');
/** The folders of keys-core that are not slices. */
const NO_SLICES = ['kernel', 'holder', 'postgres', 'testing'];

/** Text in backticks that looks like a path: it has a slash and no space. */
const PATH = /`(?<path>[\w.-]+\/[\w./()[\]-]*)\*?`/gu;
/** A row of the table of slices: its name, its contents, what it imports. */
const SLICE_ROW = /^\| `(?<slice>\w+)` +\|[^|]+\| +(?<imports>[^|]*)\|$/gmu;

function textOf(document: string): string {
  return readFileSync(path.join(ROOT, document), 'utf8');
}

/** What scripts make is there. */
const MADE = 'out/';

/** The paths in a document that exist neither from the root nor in keys-core. */
function missingPaths(text: string): string[] {
  return pathsIn(text).filter(
    (named) =>
      !named.startsWith(MADE) &&
      ![ROOT, core].some((folder) => existsSync(path.join(folder, named))),
  );
}

function pathsIn(text: string): string[] {
  return [...text.matchAll(PATH)].map(({ groups }) => groups?.['path'] ?? '');
}

/** The slices of the table, each with what it imports. */
function slicesIn(text: string): Record<string, string[]> {
  return Object.fromEntries(
    [...text.matchAll(SLICE_ROW)].map(({ groups }) => [
      groups?.['slice'] ?? '',
      [...(groups?.['imports'] ?? '').matchAll(/\w+/gu)].map(([name]) => name).sort(),
    ]),
  );
}

/** The slices that the files of a slice import. */
function importsOf(slice: string): string[] {
  const files = readdirSync(path.join(core, slice), { recursive: true, encoding: 'utf8' });
  const imported = files
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .map((file) => readFileSync(path.join(core, slice, file), 'utf8'))
    .flatMap((text) => [...text.matchAll(/ from '(?:\.\.\/)+(\w+)\/index\.ts'/gu)])
    .map(([, name = '']) => name);
  return [...new Set(imported)].filter((name) => !NO_SLICES.includes(name)).sort();
}

test.each([
  ['ARCHITECTURE.md', 30],
  ['CONTRIBUTING.md', 25],
])('every path that %s names exists', (document, countMin) => {
  const text = textOf(document);

  expect(pathsIn(text).length).toBeGreaterThan(countMin);
  expect(missingPaths(text)).toEqual([]);
});

test('a path that does not exist is found', () => {
  const text = textOf('ARCHITECTURE.md').replace('keys/decide-connect.ts', 'keys/decide.ts');

  expect(missingPaths(text)).toEqual(['keys/decide.ts']);
});

test('ARCHITECTURE.md lists every slice with what it imports', () => {
  const folders = readdirSync(core, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !NO_SLICES.includes(entry.name))
    .map(({ name }) => name);

  expect(folders.length).toBeGreaterThan(5);
  expect(folders.flatMap(importsOf).length).toBeGreaterThan(10);
  expect(slicesIn(textOf('ARCHITECTURE.md'))).toEqual(
    Object.fromEntries(folders.map((slice) => [slice, importsOf(slice)])),
  );
});
