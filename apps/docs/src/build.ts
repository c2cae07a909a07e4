/** Builds the site into `dist`: plain files, which the console serves below `/docs/`. */
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { build } from 'vitepress';
import { isWritten, ROOT, sections } from './pages.ts';
import { referencePages } from './reference/generate.ts';

const FOLDER = path.join(import.meta.dirname, '..');
/** Where the generator reads: copies of the documents, at the addresses of the site. */
const STAGE = path.join(FOLDER, '.stage');

await rm(STAGE, { recursive: true, force: true });
for (const page of sections().flatMap((section) => section.pages)) {
  if (!isWritten(page)) continue;
  await cp(path.join(ROOT, page.source), path.join(STAGE, `${page.to}.md`));
}
await cp(path.join(ROOT, 'docs/pictures'), path.join(STAGE, 'pictures'), {
  recursive: true,
  filter: (from) => !from.endsWith('.svg'),
});
for (const [to, text] of referencePages()) {
  const file = path.join(STAGE, `${to}.md`);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, text);
}
await build(FOLDER);
// For editors, which cannot read it from a page.
const SCHEMA = 'leasehold.config.schema.json';
await cp(path.join(ROOT, 'apps/cli', SCHEMA), path.join(FOLDER, 'dist/site', SCHEMA));
