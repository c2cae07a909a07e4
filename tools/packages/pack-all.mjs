/**
 * `npm run pack:all`: the packages of a release, in `out/packages`, checked. It prints what a release would
 * publish, and publishes nothing. Installs and builds what is missing first, unless `--built` tells that nothing is;
 * `--out FOLDER` is another folder for the packages, and `--only NAME` makes one of them.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { prepare } from '../workspace.mjs';

const { values } = parseArgs({
  options: {
    built: { type: 'boolean', default: false },
    out: { type: 'string' },
    only: { type: 'string' },
  },
});
if (!values.built) await prepare('npm run pack:all');
// Loaded only now: in a fresh clone they were not installed before.
const { problemsOf, versionProblems } = await import('./checks.mjs');
const { layOutLeasehold } = await import('./leasehold-files.mjs');
const { layOutLibrary } = await import('./library-files.mjs');
const { LIBRARIES, root } = await import('./manifests.mjs');

const run = promisify(execFile);
const out = path.resolve(values.out ?? path.join(root, 'out', 'packages'));
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

await rm(out, { recursive: true, force: true, maxRetries: 10 });
const all = [
  { name: 'leasehold', layOut: layOutLeasehold },
  ...LIBRARIES.map((library) => ({
    name: `leasehold-${library}`,
    layOut: (folder) => layOutLibrary(library, folder),
  })),
];
const wanted = all.filter(({ name }) => values.only === undefined || name === values.only);
if (wanted.length === 0)
  throw new Error(`--only: must be ${all.map(({ name }) => name).join(', ')}`);
await mkdir(out, { recursive: true });
await Promise.all(wanted.map(({ name, layOut }) => layOut(path.join(out, name))));
const packages = [];
for (const { name } of wanted) packages.push(await pack(path.join(out, name)));

const problems = await versionProblems(await workspaces());
for (const packed of packages) {
  print(packed);
  problems.push(...(await problemsOf(packed)).map((problem) => `${packed.name}: ${problem}`));
}
for (const problem of problems) console.error(`✗ ${problem}`);
if (problems.length === 0) console.log('\nEvery check passed. Nothing was published.');
process.exitCode = problems.length === 0 ? 0 : 1;

/** Makes the tarball, and leaves out what no file list names. */
async function pack(folder) {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', out];
  const { stdout } = await run('npm', args, { cwd: folder, maxBuffer: OUTPUT_BYTES_MAX });
  const [packed] = JSON.parse(stdout);
  const manifest = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));
  return { ...packed, folder, manifest, tarball: path.join(out, packed.filename) };
}

/** The folders with a manifest of their own. */
async function workspaces() {
  const parents = ['libs', 'apps', 'examples'];
  const found = parents.map(async (parent) => {
    const names = await readdir(path.join(root, parent));
    return names.map((name) => path.join(parent, name));
  });
  const folders = (await Promise.all(found)).flat();
  return folders.filter((folder) => existsSync(path.join(root, folder, 'package.json')));
}

function print({ id, filename, size, unpackedSize, entryCount, manifest }) {
  const megabytes = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`;
  const list = (field) => Object.entries(manifest[field] ?? {}).map((entry) => entry.join('@'));
  console.log(`
${id}, would be published with the tag ${manifest.version.includes('-') ? 'next' : 'latest'}
  file          ${path.relative(process.cwd(), path.join(out, filename))}
  size          ${megabytes(size)}, ${megabytes(unpackedSize)} unpacked, ${String(entryCount)} files
  programs      ${Object.keys(manifest.bin ?? {}).join(', ') || 'none'}
  exports       ${Object.keys(manifest.exports).join(', ')}
  dependencies  ${list('dependencies').join(', ') || 'none'}
  optional      ${list('optionalDependencies').join(', ') || 'none'}
  brought by the service  ${list('peerDependencies').join(', ') || 'none'}`);
}
