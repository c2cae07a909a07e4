/** The files of a library's package: what its build made, with its manifest completed. */
import { cp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { libraryManifest, root } from './manifests.mjs';
import { noticesOf, packagesOfSourceMap } from './notices.mjs';

/** Puts the package of `libs/<library>` together in `target`. */
export async function layOutLibrary(library, target) {
  const dist = path.join(root, 'libs', library, 'dist');
  await cp(dist, target, { recursive: true });
  await cp(path.join(root, 'CHANGELOG.md'), path.join(target, 'CHANGELOG.md'));
  const inside = await packagesOfSourceMap(path.join(dist, 'index.js.map'));
  await writeFile(path.join(target, 'THIRD-PARTY-LICENSES.txt'), await noticesOf(inside));
  const manifest = JSON.stringify(await libraryManifest(library), null, 2);
  await writeFile(path.join(target, 'package.json'), `${manifest}\n`);
}
