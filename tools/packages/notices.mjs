/**
 * The licenses of the packages of others that are inside a package of ours: who bundles code passes its
 * license on.
 */
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { INSIDE, packageFolderOf } from '../build/inside.mjs';
import { readManifest, root } from './manifests.mjs';

const LICENSE_FILE = /^(?:licen[cs]e|notice|copying)(?:[.-].*)?$/iu;
const LINE = '-'.repeat(78);

/** Of files, as paths below the folder of the repository. */
export function packagesOfFiles(files) {
  return files.map(packageFolderOf).filter((folder) => folder !== undefined);
}

/** Of what a bundler has put into one file, by the list in the folder of that file. */
export async function packagesOfBundle(folder) {
  return Object.keys(JSON.parse(await readFile(path.join(folder, INSIDE), 'utf8')));
}

/**
 * Of what a browser loads. Next keeps no list, so this is every dependency of the console, with theirs:
 * some of them may end up in no page.
 */
export async function packagesOfPages() {
  const { packages } = JSON.parse(await readFile(path.join(root, 'package-lock.json'), 'utf8'));
  const { dependencies } = await readManifest('apps', 'console');
  const found = new Set();
  const add = (name, from) => {
    const folder = nearest(packages, name, from);
    if (folder === undefined || found.has(folder)) return;
    found.add(folder);
    for (const next of Object.keys(packages[folder].dependencies ?? {})) add(next, folder);
  };
  for (const name of Object.keys(dependencies)) {
    if (!name.startsWith('@leasehold/') && name !== 'next') add(name, 'apps/console');
  }
  return [...found];
}

/** As Node finds a package: in the nearest `node_modules`. */
function nearest(packages, name, from) {
  for (let folder = from; ; folder = folder.replace(/(?:^|\/)[^/]*$/u, '')) {
    const candidate = path.posix.join(folder, 'node_modules', name);
    if (Object.hasOwn(packages, candidate)) return candidate;
    if (folder === '') return undefined;
  }
}

/** The text of the file, one entry for each version of a package. */
export async function noticesOf(folders) {
  const entries = new Map();
  for (const folder of new Set(folders)) {
    const { name, version, license } = await readManifest(folder);
    // Next has packages inside that are files without a name: its own license file covers them.
    if (name === undefined || version === undefined) continue;
    entries.set(`${name} ${version}`, {
      license,
      text: await licenseText(path.join(root, folder)),
    });
  }
  const names = [...entries.keys()].sort((one, other) => (one < other ? -1 : 1));
  const parts = names.map((name) => {
    const { license, text } = entries.get(name);
    return `${LINE}\n${name}\nLicense: ${String(license ?? 'see below')}\n\n${text}`;
  });
  const head = `This package contains code of ${String(names.length)} other packages, each under its own license.\n`;
  return `${[head, ...parts].join('\n')}\n`;
}

async function licenseText(folder) {
  const names = (await readdir(folder)).filter((name) => LICENSE_FILE.test(name)).sort();
  const texts = names.map((name) => readFile(path.join(folder, name), 'utf8').catch(() => ''));
  return (await Promise.all(texts)).map((text) => text.trim()).join('\n\n');
}
