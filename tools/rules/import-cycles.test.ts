import path from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { codeFiles, ROOT } from './source-files.ts';

/** Every file of the project is read. */
const TIMEOUT_MS = 60_000;
const OPTIONS: ts.CompilerOptions = {
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  customConditions: ['@leasehold/source'],
  allowImportingTsExtensions: true,
  paths: { '~/*': [path.join(ROOT, 'apps/console/src/*')] },
};

type Graph = ReadonlyMap<string, readonly string[]>;

/** What each of our files imports of our files; imports of types too. */
function importGraph(): Graph {
  const files = codeFiles().map((file) => path.join(ROOT, file));
  const cache = ts.createModuleResolutionCache(ROOT, (file) => file, OPTIONS);
  const importsOf = (file: string): string[] =>
    ts.preProcessFile(ts.sys.readFile(file) ?? '', true, true).importedFiles.flatMap((imported) => {
      const { resolvedModule } = ts.resolveModuleName(
        imported.fileName,
        file,
        OPTIONS,
        ts.sys,
        cache,
      );
      return resolvedModule === undefined ? [] : [resolvedModule.resolvedFileName];
    });
  return new Map(files.map((file) => [file, importsOf(file)]));
}

/** Removes files that import no other remaining file, until no such file exists. */
function withoutLeaves(graph: Graph): Graph {
  const left = new Map(graph);
  for (;;) {
    const leaves = [...left].filter(([, imports]) => !imports.some((file) => left.has(file)));
    if (leaves.length === 0) return left;
    for (const [file] of leaves) left.delete(file);
  }
}

function reversed(graph: Graph): Graph {
  const importers = new Map<string, string[]>([...graph.keys()].map((file) => [file, []]));
  for (const [file, imports] of graph) {
    for (const imported of imports) importers.get(imported)?.push(file);
  }
  return importers;
}

/** The files that are on a cycle, or between two. */
function onCycles(graph: Graph): string[] {
  return [...withoutLeaves(reversed(withoutLeaves(graph))).keys()].sort();
}

test('a cycle is found, without the files that lead to it or away from it', () => {
  const graph = new Map([
    ['a', ['b']],
    ['b', ['c', 'd']],
    ['c', ['b']],
    ['d', []],
  ]);

  expect(onCycles(graph)).toEqual(['b', 'c']);
});

test('no file imports itself through others', { timeout: TIMEOUT_MS }, () => {
  const graph = importGraph();
  const importCount = [...graph.values()].flat().length;

  expect(importCount).toBeGreaterThan(graph.size);
  expect(onCycles(graph).map((file) => path.relative(ROOT, file))).toEqual([]);
});
