/** A throw-away copy of this checkout, as it is, in which code can be broken and tested. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { cp, mkdir, readdir, readlink, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { root } from '../workspace.mjs';

/** Neither sources nor anything that tests need. */
const LEFT_OUT = new Set(['.git', '.leasehold', '.nx', '.test-results', 'out']);
/** What tools keep beside the packages: each checkout has its own. */
const CACHES = new Set(['.cache', '.vite', '.vite-temp']);
/** Their entries are links to packages, or folders of them. */
const isFolderOfPackages = (name) => name.startsWith('@') || name === '.bin';

/**
 * Makes the copy: its history, the files as they are now, what was built, and links to the packages. It is
 * removed when this process ends.
 * @returns its folder.
 */
export async function makeCopy() {
  const copy = mkdtempSync(path.join(tmpdir(), 'leasehold-mutations-'));
  process.once('exit', () => rmSync(copy, { recursive: true, force: true }));
  execFileSync('git', ['clone', '--quiet', '--shared', '--no-checkout', root, copy]);
  execFileSync('git', ['reset', '--quiet'], { cwd: copy });
  const modules = [];
  await cp(root, copy, {
    recursive: true,
    verbatimSymlinks: true,
    filter(source) {
      const name = path.basename(source);
      if (name === 'node_modules') modules.push(path.relative(root, source));
      return name !== 'node_modules' && !LEFT_OUT.has(path.relative(root, source));
    },
  });
  for (const folder of modules) await linkPackages(folder, copy);
  return copy;
}

/** A link to another project of the repository leads to the copy of that project. */
async function linkPackages(folder, copy) {
  await mkdir(path.join(copy, folder), { recursive: true });
  for (const entry of await readdir(path.join(root, folder), { withFileTypes: true })) {
    const place = path.join(folder, entry.name);
    if (CACHES.has(entry.name)) continue;
    if (entry.isDirectory() && isFolderOfPackages(entry.name)) await linkPackages(place, copy);
    else {
      const source = path.join(root, place);
      await symlink(
        entry.isSymbolicLink() ? await readlink(source) : source,
        path.join(copy, place),
      );
    }
  }
}
