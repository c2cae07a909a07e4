/**
 * Bundles one app into `apps/<app>/dist/main.mjs`: `node tools/build/bundle.mjs controller|console|drone|gateway|cli`.
 *
 * One file for each app, so that it starts fast and a single executable is only one step away.
 */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { build } from 'esbuild';
import { BUNDLE_OPTIONS, root } from './bundle-options.mjs';
import { writeInside } from './inside.mjs';

/** Where each app begins. */
const ENTRIES = {
  controller: 'main.ts',
  console: 'server/main.ts',
  drone: 'main.ts',
  gateway: 'main.ts',
  cli: 'main.ts',
};
const [, , app] = process.argv;
if (!Object.hasOwn(ENTRIES, app ?? '')) {
  console.error(`usage: node tools/build/bundle.mjs ${Object.keys(ENTRIES).join('|')}`);
  process.exit(2);
}

const outfile = path.join(root, 'apps', app, 'dist', 'main.mjs');
const { outputFiles, metafile } = await build({
  ...BUNDLE_OPTIONS,
  entryPoints: [path.join(root, 'apps', app, 'src', ENTRIES[app])],
  outfile,
  write: false,
  metafile: true,
  // Stack traces name the source; its text is in the repository.
  sourcemap: 'linked',
  sourcesContent: false,
  legalComments: 'none',
});

await mkdir(path.dirname(outfile), { recursive: true });
for (const { path: file, contents } of outputFiles) {
  // Moved into place, so that a process which starts meanwhile reads the old file or the new one.
  const draft = `${file}.${process.pid}`;
  await writeFile(draft, contents);
  await rename(draft, file);
}
await writeInside(path.dirname(outfile), metafile);
