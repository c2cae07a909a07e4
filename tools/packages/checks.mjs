/** What must hold of a packed package before it could be published. Each check answers with problems, as texts. */
import { spawnSync } from 'node:child_process';
import { readFile, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { readManifest, root } from './manifests.mjs';

/** The packages are ES modules alone: a CommonJS module of TypeScript loads them with `import()`. */
const EXPECTED_OF_TYPES = new Set(['CJSResolvesToESM']);
const START_MS_MAX = 60_000;

/** What the packages may weigh, in MB of 1,000,000 bytes: some more than today, so that growth is noticed. */
export const SIZE_LIMITS = {
  // Prisma's query compiler, which hardly shrinks, is in the controller and in the command line: 0.8 MB each.
  leasehold: { packed: 12.5, unpacked: 56 },
  '@leasehold/client': { packed: 0.45, unpacked: 1.9 },
  '@leasehold/core': { packed: 0.45, unpacked: 1.8 },
};

/** @param packed what `npm pack` reports of a package, with the `folder` that it was made of and its `tarball`. */
export async function problemsOf(packed) {
  const checks = [sizes, metadata, entries, typesOfEntries, starts, places, releaseNotes];
  return (await Promise.all(checks.map((check) => check(packed)))).flat();
}

function sizes({ name, size, unpackedSize }) {
  const { packed, unpacked } = SIZE_LIMITS[name];
  const measured = [
    { what: 'packed', bytes: size, limit: packed },
    { what: 'unpacked', bytes: unpackedSize, limit: unpacked },
  ];
  return measured
    .filter(({ bytes, limit }) => bytes > limit * 1e6)
    .map(({ what, bytes, limit }) => `${(bytes / 1e6).toFixed(2)} MB ${what}; at most ${limit} MB`);
}

async function metadata({ manifest }) {
  const needed = ['description', 'license', 'author', 'keywords', 'engines', 'exports', 'files'];
  const missing = needed.filter((field) => manifest[field] === undefined);
  const ours = Object.entries(manifest.dependencies ?? {}).filter(([name]) =>
    name.startsWith('@leasehold/'),
  );
  return [
    ...missing.map((field) => `package.json has no ${field}`),
    ...ours.map(([name]) => `depends on ${name}, which is not published`),
  ];
}

/** Every export and program exists, and is what the manifest says. */
async function entries({ folder, manifest }) {
  const { messages } = await publint({ pkgDir: folder, strict: true, pack: false });
  return messages.map((message) => formatMessage(message, manifest) ?? message.code);
}

/** The types of every export are found by every way in which TypeScript looks for them. */
async function typesOfEntries({ tarball, manifest }) {
  if (manifest.types === undefined) return [];
  const data = new Uint8Array(await readFile(tarball));
  const { types, problems } = await checkPackage(createPackageFromTarballData(data));
  if (types === false) return ['has no types'];
  return problems
    .filter(({ kind }) => !EXPECTED_OF_TYPES.has(kind))
    .map((problem) => `types: ${JSON.stringify(problem)}`);
}

/** Every export can be imported, and every program starts: each in a process of its own. */
async function starts({ folder, manifest }) {
  const modules = Object.values(manifest.exports)
    .map((target) => (typeof target === 'string' ? target : target.default))
    .filter((file) => file.endsWith('.js'))
    .map((file) => [
      '--input-type=module',
      '-e',
      `await import(${JSON.stringify(path.join(folder, file))})`,
    ]);
  const programs = Object.values(manifest.bin ?? {}).map((file) => [
    path.join(folder, file),
    '--version',
  ]);
  return [...modules, ...programs].flatMap((args) => {
    const { status, stderr } = spawnSync(process.execPath, args, {
      encoding: 'utf8',
      timeout: START_MS_MAX,
    });
    return status === 0 ? [] : [`${args.join(' ')} ends with ${String(status)}: ${stderr}`];
  });
}

/** Nothing inside names the folder that it was built in. */
async function places({ folder }) {
  const here = path.join(root, '.').replace(/\/$/u, '');
  const names = (await readdir(folder, { recursive: true })).filter((name) =>
    /\.(?:[cm]?js|json|ts|txt|md|html)$/u.test(name),
  );
  const texts = names.map(async (name) => {
    const file = path.join(folder, name);
    if (!(await stat(file)).isFile()) return [];
    const text = await readFile(file, 'utf8');
    return text.includes(here) ? [`${name} names the folder that it was built in`] : [];
  });
  return (await Promise.all(texts)).flat();
}

/** The changelog has the version. */
async function releaseNotes({ folder, manifest }) {
  const text = await readFile(path.join(folder, 'CHANGELOG.md'), 'utf8');
  const heading = `## ${manifest.version}`;
  return text.split('\n').includes(heading) ? [] : [`CHANGELOG.md has no heading "${heading}"`];
}

/** Everything in this repository has one version. */
export async function versionProblems(folders) {
  const { version } = await readManifest();
  const manifests = await Promise.all(folders.map((folder) => readManifest(folder)));
  return manifests
    .filter((manifest) => manifest.version !== version)
    .map((manifest) => `${manifest.name} has version ${manifest.version}, and not ${version}`);
}
