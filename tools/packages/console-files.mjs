/**
 * The files that the console needs to run: its pages as Next has built them, and what its server loads of Next
 * and React. With them inside the package nobody installs Next, of which a running console uses a twentieth.
 */
import { cp, mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { nodeFileTrace } from '@vercel/nft';
import { root } from './manifests.mjs';

const CONSOLE = 'apps/console';
const SERVER = `${CONSOLE}/dist/main.mjs`;
const PAGES = path.join(root, CONSOLE, '.next');

/** What only builds, develops or changes images: a console in production does none of it. */
const NOT_LOADED = [
  /\/next\/dist\/(?:docs|pages|server\/typescript|compiled\/webpack)\//u,
  // A server in production loads these two of the developing one.
  /\/next\/dist\/server\/dev\/(?!browser-logs\/|hot-reloader-types\.)|\/next-server\/.*\.dev\.js$/u,
  /\.development\.js$|\.d\.[cm]?ts$|\.map$/u,
  /node_modules\/(?:typescript|sharp|semver|detect-libc|@img\/[^/]+|@next\/swc[^/]*)\//u,
];
/** Of a build: its cache, its measurements, and lists of files. */
const NOT_SERVED =
  /^(?:cache|diagnostics|types|standalone|build|trace|trace-build|turbopack)$|\.map$|\.nft\.json$/u;

/**
 * Copies the console into `target`, with its server's packages in `node_modules` beside it.
 * @returns the files of packages that it needs, as paths below the folder of the repository.
 */
export async function copyConsole(target) {
  const place = path.join(target, CONSOLE);
  await mkdir(path.join(place, 'dist'), { recursive: true });
  await cp(path.join(root, SERVER), path.join(target, SERVER));
  await cp(PAGES, path.join(place, '.next'), {
    recursive: true,
    filter: (source) => !NOT_SERVED.test(path.basename(source)),
  });
  await forgetFolder(path.join(place, '.next'));
  const modules = await serverModules();
  for (const file of modules) {
    // Two versions of one package would need two places: then this fails.
    const copy = path.join(place, file.slice(file.indexOf('node_modules/')));
    await cp(path.join(root, file), copy, { force: false, errorOnExist: true });
  }
  return modules;
}

/** What the server loads when it starts, and what Next lists for the pages that it then loads. */
async function serverModules() {
  const { fileList } = await nodeFileTrace([path.join(root, SERVER)], {
    base: root,
    processCwd: root,
    ignore: isNotLoaded,
  });
  return [...new Set([...fileList, ...(await listedByNext())])]
    .filter((file) => /^(?:apps\/console\/)?node_modules\//u.test(file) && !isNotLoaded(file))
    .sort();
}

function isNotLoaded(file) {
  return NOT_LOADED.some((pattern) => pattern.test(`/${file}`));
}

async function listedByNext() {
  const names = await readdir(PAGES, { recursive: true });
  const lists = names.filter((name) => name.endsWith('.nft.json') && !name.startsWith('cache'));
  const listed = lists.map(async (name) => {
    const { files } = JSON.parse(await readFile(path.join(PAGES, name), 'utf8'));
    const folder = path.join(PAGES, path.dirname(name));
    return files.map((file) => path.relative(root, path.join(folder, file)));
  });
  return (await Promise.all(listed)).flat();
}

/** Next notes where it has built the pages. Nothing reads that later. */
async function forgetFolder(pages) {
  for (const name of await readdir(pages, { recursive: true })) {
    if (!/\.(?:json|js)$/u.test(name)) continue;
    const file = path.join(pages, name);
    const text = await readFile(file, 'utf8');
    const place = path.join(root, '.').replace(/\/$/u, '');
    if (text.includes(place)) await writeFile(file, text.replaceAll(place, '/leasehold'));
  }
}
