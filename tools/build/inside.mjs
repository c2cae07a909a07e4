/** What a bundle has inside: the packages of others, each with the bytes that it takes. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';

/** The list, in the folder of a bundle. */
export const INSIDE = 'inside.json';

/** The folder of a package in the path of one of its files: the last, where packages have packages inside. */
export function packageFolderOf(file) {
  return /^.*node_modules\/(?:@[^/]+\/)?[^/]+/u.exec(file)?.[0];
}

/** @returns bytes by the folder of the package, below the folder of the repository. */
export function insideOf({ outputs }) {
  const found = {};
  for (const { inputs } of Object.values(outputs)) {
    for (const [file, { bytesInOutput }] of Object.entries(inputs)) {
      const folder = packageFolderOf(file);
      if (folder !== undefined) found[folder] = (found[folder] ?? 0) + bytesInOutput;
    }
  }
  return Object.fromEntries(Object.entries(found).sort());
}

/** Writes the list into the folder of a bundle. */
export async function writeInside(folder, metafile) {
  const text = JSON.stringify(insideOf(metafile), null, 2);
  await writeFile(path.join(folder, INSIDE), `${text}\n`);
}
