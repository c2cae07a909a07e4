/**
 * Builds the package that is published, into `libs/client/dist`: `node build.mjs`.
 *
 * In this repository the client is read from its sources, with those of the libraries it is made of.
 * Published it is one file of code and one of types: what is ours lies inside, what others maintain
 * stays a dependency.
 */
import { readFileSync } from 'node:fs';
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { build } from 'esbuild';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';
import ts from 'typescript';

const here = import.meta.dirname;
const root = path.join(here, '..', '..');
const dist = path.join(here, 'dist');
const entry = path.join(here, 'src', 'index.ts');
const CONDITION = '@leasehold/source';
const source = JSON.parse(await readFile(path.join(here, 'package.json'), 'utf8'));

/** What the published package depends on: all that is not ours. */
const dependencies = Object.fromEntries(
  Object.entries(source.dependencies).filter(([name]) => !name.startsWith('@leasehold/')),
);
await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });

await build({
  entryPoints: [entry],
  outfile: path.join(dist, 'index.js'),
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  conditions: [CONDITION, 'module'],
  external: Object.keys(dependencies),
  sourcemap: 'linked',
  keepNames: true,
  legalComments: 'none',
  logLevel: 'warning',
});

// First every declaration by itself, from one program; then one file of those that are reached.
const drafts = path.join(dist, 'drafts');
emitDeclarations(drafts);
const types = await rollup({
  input: draftOf(entry),
  plugins: [{ name: 'ours', resolveId }, dts({ respectExternal: true })],
});
await types.write({ file: path.join(dist, 'index.d.ts'), format: 'es' });
await rm(drafts, { recursive: true });

const { name, version, description, license, type, engines } = source;
const manifest = {
  ...{ name, version, description, license, type, engines },
  sideEffects: false,
  exports: {
    '.': { types: './index.d.ts', default: './index.js' },
    './package.json': './package.json',
  },
  files: ['index.js', 'index.js.map', 'index.d.ts'],
  dependencies,
};
await writeFile(path.join(dist, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
await copyFile(path.join(here, 'README.md'), path.join(dist, 'README.md'));
await copyFile(path.join(root, 'LICENSE'), path.join(dist, 'LICENSE'));

/** The sources that our own libraries are entered by. */
function ourEntries() {
  const entries = new Map();
  for (const library of ['api', 'keys-core', 'service-kit']) {
    const { exports: all } = JSON.parse(
      readFileSync(path.join(root, 'libs', library, 'package.json'), 'utf8'),
    );
    for (const [subpath, conditions] of Object.entries(all)) {
      const id = path.posix.join('@leasehold', library, subpath);
      entries.set(id, path.join(root, 'libs', library, conditions[CONDITION]));
    }
  }
  return entries;
}

function emitDeclarations(outDir) {
  const { config } = ts.readConfigFile(path.join(root, 'tsconfig.base.json'), ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  const program = ts.createProgram([entry, ...ourEntries().values()], {
    ...options,
    ...{ noEmit: false, declaration: true, emitDeclarationOnly: true, noCheck: true },
    ...{ rootDir: root, outDir, rewriteRelativeImportExtensions: true },
  });
  program.emit();
}

function draftOf(sourceFile) {
  return path.join(drafts, path.relative(root, sourceFile)).replace(/\.ts$/u, '.d.ts');
}

/** What is ours is drawn in; what others maintain, and what Prisma has generated, is not. */
function resolveId(id, importer) {
  const ours = ourEntries().get(id);
  if (ours !== undefined) return draftOf(ours);
  if (path.isAbsolute(id)) return id;
  if (!id.startsWith('.') || id.includes('/generated/')) return { id, external: true };
  return path.resolve(path.dirname(importer), id).replace(/\.[jt]s$/u, '.d.ts');
}
