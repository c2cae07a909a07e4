/**
 * Builds a library as it is published, into its `dist`:
 *
 *   node tools/build/pack-library.mjs client --with api --with keys-core --inside @trpc/client
 *
 * `--with` names a library of ours that is a part of it, and `--inside` a package of others.
 *
 * In this repository a library is read from its sources, with those of the libraries it is made of.
 * Published, it is one file of code and one of types for each of its exports, and what they share. What others maintain stays a dependency, unless it would
 * bring what a service does not need: tRPC's packages ask npm for TypeScript.
 */
import { existsSync, readFileSync } from 'node:fs';
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';
import ts from 'typescript';
import { writeInside } from './inside.mjs';

const CONDITION = '@leasehold/source';
const root = path.join(import.meta.dirname, '..', '..');
const FORMAT = {
  getCanonicalFileName: (file) => file,
  getCurrentDirectory: () => root,
  getNewLine: () => '\n',
};

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    with: { type: 'string', multiple: true, default: [] },
    inside: { type: 'string', multiple: true, default: [] },
  },
});
await packLibrary(path.join(root, 'libs', positionals[0]), values);

async function packLibrary(folder, { with: madeOf, inside }) {
  const dist = path.join(folder, 'dist');
  const source = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));
  const modules = modulesOf(folder, source);
  const dependencies = notOurs(source.dependencies, inside);
  const peers = notOurs(source.peerDependencies, inside);
  await rm(dist, { recursive: true, force: true });
  await mkdir(dist, { recursive: true });

  const { metafile } = await build({
    entryPoints: Object.fromEntries(modules.map(({ name, entry }) => [name, entry])),
    outdir: dist,
    // A class must be the same one in all exports.
    splitting: modules.length > 1,
    chunkNames: 'shared-[hash]',
    absWorkingDir: root,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    conditions: [CONDITION, 'module'],
    plugins: [asNeeded([...Object.keys(dependencies), ...Object.keys(peers)])],
    sourcemap: 'linked',
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
  });
  await writeInside(dist, metafile);
  await writeTypes({ dist, modules, madeOf, inside });

  const { name, version, description, license, type, engines, peerDependenciesMeta } = source;
  const manifest = {
    name,
    version,
    description,
    license,
    type,
    engines,
    sideEffects: false,
    exports: {
      ...Object.fromEntries(
        modules.map(({ subpath, name: file }) => [
          subpath,
          { types: `./${file}.d.ts`, default: `./${file}.js` },
        ]),
      ),
      './package.json': './package.json',
    },
    files: ['*.js', '*.js.map', '*.d.ts'],
    ...(Object.keys(dependencies).length === 0 ? {} : { dependencies }),
    ...(Object.keys(peers).length === 0 ? {} : { peerDependencies: peers, peerDependenciesMeta }),
  };
  await writeFile(path.join(dist, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  await copyFile(path.join(folder, 'README.md'), path.join(dist, 'README.md'));
  await copyFile(path.join(root, 'LICENSE'), path.join(dist, 'LICENSE'));
}

/** What a library exports: `.` is `index`, `./testing` is `testing`. */
function modulesOf(folder, { exports: all }) {
  return Object.entries(all).map(([subpath, conditions]) => ({
    subpath,
    name: subpath === '.' ? 'index' : path.posix.basename(subpath),
    entry: path.join(folder, conditions[CONDITION]),
  }));
}

function notOurs(dependencies = {}, inside) {
  const isOurs = (name) => name.startsWith('@leasehold/') || inside.includes(name);
  return Object.fromEntries(Object.entries(dependencies).filter(([name]) => !isOurs(name)));
}

/** What others maintain is imported only if something of it is used: a service need not have every peer. */
function asNeeded(names) {
  return {
    name: 'as-needed',
    setup({ onResolve }) {
      onResolve({ filter: /^[^.]/ }, ({ path: id }) => {
        const isTheirs = names.some((name) => id === name || id.startsWith(`${name}/`));
        return isTheirs ? { path: id, external: true, sideEffects: false } : undefined;
      });
    },
  };
}

/** First every declaration by itself, from one program; then a file for each export of those that are reached. */
async function writeTypes({ dist, modules, madeOf, inside }) {
  const entries = entriesOf(madeOf);
  const drafts = path.join(dist, 'drafts');
  emitDeclarations([...modules.map(({ entry }) => entry), ...entries.values()], drafts);
  const draftOf = (file) => path.join(drafts, path.relative(root, file)).replace(/\.ts$/u, '.d.ts');
  const isInside = (id) => inside.some((name) => id === name || id.startsWith(`${name}/`));
  /** What others maintain stays outside unless it is named, and so does what Prisma has generated. */
  const resolveId = (id, importer) => {
    const ours = entries.get(id);
    if (ours !== undefined) return draftOf(ours);
    if (path.isAbsolute(id)) return id;
    if (isInside(id)) return typesOf(id, modules[0].entry);
    if (!id.startsWith('.') || id.includes('/generated/')) return { id, external: true };
    const file = path.resolve(path.dirname(importer), id);
    // CommonJS packages name files without their endings.
    if (existsSync(`${file}.d.ts`)) return `${file}.d.ts`;
    return file.replace(/\.(m?)[jt]s$/u, '.d.$1ts');
  };
  const types = await rollup({
    input: Object.fromEntries(modules.map(({ name, entry }) => [name, draftOf(entry)])),
    plugins: [{ name: 'ours', resolveId }, dts({ respectExternal: true })],
    // Imported values that no type uses.
    onLog: (level, log, report) => {
      if (log.code !== 'UNUSED_EXTERNAL_IMPORT') report(level, log);
    },
  });
  const names = { entryFileNames: '[name].d.ts', chunkFileNames: 'shared-[hash].d.ts' };
  await types.write({ dir: dist, format: 'es', ...names });
  await rm(drafts, { recursive: true });
}

/** The file with the types of a package of others. */
function typesOf(id, importer) {
  const options = {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  };
  const mode = ts.ModuleKind.ESNext;
  const found = ts.resolveModuleName(id, importer, options, ts.sys, undefined, undefined, mode);
  if (found.resolvedModule === undefined) throw new Error(`${id} has no types`);
  return found.resolvedModule.resolvedFileName;
}

/** The entry sources of our own libraries, by the name of each import. */
function entriesOf(libraries) {
  const entries = new Map();
  for (const library of libraries) {
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

function emitDeclarations(entries, outDir) {
  const { config } = ts.readConfigFile(path.join(root, 'tsconfig.base.json'), ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  const program = ts.createProgram(entries, {
    ...options,
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    noCheck: true,
    rootDir: root,
    outDir,
    rewriteRelativeImportExtensions: true,
  });
  const { diagnostics } = program.emit();
  // A type that a public one needs, and that its library does not export, for example.
  if (diagnostics.length > 0) throw new Error(ts.formatDiagnostics(diagnostics, FORMAT));
}
