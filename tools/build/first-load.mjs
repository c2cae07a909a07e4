/**
 * What a browser must load before a page of the console runs: the JavaScript of each page, in KB of
 * 1,000 bytes as they are sent, gzipped. Fails when one is larger than the budget.
 *
 * From Next's own manifests: what every page begins with, and what the page and its layouts name.
 * The polyfills are not counted: browsers that know modules do not load them. What a page loads
 * later, on demand, is not counted either.
 */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';
import { gzipSync } from 'node:zlib';

const BUDGET_KB = 250;
const MANIFEST = 'page_client-reference-manifest.js';

const build = fileURLToPath(new URL('../../apps/console/.next', import.meta.url));
const { rootMainFiles } = JSON.parse(
  await readFile(path.join(build, 'build-manifest.json'), 'utf8'),
);
const sizes = new Map();

const pages = (await Promise.all((await manifests()).map(measure)))
  .flat()
  .sort((one, other) => one.name.localeCompare(other.name));
if (pages.length === 0) throw new Error('no page was found in what Next has built');

const width = Math.max(...pages.map(({ name }) => name.length));
console.log(`\nFirst load of each page: JavaScript, gzipped; at most ${String(BUDGET_KB)} KB`);
for (const { name, kb } of pages) {
  const mark = kb > BUDGET_KB ? '  too large' : '';
  console.log(`  ${name.padEnd(width)}  ${kb.toFixed(1).padStart(6)} KB${mark}`);
}
if (pages.some(({ kb }) => kb > BUDGET_KB)) process.exit(1);

async function manifests() {
  const app = path.join(build, 'server', 'app');
  const files = await readdir(app, { recursive: true });
  return files
    .filter((file) => path.basename(file) === MANIFEST)
    .map((file) => path.join(app, file));
}

/** The pages that one manifest describes, each with its size. */
async function measure(manifest) {
  const context = vm.createContext({});
  vm.runInContext(await readFile(manifest, 'utf8'), context);
  return Promise.all(
    Object.entries(context.__RSC_MANIFEST).map(async ([entry, { entryJSFiles }]) => {
      const files = new Set([...rootMainFiles, ...Object.values(entryJSFiles).flat()]);
      const bytes = await Promise.all([...files].map(gzipped));
      const kb = bytes.reduce((sum, size) => sum + size, 0) / 1_000;
      return { name: nameOf(entry), kb };
    }),
  );
}

/** `/(console)/keys/page` is the page `/keys`: folders in brackets are no part of an address. */
function nameOf(entry) {
  const parts = entry.split('/').filter((part) => part !== '' && !/^\(.*\)$/u.test(part));
  return `/${parts.slice(0, -1).join('/')}`;
}

async function gzipped(file) {
  let size = sizes.get(file);
  if (size === undefined) {
    size = readFile(path.join(build, file)).then((bytes) => gzipSync(bytes).length);
    sizes.set(file, size);
  }
  return size;
}
