/**
 * The files of the package `leasehold`. It has the folders of the repository, so that its programs find each
 * other, the migrations and the example in an installation as they do here.
 */
import { cp, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { copyConsole } from './console-files.mjs';
import { leaseholdManifest, root } from './manifests.mjs';
import { noticesOf, packagesOfFiles, packagesOfPages, packagesOfBundle } from './notices.mjs';

const BUNDLES = ['cli', 'controller', 'drone', 'console', 'gateway'];
/** What is copied as it is. Of the example only what runs. */
const COPIES = [
  'apps/cli/bin',
  ...['cli', 'controller', 'drone', 'gateway'].map((app) => `apps/${app}/dist/main.mjs`),
  'prisma/migrations',
  'apps/docs/dist/site',
  ...['README.md', 'claim.mjs', 'room.mjs', 'server.mjs', 'store.mjs'].map(
    (file) => `examples/room-server/${file}`,
  ),
  'LICENSE',
  'CHANGELOG.md',
];

/** Puts the package together in `target`. */
export async function layOutLeasehold(target) {
  await mkdir(target, { recursive: true });
  for (const name of COPIES) {
    await cp(path.join(root, name), path.join(target, name), { recursive: true });
  }
  for (const name of ['README.md', 'leasehold.config.schema.json']) {
    await cp(path.join(root, 'apps/cli', name), path.join(target, name));
  }
  const modules = await copyConsole(target);
  const bundles = BUNDLES.map((app) => path.join(root, 'apps', app, 'dist'));
  const inside = [
    ...(await Promise.all(bundles.map(packagesOfBundle))).flat(),
    ...packagesOfFiles(modules),
    ...(await packagesOfPages()),
    ...(await packagesOfBundle(path.join(root, 'apps/docs/dist'))),
  ];
  await writeFile(path.join(target, 'THIRD-PARTY-LICENSES.txt'), await noticesOf(inside));
  const manifest = JSON.stringify(await leaseholdManifest(), null, 2);
  await writeFile(path.join(target, 'package.json'), `${manifest}\n`);
}
