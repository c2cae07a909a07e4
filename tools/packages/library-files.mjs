/** The files of a library's package: what its build made, with its manifest completed. */
import { cp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { INSIDE } from '../build/inside.mjs';
import { libraryManifest, root } from './manifests.mjs';
import { noticesOf, packagesOfBundle } from './notices.mjs';

/** Puts the package of `libs/<library>` together in `target`. */
export async function layOutLibrary(library, target) {
  const dist = path.join(root, 'libs', library, 'dist');
  const isPart = (file) => path.basename(file) !== INSIDE;
  await cp(dist, target, { recursive: true, filter: isPart });
  await cp(path.join(root, 'CHANGELOG.md'), path.join(target, 'CHANGELOG.md'));
  const inside = await packagesOfBundle(dist);
  await writeFile(path.join(target, 'THIRD-PARTY-LICENSES.txt'), await noticesOf(inside));
  const manifest = JSON.stringify(await libraryManifest(library), null, 2);
  await writeFile(path.join(target, 'package.json'), `${manifest}\n`);
}
