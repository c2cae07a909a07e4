/**
 * `npm run measure`: how large and how scattered the repository is, as a table. "Shipped" is the TypeScript of
 * `libs` and `apps` without tests, fixtures and what is generated. A file that a package exports or Next.js
 * loads by its name has readers that no import shows, and does not count as one with a single importer.
 *
 *   npm run measure -- --list          also which files these are
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from './workspace.mjs';

const SOURCE = /\.(?:ts|tsx|mts|mjs|cjs|sh|py)$/u;
const TEST =
  /\.(?:test|e2e)\.tsx?$|\/(?:testing|fixtures?|generated)\/|\.d\.m?ts$|^libs\/testing\//u;
const NEXT_FILE =
  /\/src\/(?:app\/.*\/?(?:page|layout|not-found|error|route|loading)\.tsx?|proxy\.ts)$/u;
/** A path, or in the console one below its `src`. */
const IMPORT = /(?:from|import)\s*\(?\s*'((?:\.|~\/)[^']+)'/gu;
/** A statement of our own: a template that a pool, or a function that makes fragments, gets. */
const STATEMENT =
  /(?:\$queryRaw|\$executeRaw|\bsql(?:\.\w+)?)(?:<[^`]{0,400}?>)?`\s*(?:--[^\n]*\n\s*)*(?:with|select|insert|update|delete)\b/giu;

const files = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((file) => file !== '' && existsSync(path.join(root, file)));
const read = (file) => readFileSync(path.join(root, file), 'utf8');
const linesOf = (file) => read(file).split('\n').length - 1;
const wordsOf = (file) => read(file).split(/\s+/u).filter(Boolean).length;
const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);

const shipped = files.filter(
  (file) => /^(?:libs|apps)\/.*\/src\/.*\.tsx?$/u.test(file) && !TEST.test(file),
);
const others = files.filter((file) => SOURCE.test(file) && !shipped.includes(file));

/** The files that a package exports, or that something starts by its name. */
function entries() {
  const manifests = files.filter((file) => /^(?:libs|apps)\/[^/]+\/package\.json$/u.test(file));
  const names = manifests.flatMap((file) =>
    [...read(file).matchAll(/"(?:\.\/)?(src\/[^"]+\.tsx?)"/gu)].map(([, name]) =>
      path.join(path.dirname(file), name),
    ),
  );
  return new Set([
    ...names,
    ...shipped.filter((file) => /\/main\.ts$/u.test(file) || NEXT_FILE.test(file)),
  ]);
}

function importers() {
  const counts = new Map(shipped.map((file) => [file, new Set()]));
  for (const file of shipped) {
    for (const [, specifier] of read(file).matchAll(IMPORT)) {
      const target = specifier.startsWith('~/')
        ? path.join(file.split('/src/')[0], 'src', specifier.slice(2))
        : path.join(path.dirname(file), specifier);
      for (const name of [target, `${target}.ts`, `${target}.tsx`]) counts.get(name)?.add(file);
    }
  }
  return counts;
}

const sizes = shipped.map(linesOf).sort((a, b) => a - b);
const exempt = entries();
const single = [...importers()].filter(([file, from]) => from.size === 1 && !exempt.has(file));
/** Where a file of its own is needed: it has tests, is long, is loaded when it is used, or runs in another place than its reader. */
const ALONE_FROM_LINES = 150;
const isOfClient = (file) => /^'use client'/u.test(read(file));
const needsFile = ([file, [reader]]) =>
  linesOf(file) > ALONE_FROM_LINES ||
  files.some((test) => test.startsWith(`${file.replace(/\.tsx?$/u, '')}.`) && TEST.test(test)) ||
  new RegExp(`import\\('[^']*/${path.basename(file).replaceAll('.', '\\.')}'\\)`, 'u').test(
    read(reader),
  ) ||
  (isOfClient(file) && !isOfClient(reader));
const foldable = single.filter((one) => !needsFile(one));
const folders = new Map();
for (const file of shipped) {
  const folder = path.dirname(file);
  folders.set(folder, [...(folders.get(folder) ?? []), file]);
}
const alone = [...folders].filter(
  ([folder, inside]) =>
    inside.length === 1 &&
    !inside.some((file) => exempt.has(file)) &&
    !files.some((file) => file !== inside[0] && file.startsWith(`${folder}/`)),
);
const depth = Math.max(...shipped.map((file) => file.split('/src/')[1].split('/').length - 1));
const documents = files.filter((file) => file.endsWith('.md'));
const decisions = documents.filter((file) => /^docs\/adr\/\d/u.test(file));
const keysCore = shipped.filter((file) => file.startsWith('libs/keys-core/'));

const rows = {
  'shipped files': shipped.length,
  'median lines of one': sizes[Math.floor(sizes.length / 2)],
  'with exactly one importer': `${((single.length / shipped.length) * 100).toFixed(0)} %`,
  '… that need no file of their own': foldable.length,
  'folders with one file': alone.length,
  'deepest folder below src': depth,
  'shipped lines': sum(shipped, linesOf),
  'lines of tools, e2e, fixtures and tests': sum(others, linesOf),
  'statements written by hand in keys-core': sum(
    keysCore,
    (file) => [...read(file).matchAll(STATEMENT)].length,
  ),
  'words in documents': sum(documents, wordsOf),
  'words in the README': wordsOf('README.md'),
  'decision records': decisions.length,
};
if (process.argv.includes('--list')) {
  for (const [file, from] of single) process.stdout.write(`${file} ← ${[...from].join()}\n`);
  for (const [file] of foldable) process.stdout.write(`needs no file of its own: ${file}\n`);
  for (const [folder] of alone) process.stdout.write(`alone: ${folder}\n`);
}
for (const [name, value] of Object.entries(rows))
  process.stdout.write(`${name.padEnd(44)}${String(value)}\n`);
